//! Folds the writes of a transaction: several changes of a job become one final image of its rows.
//!
//! A transaction then changes each row of a job once, in one statement. A database that gets the
//! whole transaction as one statement requires this, and no database repeats work.

use std::collections::HashMap;

use cloakwork_keystore::{Pin, Pinning, Releasing};
use cloakwork_proto::v1::{JobState, LatencyRecord};
use cloakwork_scheduler::JobId;
use cloakwork_storage::{Batch, Each, Values};
use cloakwork_trace::TraceContext;
use prost::Message as _;

use super::{
    key_parts,
    programs::KnownPrograms,
    write::{Attempt, NewJob, Requeued, Write},
};
use crate::jobs::{Content, End, id};

/// The images of all jobs that a transaction changes, in the order of their first changes.
pub(super) struct Images<'w> {
    images: Vec<Image<'w>>,
}

/// The changes of one job in a transaction.
struct Image<'w> {
    job: JobId,
    new: Option<&'w NewJob>,
    schedule: Option<Schedule>,
    promised: bool,
    end: Option<&'w End>,
    /// The final latency record, once the stored inputs can be deleted.
    closed: Option<&'w LatencyRecord>,
}

/// The scheduler's memory of a job.
#[derive(Clone, Copy)]
struct Schedule {
    state: JobState,
    epoch: u64,
    attempts: u32,
    worker: Option<u128>,
    suspect: Option<u64>,
    solo_crashes: u32,
}

