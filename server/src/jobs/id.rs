//! Numbers of jobs as they are stored, sent and printed.

use cloakwork_scheduler::JobId;
use uuid::Uuid;

/// A number that no other job has. Numbers grow with time, so that a tenant's newest jobs are its highest.
pub fn new() -> JobId {
    JobId(Uuid::now_v7().as_u128())
}

/// As stored and sent.
pub fn to_bytes(id: JobId) -> [u8; 16] {
    id.0.to_be_bytes()
}

/// From what was stored or sent.
pub fn from_bytes(bytes: &[u8]) -> Option<JobId> {
    Some(JobId(u128::from_be_bytes(bytes.try_into().ok()?)))
}

/// As in resource names.
pub fn to_text(id: JobId) -> String {
    Uuid::from_u128(id.0).to_string()
}

/// Who holds the pins of a job's outputs. Its inputs are held by its number.
pub fn output_holder(id: JobId) -> [u8; 16] {
    let hash = blake3::derive_key("cloakwork server, holder of a job's outputs", &to_bytes(id));
    std::array::from_fn(|index| hash[index])
}
