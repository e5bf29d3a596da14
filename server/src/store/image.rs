//! Folds the writes of a transaction: several changes of a job become one final image of its rows.
//!
//! A transaction then changes each row of a job once, in one statement. A database that gets the
//! whole transaction as one statement requires this, and no database repeats work.

use std::collections::HashMap;

use cloakwork_keystore::{Pin, release_pins};
use cloakwork_proto::v1::{JobState, LatencyRecord};
use cloakwork_scheduler::JobId;
use cloakwork_storage::Batch;
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

    pub(super) fn add_to(&self, batch: &mut Batch, programs: &KnownPrograms) {
        for image in &self.images {
            match image.new {
                Some(new) => image.insert(new, batch, programs),
                None => image.update(batch),
            }
        }
    }
}

impl<'w> Image<'w> {
    fn of(job: JobId) -> Self {
        Self { job, new: None, schedule: None, promised: false, end: None, closed: None }
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

    /// Adds the rows of a new job.
    fn insert(&self, new: &NewJob, batch: &mut Batch, programs: &KnownPrograms) {
        let meta = &*new.meta;
        // The program comes first, so that the tenant has a row of usage.
        programs.keep(batch, meta, &new.program);
        let schedule = self.schedule.unwrap_or(Schedule::NEW);
        let values = batch
            .push(
                "INSERT INTO jobs (id, tenant, request_id, request_digest, program, key_id, parameter_set, row_count, \
                 pbs_count, priority, inline_outputs, keep_outputs_micros, created_micros, deadline_micros, cost, \
                 key_parts, promised, state, epoch, attempts, worker, suspect, solo_crashes, ended_micros, \
                 outputs_expire_micros, reason, message, latency, has_outputs, attestation) VALUES ($1, $2, $3, $4, \
                 $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, \
                 $26, $27, $28, $29, $30)",
            )
            .bind(id::to_bytes(meta.id))
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
            .bind(self.promised)
            .bind(self.end.map_or(schedule.state, |end| end.state) as i32)
            .bind(schedule.epoch as i64)
            .bind(schedule.attempts)
            .bind(schedule.worker.filter(|_| self.end.is_none()).map(u128::to_be_bytes))
            .bind(schedule.suspect.map(|group| group as i64))
            .bind(schedule.solo_crashes);
        self.bind_end(values);
        if self.closed.is_none() {
            contents(batch, "job_inputs", meta.id, &new.inputs);
        }
        match self.end {
            None => pins(new, batch),
            Some(end) => {
                contents(batch, "job_outputs", meta.id, &end.outputs);
                release_outputs(end, meta.id, batch);
            }
        }
    }

    /// Changes the rows of a job that the store has.
    fn update(&self, batch: &mut Batch) {
        let job = id::to_bytes(self.job);
        match (self.end, self.schedule, self.closed) {
            (Some(end), schedule, _) => {
                let values = batch
                    .push(
                        "UPDATE jobs SET promised = CASE WHEN $2 = 1 THEN 1 ELSE promised END, state = $3, \
                         worker = NULL, epoch = CASE WHEN $4 = 1 THEN $5 ELSE epoch END, \
                         attempts = CASE WHEN $4 = 1 THEN $6 ELSE attempts END, \
                         suspect = CASE WHEN $4 = 1 THEN $7 ELSE suspect END, \
                         solo_crashes = CASE WHEN $4 = 1 THEN $8 ELSE solo_crashes END, ended_micros = $9, \
                         outputs_expire_micros = $10, reason = $11, message = $12, latency = $13, \
                         has_outputs = $14, attestation = $15 WHERE id = $1",
                    )
                    .bind(job)
                    .bind(self.promised)
                    .bind(end.state as i32)
                    .bind(schedule.is_some())
                    .bind(schedule.map(|schedule| schedule.epoch as i64))
                    .bind(schedule.map(|schedule| schedule.attempts))
                    .bind(schedule.and_then(|schedule| schedule.suspect).map(|group| group as i64))
                    .bind(schedule.map(|schedule| schedule.solo_crashes));
                self.bind_end(values);
                contents(batch, "job_outputs", self.job, &end.outputs);
                release_pins(batch, &job);
                release_outputs(end, self.job, batch);
            }
            (None, Some(schedule), _) => {
                batch
                    .push(
                        "UPDATE jobs SET promised = CASE WHEN $2 = 1 THEN 1 ELSE promised END, state = $3, epoch = $4, \
                         attempts = $5, worker = $6, suspect = $7, solo_crashes = $8 WHERE id = $1",
                    )
                    .bind(job)
                    .bind(self.promised)
                    .bind(schedule.state as i32)
                    .bind(schedule.epoch as i64)
                    .bind(schedule.attempts)
                    .bind(schedule.worker.map(u128::to_be_bytes))
                    .bind(schedule.suspect.map(|group| group as i64))
                    .bind(schedule.solo_crashes);
            }
            (None, None, Some(record)) => {
                let update = batch.push("UPDATE jobs SET latency = $2, promised = 1 WHERE id = $1");
                update.bind(job).bind(record.encode_to_vec());
            }
            (None, None, None) => {
                // This update must change a row: SQLite waits for the disk only if the transaction
                // writes.
                batch.push("UPDATE jobs SET promised = 1 WHERE id = $1").bind(job);
            }
        }
        if self.closed.is_some() {
            batch.push("DELETE FROM job_inputs WHERE job = $1").bind(job);
        }
    }

    /// Binds how the job ended, or no values.
    fn bind_end(&self, values: cloakwork_storage::Values<'_>) {
        let error = self.end.and_then(|end| end.error.as_ref());
        let latency = self.closed.or(self.end.map(|end| &end.latency));
        values
            .bind(self.end.map(|end| end.ended_micros))
            .bind(self.end.and_then(|end| end.outputs_expire_micros))
            .bind(error.map(|error| error.reason.clone()))
            .bind(error.map(|error| error.message.clone()))
            .bind(latency.map(|record| record.encode_to_vec()))
            .bind(self.end.is_some_and(|end| !end.outputs.is_empty()))
            .bind(self.end.and_then(|end| end.attestation.as_ref()).map(|attestation| attestation.encode_to_vec()));
    }
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
fn pins(new: &NewJob, batch: &mut Batch) {
    // The end of the job releases the pin, in one transaction. The pin has no time of its own: the
    // deadline follows the monotonic clock, and the time of day may jump past it.
    let pin = Pin { holder: id::to_bytes(new.meta.id), until_micros: None };
    let blobs = new.inputs.iter().filter(|input| input.bytes.is_none());
    pin.add_to(batch, &new.meta.tenant, blobs.map(|input| &input.digest));
}

/// Releases the outputs that a worker handed in for a job that then did not succeed.
fn release_outputs(end: &End, job: JobId, batch: &mut Batch) {
    if end.state != JobState::Succeeded {
        release_pins(batch, &id::output_holder(job));
    }
}

fn contents(batch: &mut Batch, table: &'static str, job: JobId, contents: &[Content]) {
    for (chunk, rows) in contents.chunks(ROWS_MAX).enumerate() {
        let mut values = batch.push_rows(table, &["job", "place", "digest", "size_bytes", "bytes"], rows.len());
        for (row, content) in rows.iter().enumerate() {
            values = values
                .bind(id::to_bytes(job))
                .bind((chunk * ROWS_MAX + row) as i64)
                .bind(content.digest)
                .bind(content.size_bytes as i64)
                .bind(content.bytes.as_ref().map(|bytes| &bytes[..]));
        }
    }
}

/// Maximum number of rows in one statement. At this size, parsing the statement takes less time
/// than running it.
const ROWS_MAX: usize = 64;

#[cfg(test)]
mod tests;