impl<'w> Images<'w> {
    pub(super) fn of(writes: &'w [Write]) -> Self {
        let (mut images, mut places) = (Vec::<Image<'w>>::new(), HashMap::new());
        for write in writes {
            let job = write.job();
            let place = *places.entry(job).or_insert_with(|| {
                images.push(Image::of(job));
                images.len() - 1
            });
            images[place].take(write);
        }
        Self { images }
    }

    /// Adds one statement of each kind, for all jobs together. Several images never concern the
    /// same row, so their order does not matter.
    pub(super) fn add_to(&self, batch: &mut Batch, programs: &KnownPrograms) {
        let new = || self.images.iter().filter_map(|image| Some((image, image.new?)));
        let old = || self.images.iter().filter(|image| image.new.is_none());
        // Programs come first, so that their tenants have rows of usage.
        new().for_each(|(_, new)| programs.keep(batch, &new.meta, &new.program));
        let mut rows = batch.each(INSERT);
        new().for_each(|(image, new)| image.insert(new, rows.row()));
        drop(rows);
        let mut rows = batch.each(END);
        old().for_each(|image| _ = image.end.map(|end| image.update_end(end, rows.row())));
        drop(rows);
        let unended = || old().filter(|image| image.end.is_none());
        let mut rows = batch.each(SCHEDULE);
        unended().for_each(|image| _ = image.schedule.map(|schedule| image.update_schedule(schedule, rows.row())));
        drop(rows);
        let mut rows = batch.each(CLOSE);
        let settled = || unended().filter(|image| image.schedule.is_none());
        for (image, record) in settled().filter_map(|image| Some((image, image.closed?))) {
            rows.row().bind(image.id()).bind(record.encode_to_vec());
        }
        drop(rows);
        let mut rows = batch.each(PROMISE);
        settled().filter(|image| image.closed.is_none()).for_each(|image| _ = rows.row().bind(image.id()));
        drop(rows);
        let mut rows = batch.each(INPUTS);
        new()
            .filter(|(image, _)| image.closed.is_none() || image.end.is_none())
            .for_each(|(image, new)| contents(&mut rows, image.job, &new.inputs));
        drop(rows);
        let mut rows = batch.each(OUTPUTS);
        let ends = || self.images.iter().filter_map(|image| Some((image, image.end?)));
        ends().for_each(|(image, end)| contents(&mut rows, image.job, &end.outputs));
        drop(rows);
        let mut pinning = Pinning::of(batch);
        new().filter(|(image, _)| image.end.is_none()).for_each(|(_, new)| pin_inputs(new, &mut pinning));
        drop(pinning);
        let mut releasing = Releasing::of(batch);
        old().filter(|image| image.end.is_some()).for_each(|image| releasing.add(&image.id()));
        // Outputs that a worker handed in for a job that then did not succeed.
        let failed = ends().filter(|(_, end)| end.state != JobState::Succeeded);
        failed.for_each(|(image, _)| releasing.add(&id::output_holder(image.job)));
        drop(releasing);
        let mut rows = batch.each(DROP_INPUTS);
        old().filter(|image| image.closed.is_some()).for_each(|image| _ = rows.row().bind(image.id()));
    }
}

/// Adds the row of a job.
const INSERT: &str = "INSERT INTO jobs (id, tenant, request_id, request_digest, program, key_id, parameter_set, \
    row_count, pbs_count, priority, inline_outputs, keep_outputs_micros, created_micros, deadline_micros, cost, \
    key_parts, operation, trace, promised, state, epoch, attempts, worker, suspect, solo_crashes, ended_micros, \
    outputs_expire_micros, reason, message, latency, has_outputs, attestation, done_bootstraps, device_nanos) VALUES ($1, $2, $3, $4, $5, $6, $7, \
    $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, \
    $31, $32, $33, $34)";

/// Changes the row of a job that ends. `$4` says whether the schedule changes as well.
const END: &str = "UPDATE jobs SET promised = CASE WHEN $2 = 1 THEN 1 ELSE promised END, state = $3, worker = NULL, \
    epoch = CASE WHEN $4 = 1 THEN $5 ELSE epoch END, attempts = CASE WHEN $4 = 1 THEN $6 ELSE attempts END, \
    suspect = CASE WHEN $4 = 1 THEN $7 ELSE suspect END, \
    solo_crashes = CASE WHEN $4 = 1 THEN $8 ELSE solo_crashes END, ended_micros = $9, outputs_expire_micros = $10, \
    reason = $11, message = $12, latency = $13, has_outputs = $14, attestation = $15, done_bootstraps = $16, \
    device_nanos = $17 WHERE id = $1";

/// Changes the schedule in the row of a job.
const SCHEDULE: &str = "UPDATE jobs SET promised = CASE WHEN $2 = 1 THEN 1 ELSE promised END, state = $3, \
    epoch = $4, attempts = $5, worker = $6, suspect = $7, solo_crashes = $8 WHERE id = $1";

/// Stores the final latency record of a job that has ended. A crash of the database can undo the
/// end before this record arrives, and the job is then computed again.
const CLOSE: &str = "UPDATE jobs SET latency = $2, promised = 1 WHERE id = $1 AND ended_micros IS NOT NULL";

/// Promises a job. This update must change a row: SQLite waits for the disk only if the transaction
/// writes.
const PROMISE: &str = "UPDATE jobs SET promised = 1 WHERE id = $1";

const INPUTS: &str = "INSERT INTO job_inputs (job, place, digest, size_bytes, bytes) VALUES ($1, $2, $3, $4, $5) \
    ON CONFLICT DO NOTHING";

const OUTPUTS: &str = "INSERT INTO job_outputs (job, place, digest, size_bytes, bytes) VALUES ($1, $2, $3, $4, $5) \
    ON CONFLICT DO NOTHING";

/// Deletes the inputs of a job that needs them no more. A job whose end was undone still needs
/// them.
const DROP_INPUTS: &str = "DELETE FROM job_inputs WHERE job = $1 AND NOT EXISTS \
    (SELECT 1 FROM jobs WHERE jobs.id = job_inputs.job AND jobs.ended_micros IS NULL)";

impl<'w> Image<'w> {
    fn of(job: JobId) -> Self {
        Self { job, new: None, schedule: None, promised: false, end: None, closed: None }
    }

    fn id(&self) -> [u8; 16] {
        id::to_bytes(self.job)
    }

    fn take(&mut self, write: &'w Write) {
        match write {
            Write::Submitted(new) => {
                self.new = Some(new);
                self.promised |= new.promised;
            }
            Write::Confirmed(_) => self.promised = true,
            Write::Attempt(attempt) => self.schedule = Some(attempt.into()),
            Write::Requeued(requeued) => self.schedule = Some(requeued.into()),
            Write::Ended(ended) => self.end = Some(&ended.end),
            Write::Closed(_, record) => {
                self.promised = true;
                self.closed = Some(record);
            }
        }
    }

    /// Binds the values of [`INSERT`].
    fn insert(&self, new: &NewJob, row: Values<'_>) {
        let meta = &*new.meta;
        let schedule = self.schedule.unwrap_or(Schedule::NEW);
        let row = row
            .bind(self.id())
            .bind(&*meta.tenant)
            .bind(meta.request_id)
            .bind(meta.request_digest)
            .bind(meta.program.0)
            .bind(meta.key_id.0)
            .bind(meta.set.id().0)
            .bind(meta.rows as i64)
            .bind(meta.pbs_count as i64)
            .bind(i32::from(meta.priority))
            .bind(meta.inline_outputs)
            .bind(meta.keep_outputs_micros)
            .bind(meta.created_micros)
            .bind(meta.deadline_micros)
            .bind(meta.cost as i64)
            // Jobs of a TFHE set always need the set's two parts, so the row stores none.
            .bind(meta.set.ckks().map(|_| key_parts::to_bytes(&new.key_parts)))
            .bind(Some(meta.operation.to_owned()))
            .bind(meta.trace.map(TraceContext::to_bytes))
            .bind(self.promised)
            .bind(self.end.map_or(schedule.state, |end| end.state) as i32)
            .bind(schedule.epoch as i64)
            .bind(schedule.attempts)
            .bind(schedule.worker.filter(|_| self.end.is_none()).map(u128::to_be_bytes))
            .bind(schedule.suspect.map(|group| group as i64))
            .bind(schedule.solo_crashes);
        self.bind_end(row);
    }

