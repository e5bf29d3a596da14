//! The dispatcher's writes: many changes in one transaction (group commit). The transaction waits
//! for the disk once, and only if a caller relies on the changes.

use std::sync::Arc;

use bytes::Bytes;
use cloakwork_keystore::Digest;
use cloakwork_proto::v1::LatencyRecord;
use cloakwork_scheduler::JobId;
use cloakwork_storage::{Asker, Batch, Error, Rows, Survival};

use super::{Store, image::Images};
use crate::jobs::{Content, End, JobMeta};

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
    /// the stored inputs can be deleted.
    Closed(JobId, LatencyRecord),
}

impl Write {
    /// The job that changes.
    pub(super) fn job(&self) -> JobId {
        match self {
            Self::Submitted(new) => new.meta.id,
            Self::Confirmed(job) | Self::Closed(job, _) => *job,
            Self::Attempt(attempt) => attempt.job,
            Self::Requeued(requeued) => requeued.job,
            Self::Ended(ended) => ended.job,
        }
    }
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
    /// Waits until it is certain whether the last writes were committed. A commit has an unknown
    /// result if the connection to the database is lost meanwhile. Fails if another server owns the
    /// database by now.
    pub async fn settle(&self) -> Result<(), Error> {
        self.database.settle().await?;
        self.ownership.reread(&self.database).await
    }

    /// Commits all of `writes`, or none of them.
    pub async fn apply(&self, survival: Survival, writes: &[Write]) -> Result<(), Error> {
        for write in writes {
            if let Write::Submitted(NewJob { meta, .. }) = write {
                self.requests.insert(&meta.tenant, &meta.request_id);
            }
        }
        let images = Images::of(writes);
        let fill = |batch: &mut Batch| {
            self.ownership.add_to(batch);
            images.add_to(batch, &self.programs);
        };
        let applied = self.database.apply(Asker::Server, Rows::All, survival, fill).await;
        match applied {
            Ok(()) => self.ownership.advance(),
            Err(_) => self.programs.forget(),
        }
        applied
    }
}
