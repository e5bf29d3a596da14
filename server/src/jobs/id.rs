//! Job IDs as they are stored, sent and printed.

use cloakwork_scheduler::JobId;
use uuid::Uuid;

/// A new unique ID. IDs grow with time, so a tenant's newest jobs have its highest IDs.
pub fn new() -> JobId {
    JobId(Uuid::now_v7().as_u128())
}

/// The ID as it is stored and sent.
pub fn to_bytes(id: JobId) -> [u8; 16] {
    id.0.to_be_bytes()
}

/// Parses an ID that was stored or sent.
pub fn from_bytes(bytes: &[u8]) -> Option<JobId> {
    Some(JobId(u128::from_be_bytes(bytes.try_into().ok()?)))
}

/// The ID as it appears in resource names.
pub fn to_text(id: JobId) -> String {
    Uuid::from_u128(id.0).to_string()
}

/// The holder of the pins of a job's outputs. The pins of its inputs have the job ID as holder.
pub fn output_holder(id: JobId) -> [u8; 16] {
    let hash = blake3::derive_key("cloakwork server, holder of a job's outputs", &to_bytes(id));
    std::array::from_fn(|index| hash[index])
}