    /// Binds the values of [`END`].
    fn update_end(&self, end: &End, row: Values<'_>) {
        let schedule = self.schedule;
        let row = row
            .bind(self.id())
            .bind(self.promised)
            .bind(end.state as i32)
            .bind(schedule.is_some())
            .bind(schedule.map(|schedule| schedule.epoch as i64))
            .bind(schedule.map(|schedule| schedule.attempts))
            .bind(schedule.and_then(|schedule| schedule.suspect).map(|group| group as i64))
            .bind(schedule.map(|schedule| schedule.solo_crashes));
        self.bind_end(row);
    }

    /// Binds the values of [`SCHEDULE`].
    fn update_schedule(&self, schedule: Schedule, row: Values<'_>) {
        row.bind(self.id())
            .bind(self.promised)
            .bind(schedule.state as i32)
            .bind(schedule.epoch as i64)
            .bind(schedule.attempts)
            .bind(schedule.worker.map(u128::to_be_bytes))
            .bind(schedule.suspect.map(|group| group as i64))
            .bind(schedule.solo_crashes);
    }

    /// Binds how the job ended, or no values.
    fn bind_end(&self, row: Values<'_>) {
        let error = self.end.and_then(|end| end.error.as_ref());
        let latency = self.closed.or(self.end.map(|end| &end.latency));
        row.bind(self.end.map(|end| end.ended_micros))
            .bind(self.end.and_then(|end| end.outputs_expire_micros))
            .bind(error.map(|error| error.reason.clone()))
            .bind(error.map(|error| error.message.clone()))
            .bind(latency.map(|record| record.encode_to_vec()))
            .bind(self.end.is_some_and(|end| !end.outputs.is_empty()))
            .bind(self.end.and_then(|end| end.attestation.as_ref()).map(|attestation| attestation.encode_to_vec()))
            .bind(latency.map(|record| bounded(record.pbs_count)))
            .bind(latency.map(|record| bounded(record.device_nanos)));
    }
}

/// A number as the database stores it, at most the largest one.
fn bounded(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Schedule {
    /// The schedule of a job that was never assigned to a worker.
    const NEW: Self =
        Self { state: JobState::Queued, epoch: 0, attempts: 0, worker: None, suspect: None, solo_crashes: 0 };
}

impl From<&Attempt> for Schedule {
    fn from(attempt: &Attempt) -> Self {
        let Attempt { epoch, attempts, worker, suspect, solo_crashes, .. } = *attempt;
        Self { state: JobState::Running, epoch, attempts, worker: Some(worker), suspect, solo_crashes }
    }
}

impl From<&Requeued> for Schedule {
    fn from(requeued: &Requeued) -> Self {
        let Requeued { epoch, attempts, suspect, solo_crashes, .. } = *requeued;
        Self { state: JobState::Queued, epoch, attempts, worker: None, suspect, solo_crashes }
    }
}

/// Pins the input blobs of a new job.
fn pin_inputs(new: &NewJob, pinning: &mut Pinning<'_>) {
    // The end of the job releases the pin, in one transaction. The pin has no time of its own: the
    // deadline follows the monotonic clock, and the time of day may jump past it.
    let pin = Pin { holder: id::to_bytes(new.meta.id), until_micros: None };
    let blobs = new.inputs.iter().filter(|input| input.bytes.is_none());
    pinning.add(&pin, &new.meta.tenant, blobs.map(|input| &input.digest));
}

fn contents(rows: &mut Each<'_>, job: JobId, contents: &[Content]) {
    for (place, content) in contents.iter().enumerate() {
        rows.row()
            .bind(id::to_bytes(job))
            .bind(place as i64)
            .bind(content.digest)
            .bind(content.size_bytes as i64)
            .bind(content.bytes.as_ref().map(|bytes| &bytes[..]));
    }
}

#[cfg(test)]
mod tests;
