//! Errors of the keystore.

use std::io;

use cloakwork_params::{EnvelopeError, KeyId};

use crate::{Digest, UploadId};

/// A refusal or failure of the keystore. The server chooses the code, the text and the advice that
/// callers see, and must handle each variant.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The stored bytes are not the committed bytes.
    #[error("the stored bytes of blob {digest} are damaged; upload the blob again")]
    BlobDamaged {
        /// The blob.
        digest: Digest,
    },
    /// The tenant has no blob of this digest. Blobs of other tenants count as absent.
    #[error("blob {digest} is not here")]
    BlobNotFound {
        /// The blob.
        digest: Digest,
    },
    /// A job or a key needs the blob.
    #[error("blob {digest} is in use by {by}; end or delete that first")]
    BlobInUse {
        /// The blob.
        digest: Digest,
        /// User of the blob: a job or a key.
        by: &'static str,
    },
    /// The blob is larger than the limit for its kind.
    #[error("a blob of {got} bytes is too large: at most {limit} bytes are allowed for {what}")]
    BlobTooLarge {
        /// Objects that the limit applies to.
        what: String,
        /// Limit in bytes.
        limit: u64,
        /// Size of the blob in bytes, as announced or as the header gives it.
        got: u64,
    },
    /// Unpinned ciphertexts fill their space, and none may be evicted yet.
    #[error("the space of {limit} bytes for ciphertexts is full of recent ones; try again later, or pin fewer")]
    CiphertextSpaceFull {
        /// Limit in bytes.
        limit: u64,
    },
    /// The bytes do not hash to the announced digest.
    #[error("the bytes are not those of the digest: expected {expected}, got {got}; upload them again")]
    DigestMismatch {
        /// Announced digest.
        expected: Digest,
        /// Computed digest.
        got: Digest,
    },
    /// The blob is not an envelope that this server accepts.
    #[error("not a well-formed object: {0}")]
    EnvelopeInvalid(#[source] EnvelopeError),
    /// An entry of a list exceeds a limit of the parameter set.
    #[error("{what} of ciphertext {index}: at most {limit} is allowed, got {got}")]
    EntryOutOfRange {
        /// Exceeded property: degree or noise level.
        what: &'static str,
        /// Index of the ciphertext.
        index: u64,
        /// Limit of the parameter set.
        limit: u64,
        /// Value in the entry.
        got: u64,
    },
    /// A name breaks the rule for its form.
    #[error("malformed {what} name: it must be {rule}")]
    InvalidName {
        /// Thing that the name identifies.
        what: &'static str,
        /// Required form of the name.
        rule: &'static str,
    },
    /// The key is being deleted, and its last job has not ended.
    #[error("key {key_id} is being deleted; register it again when that is done")]
    KeyDeleting {
        /// The key.
        key_id: KeyId,
    },
    /// The key lacks a part for the parameter set.
    #[error("key {key_id} has no complete set of parts for {set}; it needs a key-switch and a bootstrap key")]
    KeyIncomplete {
        /// The key.
        key_id: KeyId,
        /// The parameter set.
        set: &'static str,
    },
    /// Jobs still use the key.
    #[error("key {key_id} is still in use; wait for its jobs to end")]
    KeyInUse {
        /// The key.
        key_id: KeyId,
    },
    /// The tenant has no key of this id. Keys of other tenants count as absent.
    #[error("key {key_id} is not here")]
    KeyNotFound {
        /// The key.
        key_id: KeyId,
    },
    /// The parts cannot belong to one key.
    #[error("these parts do not make one key: {why}")]
    KeyPartsDiffer {
        /// Reason why the parts do not fit.
        why: String,
    },
    /// The bytes of a part are damaged.
    #[error("key {key_id} is quarantined: a part no longer matches its digest; upload that part again")]
    KeyQuarantined {
        /// The key.
        key_id: KeyId,
    },
    /// The offset lies beyond the blob's end.
    #[error("offset {got} lies beyond the blob's {size_bytes} bytes")]
    OffsetOutOfRange {
        /// Size of the blob in bytes.
        size_bytes: u64,
        /// Requested offset.
        got: u64,
    },
    /// A limit for a tenant, a key or a call would be exceeded.
    #[error("{what}: {got} would exceed the limit of {limit}")]
    QuotaExceeded {
        /// Limited quantity.
        what: &'static str,
        /// The limit.
        limit: u64,
        /// Value that the request would lead to.
        got: u64,
    },
    /// The request id was used for another request.
    #[error("this request id was used for another request; use a new one for each")]
    RequestIdReused,
    /// The blob is a secret key, which must never leave its owner. None of its bytes were kept.
    #[error("this is a secret key; it must stay with its owner, and none of its bytes were kept")]
    SecretKeyRejected,
    /// The blob has more or fewer bytes than announced.
    #[error("expected a blob of {expected} bytes, got {got}")]
    SizeMismatch {
        /// Announced size in bytes.
        expected: u64,
        /// Received size in bytes, or the size that the header gives.
        got: u64,
    },
    /// The disk, the store or the database failed.
    #[error("storage failed: {message}")]
    StorageFailed {
        /// Message of the system.
        message: String,
    },
    /// The store of blobs gives no usable answer.
    #[error("the store of blobs does not answer: {message}")]
    StoreAway {
        /// Message of the system.
        message: String,
    },
    /// The storage has no space left.
    #[error("the server's storage is full; try again later")]
    StorageFull,
    /// Queries wait too long for connections that serve other queries.
    #[error("the database is busy; try again later")]
    DatabaseBusy,
    /// Too many uploads are open or receiving at the same time, over all tenants or for one tenant.
    #[error("too many {what}: the limit is {limit}; try again later")]
    TooManyUploads {
        /// Limited state: open or receiving.
        what: &'static str,
        /// The limit.
        limit: u32,
    },
    /// The tenant has no upload of this id. Expired and aborted uploads, and those of other
    /// tenants, count as absent.
    #[error("upload {id} is not here")]
    UploadNotFound {
        /// The upload.
        id: UploadId,
    },
    /// The bytes do not continue at the committed offset.
    #[error("the upload continues at byte {committed_bytes}, not at {got}")]
    UploadOffsetMismatch {
        /// Committed offset, where the upload continues.
        committed_bytes: u64,
        /// Offset of the request.
        got: u64,
    },
    /// This writer sent nothing while another writer waited, and lost the upload to it.
    #[error("this upload was taken over by another writer after a pause; go on from its committed offset")]
    UploadTakenOver,
    /// The tenant has as many open uploads as its limit allows.
    #[error(
        "the tenant has {limit} open uploads, and may have no more; finish one, or find one with ListUploads and end \
         it with AbortUpload"
    )]
    UploadsUsedUp {
        /// Limit of open uploads.
        limit: u32,
    },
    /// The parameter set is weak, and this server takes nothing new of the set.
    #[error("this server takes no new objects of the weak parameter set {set}: {reason}")]
    WeakSetRefused {
        /// The set.
        set: &'static str,
        /// Why the set is weak.
        reason: &'static str,
    },
}

