//! What a job is on the server, from the request to the record of its end.

mod group;
pub mod id;
mod latency;
mod pins;
mod request;
mod view;

use std::sync::Arc;

use bytes::Bytes;
use cloakwork_circuit::ProgramId;
use cloakwork_params::{AnySet, KeyId, ParameterSet};
use cloakwork_proto::v1;
use cloakwork_scheduler::{JobId, Stage};

pub use group::{GROUP_BYTES, group_bytes};
pub use latency::Timeline;
pub use pins::Pins;
pub use request::{Request, request_digest, same_request};
pub use view::timestamp;

/// Everything about a job that does not change while it lives.
#[derive(Clone, Debug)]
pub struct JobMeta {
    /// Its number.
    pub id: JobId,
    /// Whose it is.
    pub tenant: Arc<str>,
    /// What makes a repeated request the same job.
    pub request_id: [u8; 16],
    /// BLAKE3 of the request, so that the same id with another request is noticed.
    pub request_digest: [u8; 32],
    /// What it runs.
    pub program: ProgramId,
    /// The key it runs under.
    pub key_id: KeyId,
    /// The parameter set.
    pub set: AnySet,
    /// Rows of inputs.
    pub rows: u64,
    /// Bootstraps in all.
    pub pbs_count: u64,
    /// What the scheduler counts it by: about its millions of multiplications.
    pub cost: u64,
    /// From -10 to 10.
    pub priority: i8,
    /// Return small outputs inside the job.
    pub inline_outputs: bool,
    /// How long outputs are kept.
    pub keep_outputs_micros: i64,
    /// When it was accepted, in microseconds of Unix time.
    pub created_micros: i64,
    /// When the server gives up on it.
    pub deadline_micros: i64,
}

/// What a job on blocks is counted by: bootstraps, times what one of the set costs, and a little for each row.
pub fn cost_of_blocks(set: &ParameterSet, pbs_count: u64, rows: u64) -> u64 {
    pbs_count.saturating_mul(set.bootstrap_weight()).saturating_add(rows).max(1)
}

/// A list of ciphertexts that a job reads or writes: the bytes themselves while it is small, else a blob.
#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    /// BLAKE3 of the bytes.
    pub digest: [u8; 32],
    /// Number of bytes.
    pub size_bytes: u64,
    /// The bytes; absent where the key store has them.
    pub bytes: Option<Bytes>,
}

impl Content {
    /// As the key store names it.
    pub fn blob(&self) -> cloakwork_keystore::Digest {
        cloakwork_keystore::Digest { blake3: self.digest, size_bytes: self.size_bytes }
    }

    /// Bytes that stay with the job.
    pub fn inline(bytes: Bytes) -> Self {
        Self { digest: *blake3::hash(&bytes).as_bytes(), size_bytes: bytes.len() as u64, bytes: Some(bytes) }
    }

    /// As the protocol names it.
    pub fn to_proto_digest(&self) -> v1::Digest {
        v1::Digest { blake3: Bytes::copy_from_slice(&self.digest), size_bytes: self.size_bytes }
    }
}

/// How a job ended.
#[derive(Clone, Debug)]
pub struct End {
    /// Succeeded, failed or cancelled.
    pub state: v1::JobState,
    /// When, in microseconds of Unix time.
    pub ended_micros: i64,
    /// Up to when outputs are kept.
    pub outputs_expire_micros: Option<i64>,
    /// Why, unless it succeeded.
    pub error: Option<v1::JobError>,
    /// What it returned.
    pub outputs: Vec<Content>,
    /// Where the time went.
    pub latency: v1::LatencyRecord,
}

/// A job as it is now.
#[derive(Clone, Debug)]
pub struct JobView {
    /// What does not change.
    pub meta: Arc<JobMeta>,
    /// Where it stands.
    pub state: v1::JobState,
    /// Rows that are done, while it runs.
    pub rows_done: u64,
    /// What its worker is doing with it, once that has said so.
    pub stage: Option<Stage>,
    /// Times that it has been handed to a worker.
    pub attempts: u32,
    /// How it ended, if it has.
    pub end: Option<Arc<End>>,
}
