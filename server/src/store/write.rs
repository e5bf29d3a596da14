//! The dispatcher's writes: many changes in one transaction (group commit). The transaction waits
//! for the disk once, and only if a caller relies on the changes.

use std::sync::Arc;

use bytes::Bytes;
use cloakwork_keystore::Digest;
use cloakwork_proto::v1::{JobState, LatencyRecord};
use cloakwork_scheduler::JobId;
use prost::Message as _;

use super::{Store, key_parts, programs::KnownPrograms};
use crate::{
    database::{Batch, Survival},
    jobs::{Content, End, JobMeta, id},
};

/// A change of a job.
#[derive(Clone, Debug)]
pub enum Write {
    /// A job was accepted, and possibly assigned to a worker in the same transaction.
    Submitted(NewJob),
    /// A job that was not promised becomes promised.
    Confirmed(JobId),
    /// A job is about to be handed to a worker.
    Attempt(Attempt),
    /// A job went back to the queue.
    Requeued(Requeued),
    /// A job ended.
    Ended(Ended),
    /// A job's end is committed. The latency record now includes the cost of the end itself, and
    /// the inputs are no longer read.
    Closed(JobId, LatencyRecord),
}

/// A job that was accepted.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// The job's metadata.
    pub meta: Arc<JobMeta>,
    /// The program's bytes, for a program that is not registered.
    pub program: Bytes,
    /// The inputs.
    pub inputs: Arc<[Content]>,
    /// Parts of the key that the job needs.
    pub key_parts: Vec<Digest>,
    /// Fencing epoch and worker of the first attempt, if it is part of this transaction.
    pub first: Option<(u64, u128)>,
    /// Whether a party relies on the job besides the call that waits for its result.
    pub promised: bool,
}

/// A job that is about to be handed to a worker.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// The job.
    pub job: JobId,
    /// The attempt's fencing epoch.
    pub epoch: u64,
    /// Failed and lost attempts before this one.
    pub attempts: u32,
    /// The worker that gets the job.
    pub worker: u128,
    /// The job's group of suspects, if it is a suspect.
    pub suspect: Option<u64>,
    /// Number of workers that the job crashed while it ran alone.
    pub solo_crashes: u32,
}

/// A job that went back to the queue.
#[derive(Clone, Copy, Debug)]
pub struct Requeued {
    /// The job.
    pub job: JobId,
    /// Fencing epoch of the attempt that is over.
    pub epoch: u64,
    /// Number of failed and lost attempts so far.
    pub attempts: u32,
    /// The job's group of suspects, if it is a suspect.
    pub suspect: Option<u64>,
    /// Number of workers that the job crashed while it ran alone.
    pub solo_crashes: u32,
}

/// A job that ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The job.
    pub job: JobId,
    /// How the job ended.
    pub end: Arc<End>,
}

impl Store {
    /// Commits all of `writes`, or none of them.
    pub async fn apply(&self, survival: Survival, writes: &[Write]) -> Result<(), sqlx::Error> {
        for write in writes {
            if let Write::Submitted(NewJob { meta, .. }) = write {
                self.requests.insert(&meta.tenant, &meta.request_id);
            }
        }
        let fill = |batch: &mut Batch| writes.iter().for_each(|write| write.add_to(batch, &self.programs));
        let applied = self.database.apply(survival, fill).await;
        if applied.is_err() {
            self.programs.forget();
        }
        applied
    }
}

impl Write {
    fn add_to(&self, batch: &mut Batch, programs: &KnownPrograms) {
        match self {
            Self::Submitted(job) => {
                programs.keep(batch, &job.meta, &job.program);
                job.add_to(batch);
            }
            Self::Confirmed(job) => {
                // This update must change a row: SQLite waits for the disk only if the transaction
                // writes.
                let sql = "UPDATE jobs SET promised = 1 WHERE id = $1";
                batch.push(sql).bind(id::to_bytes(*job).to_vec());
            }
            Self::Attempt(attempt) => attempt.add_to(batch),
            Self::Requeued(requeued) => requeued.add_to(batch),
            Self::Ended(ended) => ended.add_to(batch),
            Self::Closed(job, record) => {
                batch
                    .push("UPDATE jobs SET latency = $1, promised = 1 WHERE id = $2")
                    .bind(record.encode_to_vec())
                    .bind(id::to_bytes(*job).to_vec());
                batch.push("DELETE FROM job_inputs WHERE job = $1").bind(id::to_bytes(*job).to_vec());
            }
        }
    }
}

