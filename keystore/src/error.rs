//! Why the keystore refused or failed.

use std::io;

use cloakwork_params::{EnvelopeError, KeyId};

use crate::{Digest, UploadId, database::OpenError};

/// What went wrong. What callers are told of it, under which code, and what they should do, is the server's to say; it has to
/// say something for each variant.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The bytes at rest are not what was committed.
    #[error("the stored bytes of blob {digest} are damaged; upload the blob again")]
    BlobDamaged {
        /// The blob.
        digest: Digest,
    },
    /// No such blob, or another tenant's.
    #[error("blob {digest} is not here")]
    BlobNotFound {
        /// The blob.
        digest: Digest,
    },
    /// The blob is needed by a job or a key.
    #[error("blob {digest} is in use by {by}; end or delete that first")]
    BlobInUse {
        /// The blob.
        digest: Digest,
        /// What uses it.
        by: &'static str,
    },
    /// Larger than anything of its kind may be.
    #[error("a blob of {got} bytes is too large: at most {limit} bytes are allowed for {what}")]
    BlobTooLarge {
        /// What the limit is for.
        what: String,
        /// Most bytes.
        limit: u64,
        /// Bytes announced.
        got: u64,
    },
    /// Unpinned ciphertexts fill their space, and none may be evicted yet.
    #[error("the space of {limit} bytes for ciphertexts is full of recent ones; try again later, or pin fewer")]
    CiphertextSpaceFull {
        /// Most bytes.
        limit: u64,
    },
    /// The bytes do not hash to the announced digest.
    #[error("the bytes are not those of the digest: expected {expected}, got {got}; upload them again")]
    DigestMismatch {
        /// As announced.
        expected: Digest,
        /// As computed.
        got: Digest,
    },
    /// Not an envelope that this server takes.
    #[error("not a well-formed object: {0}")]
    EnvelopeInvalid(#[source] EnvelopeError),
    /// A list says of a ciphertext what its parameter set does not bear.
    #[error("{what} of ciphertext {index}: at most {limit} is allowed, got {got}")]
    EntryOutOfRange {
        /// Degree or noise level.
        what: &'static str,
        /// Which ciphertext.
        index: u64,
        /// The set's limit.
        limit: u64,
        /// The value.
        got: u64,
    },
    /// A name that breaks its rule.
    #[error("malformed {what} name: it must be {rule}")]
    InvalidName {
        /// What the name is of.
        what: &'static str,
        /// What it must look like.
        rule: &'static str,
    },
    /// The key has been deleted and waits for its last job.
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
    /// The key still has jobs.
    #[error("key {key_id} is still in use; wait for its jobs to end")]
    KeyInUse {
        /// The key.
        key_id: KeyId,
    },
    /// No such key, or another tenant's.
    #[error("key {key_id} is not here")]
    KeyNotFound {
        /// The key.
        key_id: KeyId,
    },
    /// Parts that cannot be of one key.
    #[error("these parts do not make one key: {why}")]
    KeyPartsDiffer {
        /// What does not fit.
        why: String,
    },
    /// A part's bytes are damaged.
    #[error("key {key_id} is quarantined: a part no longer matches its digest; upload that part again")]
    KeyQuarantined {
        /// The key.
        key_id: KeyId,
    },
    /// Beyond a blob's end.
    #[error("offset {got} lies beyond the blob's {size_bytes} bytes")]
    OffsetOutOfRange {
        /// The blob's length.
        size_bytes: u64,
        /// The offset.
        got: u64,
    },
    /// A limit on how much a tenant may have.
    #[error("{what}: {got} would exceed the limit of {limit}")]
    QuotaExceeded {
        /// What is limited.
        what: &'static str,
        /// The limit.
        limit: u64,
        /// What there would be.
        got: u64,
    },
    /// The id was used for something else.
    #[error("this request id was used for another request; use a new one for each")]
    RequestIdReused,
    /// A secret key, which must never leave its owner. Nothing of it was kept.
    #[error("this is a secret key; it must stay with its owner, and nothing of it was kept")]
    SecretKeyRejected,
    /// More or fewer bytes than announced.
    #[error("expected a blob of {expected} bytes, got {got}")]
    SizeMismatch {
        /// As announced.
        expected: u64,
        /// As it came, or as the header says.
        got: u64,
    },
    /// Disk or database failed.
    #[error("storage failed: {message}")]
    StorageFailed {
        /// What the system said.
        message: String,
    },
    /// No space left.
    #[error("the server's storage is full; try again later")]
    StorageFull,
    /// Too many uploads at the same time, over all tenants.
    #[error("too many {what}: the limit is {limit}; try again later")]
    TooManyUploads {
        /// Open or receiving.
        what: &'static str,
        /// The limit.
        limit: u32,
    },
    /// No such upload, another tenant's, an expired one, or one that was aborted.
    #[error("upload {id} is not here")]
    UploadNotFound {
        /// The upload.
        id: UploadId,
    },
    /// The bytes do not follow on what is there.
    #[error("the upload continues at byte {committed_bytes}, not at {got}")]
    UploadOffsetMismatch {
        /// Where to go on.
        committed_bytes: u64,
        /// The offset that came.
        got: u64,
    },
    /// The writer was silent while another one waited.
    #[error("this upload was taken over by another writer after a pause; go on from its committed offset")]
    UploadTakenOver,
    /// The tenant has as many open uploads as it may have.
    #[error(
        "the tenant has {limit} open uploads, and may have no more; finish one, or find one with ListUploads and end \
         it with AbortUpload"
    )]
    UploadsUsedUp {
        /// Most open uploads.
        limit: u32,
    },
    /// A set that this server does not serve.
    #[error("parameter set {set} is weak and not served here")]
    WeakSetRefused {
        /// The set.
        set: &'static str,
    },
}

impl Error {
    /// Is it the blob's own fault, so that the same bytes will never be accepted?
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

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        // 13 is SQLITE_FULL.
        match error.as_database_error().and_then(|error| error.code()) {
            Some(code) if code == "13" => Self::StorageFull,
            _ => Self::failed(error),
        }
    }
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Database(error) => error.into(),
            OpenError::Files(error) => error.into(),
            other => Self::failed(format!("the catalogue cannot be used: {other}")),
        }
    }
}

impl From<object_store::Error> for Error {
    fn from(error: object_store::Error) -> Self {
        Self::failed(error)
    }
}

impl From<tokio::task::JoinError> for Error {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::failed(error)
    }
}
