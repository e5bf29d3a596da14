//! Requests that make jobs, told apart by their idempotency keys.

use cloakwork_proto::v1;
use prost::Message as _;

use super::JobMeta;
use crate::error::{ApiError, REQUEST_ID_REUSED};

/// What tells a repeated request from another one.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Its id, which the client drew.
    pub id: [u8; 16],
    /// Of what it asks for.
    pub digest: [u8; 32],
}

/// Refuses a request that has the id of the one that made a job, and asks for something else.
pub fn same_request(made: &JobMeta, request: &Request) -> Result<(), ApiError> {
    if made.request_digest == request.digest {
        return Ok(());
    }
    let message = format!("request id {} belongs to another request", uuid::Uuid::from_bytes(request.id));
    Err(REQUEST_ID_REUSED.error(message))
}

/// What tells whether a request id is used for the same request again.
pub fn request_digest(spec: &v1::JobSpec) -> [u8; 32] {
    *blake3::hash(&spec.encode_to_vec()).as_bytes()
}
