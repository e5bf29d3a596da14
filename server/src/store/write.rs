//! Everything that the dispatcher makes durable: many changes, one transaction, one sync.

use std::sync::Arc;

use bytes::Bytes;
use cloakwork_proto::v1::{JobState, LatencyRecord};
use cloakwork_scheduler::JobId;
use prost::Message as _;
use sqlx::SqliteConnection;

use super::Store;
use crate::{
    jobs::{Content, End, JobMeta, id},
    keys::KeyUse,
};

/// One change.
#[derive(Clone, Debug)]
pub enum Write {
    /// A job was accepted.
    Submitted(NewJob),
    /// A job is about to be handed to a worker.
    Attempt(Attempt),
    /// A job went back to the queue.
    Requeued(Requeued),
    /// A job ended.
    Ended(Ended),
    /// The record of a job that has ended, now that the end's own cost is known.
    Latency(JobId, LatencyRecord),
}

/// A job that was accepted.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// What it is.
    pub meta: Arc<JobMeta>,
    /// The program's bytes, in case nobody has registered it.
    pub program: Bytes,
    /// What it reads.
    pub inputs: Arc<[Content]>,
    /// Keeps its key until it is stored, and so found by whoever wants to purge the key.
    pub key_use: Option<Arc<KeyUse>>,
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
    /// Who gets it.
    pub worker: u128,
    /// The group that it is under suspicion with.
    pub suspect: Option<u64>,
    /// Workers that it has brought down on its own.
    pub solo_crashes: u32,
}

/// A job that went back to the queue.
#[derive(Clone, Copy, Debug)]
pub struct Requeued {
    /// The job.
    pub job: JobId,
    /// Epoch of the attempt that is over.
    pub epoch: u64,
    /// Attempts so far.
    pub attempts: u32,
    /// The group that it is under suspicion with.
    pub suspect: Option<u64>,
    /// Workers that it has brought down on its own.
    pub solo_crashes: u32,
}

/// A job that ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The job.
    pub job: JobId,
    /// How.
    pub end: Arc<End>,
}

impl Store {
    /// Makes all of `writes` durable, or none.
    pub async fn apply(&self, writes: &[Write]) -> Result<(), sqlx::Error> {
        let mut transaction = self.database.write().await?;
        for write in writes {
            write.apply(&mut transaction).await?;
        }
        transaction.commit().await
    }
}

impl Write {
    async fn apply(&self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        match self {
            Self::Submitted(job) => job.apply(connection).await,
            Self::Attempt(attempt) => attempt.apply(connection).await,
            Self::Requeued(requeued) => requeued.apply(connection).await,
            Self::Ended(ended) => ended.apply(connection).await,
            Self::Latency(job, record) => {
                sqlx::query("UPDATE jobs SET latency = $1 WHERE id = $2")
                    .bind(record.encode_to_vec())
                    .bind(&id::to_bytes(*job)[..])
                    .execute(connection)
                    .await?;
                Ok(())
            }
        }
    }
}

impl NewJob {
    async fn apply(&self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        let meta = &*self.meta;
        super::programs::insert(connection, &meta.tenant, meta.program, &self.program, meta.created_micros).await?;
        sqlx::query(
            "INSERT INTO jobs (id, tenant, request_id, request_digest, state, program, key_id, parameter_set, row_count, \
             pbs_count, priority, inline_outputs, keep_outputs_micros, created_micros, deadline_micros) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
        )
        .bind(id::to_bytes(meta.id).to_vec())
        .bind(&*meta.tenant)
        .bind(meta.request_id.to_vec())
        .bind(meta.request_digest.to_vec())
        .bind(JobState::Queued as i32)
        .bind(meta.program.0.to_vec())
        .bind(meta.key_id.0.to_vec())
        .bind(i32::from(meta.set.id.0))
        .bind(meta.rows as i64)
        .bind(meta.pbs_count as i64)
        .bind(i32::from(meta.priority))
        .bind(i32::from(meta.inline_outputs))
        .bind(meta.keep_outputs_micros)
        .bind(meta.created_micros)
        .bind(meta.deadline_micros)
        .execute(&mut *connection)
        .await?;
        contents(
            connection,
            "INSERT INTO job_inputs (job, place, digest, size_bytes, bytes) VALUES ($1, $2, $3, $4, $5)",
            meta.id,
            &self.inputs,
        )
        .await
    }
}

impl Attempt {
    async fn apply(&self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        sqlx::query(
            "UPDATE jobs SET state = $1, epoch = $2, attempts = $3, worker = $4, suspect = $5, solo_crashes = $6 \
             WHERE id = $7",
        )
        .bind(JobState::Running as i32)
        .bind(self.epoch as i64)
        .bind(i64::from(self.attempts))
        .bind(self.worker.to_be_bytes().to_vec())
        .bind(self.suspect.map(|group| group as i64))
        .bind(i64::from(self.solo_crashes))
        .bind(id::to_bytes(self.job).to_vec())
        .execute(connection)
        .await?;
        Ok(())
    }
}

impl Requeued {
    async fn apply(&self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        sqlx::query(
            "UPDATE jobs SET state = $1, epoch = $2, attempts = $3, worker = NULL, suspect = $4, solo_crashes = $5 \
             WHERE id = $6",
        )
        .bind(JobState::Queued as i32)
        .bind(self.epoch as i64)
        .bind(i64::from(self.attempts))
        .bind(self.suspect.map(|group| group as i64))
        .bind(i64::from(self.solo_crashes))
        .bind(id::to_bytes(self.job).to_vec())
        .execute(connection)
        .await?;
        Ok(())
    }
}

impl Ended {
    async fn apply(&self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        let end = &*self.end;
        sqlx::query(
            "UPDATE jobs SET state = $1, ended_micros = $2, outputs_expire_micros = $3, reason = $4, message = $5, \
             latency = $6, worker = NULL WHERE id = $7",
        )
        .bind(end.state as i32)
        .bind(end.ended_micros)
        .bind(end.outputs_expire_micros)
        .bind(end.error.as_ref().map(|error| error.reason.clone()))
        .bind(end.error.as_ref().map(|error| error.message.clone()))
        .bind(end.latency.encode_to_vec())
        .bind(id::to_bytes(self.job).to_vec())
        .execute(&mut *connection)
        .await?;
        // Nobody reads the inputs any more.
        sqlx::query("DELETE FROM job_inputs WHERE job = $1")
            .bind(id::to_bytes(self.job).to_vec())
            .execute(&mut *connection)
            .await?;
        contents(
            connection,
            "INSERT INTO job_outputs (job, place, digest, size_bytes, bytes) VALUES ($1, $2, $3, $4, $5)",
            self.job,
            &end.outputs,
        )
        .await
    }
}

async fn contents(
    connection: &mut SqliteConnection,
    insert: &'static str,
    job: JobId,
    contents: &[Content],
) -> Result<(), sqlx::Error> {
    for (place, content) in contents.iter().enumerate() {
        sqlx::query(insert)
            .bind(id::to_bytes(job).to_vec())
            .bind(place as i64)
            .bind(content.digest.to_vec())
            .bind(content.size_bytes as i64)
            .bind(content.bytes.as_ref().map(|bytes| bytes.to_vec()))
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}
