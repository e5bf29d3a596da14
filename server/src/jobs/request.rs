//! Requests that make jobs, told apart by their idempotency keys.

use cloakwork_proto::v1;
use prost::Message as _;

use super::JobMeta;
use crate::error::{ApiError, REQUEST_ID_REUSED};

/// Identifies a request that creates a job.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The request ID (idempotency key), which the client drew.
    pub id: [u8; 16],
    /// BLAKE3 of the request's job specification.
    pub digest: [u8; 32],
}

/// Refuses a request that reuses the ID of a job's request for a different specification.
pub fn same_request(made: &JobMeta, request: &Request) -> Result<(), ApiError> {
    if made.request_digest == request.digest {
        return Ok(());
    }
    let message = format!("request id {} belongs to another request", uuid::Uuid::from_bytes(request.id));
    Err(REQUEST_ID_REUSED.error(message))
}

/// The digest that shows whether a request ID is reused for an equal request.
pub fn request_digest(spec: &v1::JobSpec) -> [u8; 32] {
    *blake3::hash(&spec.encode_to_vec()).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::new_job;

    #[test]
    fn an_id_is_reused_for_an_equal_request_only() {
        let spec = v1::JobSpec { priority: 1, ..v1::JobSpec::default() };
        let made = JobMeta { request_digest: request_digest(&spec), ..(*new_job("a", 1).meta).clone() };
        let again = |spec: &v1::JobSpec| same_request(&made, &Request { id: [1; 16], digest: request_digest(spec) });
        assert!(again(&spec).is_ok());
        let other = v1::JobSpec { priority: 2, ..spec };
        assert_eq!(again(&other).expect_err("another request").reason().code, "REQUEST_ID_REUSED");
    }
}
