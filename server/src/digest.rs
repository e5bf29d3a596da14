//! Conversion of digests between the protocol and the key store.

use bytes::Bytes;
use cloakwork_keystore::Digest;
use cloakwork_proto::v1;

use crate::error::{ApiError, FIELD_MISSING, INVALID_ARGUMENT};

/// Parses a digest of a request.
pub fn parse(digest: Option<&v1::Digest>, field: &'static str) -> Result<Digest, ApiError> {
    let digest = digest.ok_or_else(|| FIELD_MISSING.error(format!("{field} is missing")).field(field, "missing"))?;
    let blake3 = digest.blake3.as_ref().try_into().map_err(|_| {
        let message = format!("{field} has a hash of {} bytes: expected 32", digest.blake3.len());
        INVALID_ARGUMENT.error(message).field(field, "expected a BLAKE3 hash of 32 bytes")
    })?;
    Ok(Digest { blake3, size_bytes: digest.size_bytes })
}

/// Parses a list of digests of a request, and drops the list.
pub fn parse_all(digests: Vec<v1::Digest>, field: &'static str) -> Result<Vec<Digest>, ApiError> {
    digests.iter().map(|digest| parse(Some(digest), field)).collect()
}

/// Converts a digest for a response.
pub fn to_proto(digest: &Digest) -> v1::Digest {
    v1::Digest { blake3: Bytes::copy_from_slice(&digest.blake3), size_bytes: digest.size_bytes }
}