impl NewJob {
    fn add_to(&self, batch: &mut Batch) {
        let meta = &*self.meta;
        let (state, epoch) = self.first.map_or((JobState::Queued, 0), |(epoch, _)| (JobState::Running, epoch));
        batch
            .push(
                "INSERT INTO jobs (id, tenant, request_id, request_digest, state, program, key_id, parameter_set, \
                 row_count, pbs_count, priority, inline_outputs, keep_outputs_micros, created_micros, deadline_micros, \
                 promised, epoch, worker, cost, key_parts) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)",
            )
            .bind(id::to_bytes(meta.id).to_vec())
            .bind(&*meta.tenant)
            .bind(meta.request_id.to_vec())
            .bind(meta.request_digest.to_vec())
            .bind(state as i32)
            .bind(meta.program.0.to_vec())
            .bind(meta.key_id.0.to_vec())
            .bind(i32::from(meta.set.id().0))
            .bind(meta.rows as i64)
            .bind(meta.pbs_count as i64)
            .bind(i32::from(meta.priority))
            .bind(i32::from(meta.inline_outputs))
            .bind(meta.keep_outputs_micros)
            .bind(meta.created_micros)
            .bind(meta.deadline_micros)
            .bind(i32::from(self.promised))
            .bind(epoch as i64)
            .bind(self.first.map(|(_, worker)| worker.to_be_bytes().to_vec()))
            .bind(meta.cost as i64)
            // Jobs of a TFHE set always need the set's two parts, so the row stores none.
            .bind(meta.set.ckks().map(|_| key_parts::to_bytes(&self.key_parts)));
        contents(batch, "job_inputs", meta.id, &self.inputs);
    }
}

impl Attempt {
    fn add_to(&self, batch: &mut Batch) {
        batch
            .push(
                "UPDATE jobs SET state = $1, epoch = $2, attempts = $3, worker = $4, suspect = $5, solo_crashes = $6 \
                 WHERE id = $7",
            )
            .bind(JobState::Running as i32)
            .bind(self.epoch as i64)
            .bind(i64::from(self.attempts))
            .bind(self.worker.to_be_bytes().to_vec())
            .bind(self.suspect.map(|group| group as i64))
            .bind(i64::from(self.solo_crashes))
            .bind(id::to_bytes(self.job).to_vec());
    }
}

impl Requeued {
    fn add_to(&self, batch: &mut Batch) {
        batch
            .push(
                "UPDATE jobs SET state = $1, epoch = $2, attempts = $3, worker = NULL, suspect = $4, solo_crashes = $5 \
                 WHERE id = $6",
            )
            .bind(JobState::Queued as i32)
            .bind(self.epoch as i64)
            .bind(i64::from(self.attempts))
            .bind(self.suspect.map(|group| group as i64))
            .bind(i64::from(self.solo_crashes))
            .bind(id::to_bytes(self.job).to_vec());
    }
}

impl Ended {
    fn add_to(&self, batch: &mut Batch) {
        let end = &*self.end;
        batch
            .push(
                "UPDATE jobs SET state = $1, ended_micros = $2, outputs_expire_micros = $3, reason = $4, message = $5, \
             latency = $6, worker = NULL WHERE id = $7",
            )
            .bind(end.state as i32)
            .bind(end.ended_micros)
            .bind(end.outputs_expire_micros)
            .bind(end.error.as_ref().map(|error| error.reason.clone()))
            .bind(end.error.as_ref().map(|error| error.message.clone()))
            .bind(end.latency.encode_to_vec())
            .bind(id::to_bytes(self.job).to_vec());
        contents(batch, "job_outputs", self.job, &end.outputs);
    }
}

fn contents(batch: &mut Batch, table: &'static str, job: JobId, contents: &[Content]) {
    const COLUMNS: [&str; 5] = ["job", "place", "digest", "size_bytes", "bytes"];
    for (chunk, rows) in contents.chunks(ROWS_MAX).enumerate() {
        let mut values = batch.push_rows(table, &COLUMNS, rows.len());
        for (row, content) in rows.iter().enumerate() {
            values = values
                .bind(id::to_bytes(job).to_vec())
                .bind((chunk * ROWS_MAX + row) as i64)
                .bind(content.digest.to_vec())
                .bind(content.size_bytes as i64)
                .bind(content.bytes.as_ref().map(|bytes| bytes.to_vec()));
        }
    }
}

/// Maximum number of rows in one statement. At this size, parsing the statement takes less time
/// than running it.
const ROWS_MAX: usize = 64;
