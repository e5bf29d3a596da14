//! Conversion of other crates' errors to reasons. This is the only place that assigns a reason to
//! errors of the key store. The match is exhaustive, so a new variant without a reason does not
//! compile.

use cloakwork_keystore::Error;

use super::*;

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let reason = match &error {
            Error::BlobDamaged { .. } | Error::BlobNotFound { .. } => BLOB_NOT_FOUND,
            Error::BlobInUse { .. } => CIPHERTEXT_IN_USE,
            Error::BlobTooLarge { .. } => BLOB_TOO_LARGE,
            Error::DigestMismatch { .. } => DIGEST_MISMATCH,
            Error::EntryOutOfRange { .. } | Error::EnvelopeInvalid(_) | Error::SizeMismatch { .. } => ENVELOPE_INVALID,
            Error::InvalidName { .. } => NAME_INVALID,
            Error::KeyDeleting { .. } | Error::KeyInUse { .. } => KEY_DELETING,
            Error::KeyIncomplete { .. } => KEY_INCOMPLETE,
            Error::KeyNotFound { .. } => KEY_NOT_FOUND,
            Error::KeyPartsDiffer { .. } => KEY_PARTS_DIFFER,
            Error::KeyQuarantined { .. } => KEY_QUARANTINED,
            Error::OffsetOutOfRange { .. } => INVALID_ARGUMENT,
            Error::QuotaExceeded { .. } | Error::UploadsUsedUp { .. } => QUOTA_EXCEEDED,
            Error::RequestIdReused => REQUEST_ID_REUSED,
            Error::SecretKeyRejected => SECRET_KEY_REJECTED,
            Error::CiphertextSpaceFull { .. } | Error::StorageFull => STORAGE_FULL,
            Error::StorageFailed { .. } | Error::StoreAway { .. } => STORAGE_FAILED,
            Error::DatabaseBusy => return database_busy(),
            Error::TooManyUploads { .. } => OVERLOADED,
            Error::UploadNotFound { .. } => UPLOAD_NOT_FOUND,
            Error::UploadOffsetMismatch { .. } | Error::UploadTakenOver => UPLOAD_OFFSET_MISMATCH,
            Error::WeakSetRefused { .. } => WEAK_SET_REFUSED,
        };
        if let Error::StorageFailed { message } | Error::StoreAway { message } = &error {
            // The cause may contain paths, so it is logged and not returned.
            tracing::error!(cause = message, "the key store failed");
            return reason.error("the server's storage did not answer").retry_after(RETRY_DELAY);
        }
        let retry = [STORAGE_FULL, OVERLOADED].contains(&reason);
        let answer = reason.error(error.to_string());
        let answer = if retry { answer.retry_after(RETRY_DELAY) } else { answer };
        match error {
            Error::UploadOffsetMismatch { committed_bytes, .. } => answer.with("committed_bytes", committed_bytes),
            _ => answer,
        }
    }
}

/// The error for a caller whose queries wait too long. The database works: this caller has many
/// calls, or all tenants together have.
pub fn database_busy() -> ApiError {
    const LIMIT: &str = "database_readers";
    OVERLOADED
        .error(format!("no connection to the database became free in time ({LIMIT})"))
        .with("limit", LIMIT)
        .retry_after(RETRY_DELAY)
}

/// Retry delay after an error caused by a lack of space or by failed storage.
const RETRY_DELAY: std::time::Duration = std::time::Duration::from_secs(1);