impl Error {
    /// Whether the blob itself is at fault, so that its bytes will never be accepted.
    pub(crate) fn condemns(&self) -> bool {
        matches!(
            self,
            Self::BlobTooLarge { .. }
                | Self::DigestMismatch { .. }
                | Self::EntryOutOfRange { .. }
                | Self::EnvelopeInvalid(_)
                | Self::SecretKeyRejected
                | Self::SizeMismatch { .. }
                | Self::WeakSetRefused { .. }
        )
    }

    pub(crate) fn failed(message: impl ToString) -> Self {
        Self::StorageFailed { message: message.to_string() }
    }
}

impl From<EnvelopeError> for Error {
    fn from(error: EnvelopeError) -> Self {
        match error {
            EnvelopeError::SecretKeyRefused { .. } => Self::SecretKeyRejected,
            error => Self::EnvelopeInvalid(error),
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match error.kind() {
            FileTooLarge | QuotaExceeded | StorageFull => Self::StorageFull,
            _ => Self::failed(error),
        }
    }
}

impl From<cloakwork_storage::Error> for Error {
    fn from(error: cloakwork_storage::Error) -> Self {
        match error {
            cloakwork_storage::Error::Full => Self::StorageFull,
            cloakwork_storage::Error::Busy => Self::DatabaseBusy,
            error => Self::failed(error),
        }
    }
}

impl From<object_store::Error> for Error {
    fn from(error: object_store::Error) -> Self {
        match error {
            object_store::Error::Generic { .. } => Self::StoreAway { message: error.to_string() },
            error => Self::failed(error),
        }
    }
}

impl From<tokio::task::JoinError> for Error {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::failed(error)
    }
}
