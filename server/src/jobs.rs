//! Jobs on the server, from the request to the latency record of their end.

mod group;
pub mod id;
mod latency;
mod request;
mod view;

use std::sync::Arc;

use bytes::Bytes;
use cloakwork_circuit::ProgramId;
use cloakwork_params::{AnySet, KeyId, ParameterSet};
use cloakwork_proto::v1;
use cloakwork_scheduler::{JobId, Stage};
use cloakwork_trace::TraceContext;

pub use group::{GROUP_BYTES, group_bytes};
pub use latency::{Timeline, stages};
pub use request::{Request, request_digest, same_request};
pub use view::timestamp;

/// All properties of a job that stay constant during its life.
#[derive(Clone, Debug)]
pub struct JobMeta {
    /// The job's ID.
    pub id: JobId,
    /// The tenant that owns the job.
    pub tenant: Arc<str>,
    /// The idempotency key: a repeated request with this ID returns this job.
    pub request_id: [u8; 16],
    /// BLAKE3 of the request. The digest detects a request ID that is reused for a different
    /// request.
    pub request_digest: [u8; 32],
    /// The program that the job runs.
    pub program: ProgramId,
    /// The evaluation key that the job runs under.
    pub key_id: KeyId,
    /// The parameter set.
    pub set: AnySet,
    /// The kind of the program's operations, for metrics. Empty for a job that an earlier version
    /// of the server has stored.
    pub operation: &'static str,
    /// The span of the job, if its trace is sampled.
    pub trace: Option<TraceContext>,
    /// Number of input rows.
    pub rows: u64,
    /// Total number of bootstraps.
    pub pbs_count: u64,
    /// The scheduler's cost of the job: about its millions of multiplications.
    pub cost: u64,
    /// Priority from -10 to 10.
    pub priority: i8,
    /// Whether small outputs are returned inside the job.
    pub inline_outputs: bool,
    /// How long outputs are kept.
    pub keep_outputs_micros: i64,
    /// When the job was accepted, in microseconds of Unix time.
    pub created_micros: i64,
    /// When the server gives up on the job, in microseconds of Unix time.
    pub deadline_micros: i64,
}

/// The cost of a job on blocks: its bootstraps times the weight of one bootstrap of the set, plus
/// one for each row.
pub fn cost_of_blocks(set: &ParameterSet, pbs_count: u64, rows: u64) -> u64 {
    pbs_count.saturating_mul(set.bootstrap_weight()).saturating_add(rows).max(1)
}

/// A list of ciphertexts that a job reads or writes. A small list is stored as bytes, a large list
/// as a blob.
#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    /// BLAKE3 of the bytes.
    pub digest: [u8; 32],
    /// Number of bytes.
    pub size_bytes: u64,
    /// The bytes. Absent if the key store holds them as a blob.
    pub bytes: Option<Bytes>,
}

impl Content {
    /// The list's digest in the key store.
    pub fn blob(&self) -> cloakwork_keystore::Digest {
        cloakwork_keystore::Digest { blake3: self.digest, size_bytes: self.size_bytes }
    }

    /// A list whose bytes are stored with the job.
    pub fn inline(bytes: Bytes) -> Self {
        Self { digest: *blake3::hash(&bytes).as_bytes(), size_bytes: bytes.len() as u64, bytes: Some(bytes) }
    }

    /// The list's digest in the protocol.
    pub fn to_proto_digest(&self) -> v1::Digest {
        v1::Digest { blake3: Bytes::copy_from_slice(&self.digest), size_bytes: self.size_bytes }
    }
}

/// How a job ended.
#[derive(Clone, Debug)]
pub struct End {
    /// Succeeded, failed or cancelled.
    pub state: v1::JobState,
    /// When the job ended, in microseconds of Unix time.
    pub ended_micros: i64,
    /// When the outputs expire, in microseconds of Unix time.
    pub outputs_expire_micros: Option<i64>,
    /// The cause, unless the job succeeded.
    pub error: Option<v1::JobError>,
    /// The outputs of the job.
    pub outputs: Vec<Content>,
    /// The latency record of the job.
    pub latency: v1::LatencyRecord,
    /// The worker's attestation of the outputs, in a job that has succeeded.
    pub attestation: Option<v1::Attestation>,
}

/// The current view of a job.
#[derive(Clone, Debug)]
pub struct JobView {
    /// The constant properties.
    pub meta: Arc<JobMeta>,
    /// The job's state.
    pub state: v1::JobState,
    /// Rows that are done, while the job runs.
    pub rows_done: u64,
    /// The worker's current activity, once the worker has reported it.
    pub stage: Option<Stage>,
    /// Number of times that the job was handed to a worker.
    pub attempts: u32,
    /// The job's end, once it has ended.
    pub end: Option<Arc<End>>,
}
