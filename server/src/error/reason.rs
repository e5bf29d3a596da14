//! The catalogue of error reasons. Each reason has a page `docs/errors/{code}.md`; a test compares
//! the table with the pages.

use std::borrow::Cow;

use tonic::Code;

use super::ApiError;

/// The reason why a call or a job failed, as a stable code.
#[derive(Clone, Copy, Debug)]
pub struct Reason {
    /// The code in `UPPER_SNAKE`, as sent in `ErrorInfo.reason` and `JobError.reason`. Its meaning
    /// never changes.
    pub code: &'static str,
    /// The gRPC status code of the failed call.
    pub grpc: Code,
    /// Advice to the caller, in one sentence.
    pub advice: &'static str,
}

impl Reason {
    /// Creates an error with this reason. The message states the expected and the actual value.
    pub fn error(self, message: impl Into<Cow<'static, str>>) -> ApiError {
        ApiError::new(self, message)
    }

    /// Returns the reason with this code.
    pub fn named(code: &str) -> Option<Self> {
        REASONS.iter().copied().find(|reason| reason.code == code)
    }
}

impl PartialEq for Reason {
    fn eq(&self, other: &Self) -> bool {
        self.code == other.code
    }
}

impl Eq for Reason {}

macro_rules! reasons {
    ($($name:ident $grpc:ident $advice:literal)*) => {
        $(
            #[doc = $advice]
            pub const $name: Reason = Reason { code: stringify!($name), grpc: Code::$grpc, advice: $advice };
        )*
        /// Every reason, in the order of the table.
        pub const REASONS: &[Reason] = &[$($name),*];
    };
}

reasons! {
    // Authentication and authorization.
    UNAUTHENTICATED Unauthenticated "Send a token in the header `authorization: Bearer cw_...`"
    TOKEN_EXPIRED Unauthenticated "Ask the operator for a new token"
    ISSUER_UNAVAILABLE Unavailable "Try again; if the error persists, tell the operator to look at auth.oidc_issuer"
    PERMISSION_DENIED PermissionDenied "Use a token that has the scope this call needs"
    WRONG_TENANT NotFound "Use names of the tenant that your token belongs to"

    // Contents of the request.
    INVALID_ARGUMENT InvalidArgument "Correct the fields that the error lists"
    FIELD_MISSING InvalidArgument "Set the field"
    NAME_INVALID InvalidArgument "Use resource names as the server returned them"
    REQUEST_ID_INVALID InvalidArgument "Send a new random UUID with each new request, and the UUID of the first attempt when you repeat a request"
    REQUEST_ID_REUSED AlreadyExists "Use a new request id for a new request"
    PAGE_TOKEN_INVALID InvalidArgument "Begin the listing again without a page token"
    METHOD_UNKNOWN Unimplemented "Use a server that is at least as new as the client, or check the name of the method"
    REQUEST_TOO_LARGE ResourceExhausted "Split the request, or upload its data as a blob first"

    // Blobs.
    BLOB_NOT_FOUND NotFound "Upload the blob first"
    UPLOAD_NOT_FOUND NotFound "Begin the upload again unless it was aborted on purpose; a blob that is already stored is not sent again"
    UPLOAD_OFFSET_MISMATCH OutOfRange "Ask GetUpload for the committed offset and continue from there"
    DIGEST_MISMATCH InvalidArgument "Upload the blob again from its first byte, with the digest of exactly these bytes"
    SECRET_KEY_REJECTED InvalidArgument "Never upload a secret key; upload the evaluation key"
    BLOB_TOO_LARGE OutOfRange "Send a smaller blob; the server's limits are in GetCapabilities"
    QUOTA_EXCEEDED ResourceExhausted "Delete keys or ciphertexts, abort uploads, or ask the operator for a larger quota"
    DAY_QUOTA_EXCEEDED ResourceExhausted "Try again on the next day (UTC), or ask the operator for a larger quota"
    ENVELOPE_INVALID InvalidArgument "Send objects as the client library encodes them"
    WEAK_SET_REFUSED FailedPrecondition "Use a parameter set that GetCapabilities and `cloakwork sets` list without a weakness; a test server accepts weak sets with allow_weak_sets"

    // Keys.
    KEY_NOT_FOUND NotFound "Register the evaluation key first"
    KEY_INCOMPLETE FailedPrecondition "Use a key that has the missing parts; AddPart can add parts to a TFHE key, but not to a CKKS key"
    KEY_QUARANTINED FailedPrecondition "Upload the damaged part again and register it"
    KEY_DELETING FailedPrecondition "Wait until the jobs that use the key have ended, then register it again"
    KEY_PARTS_DIFFER InvalidArgument "Register parts that were all made under one client key"
    KEY_MISMATCH FailedPrecondition "Use ciphertexts that were made under the job's key and parameter set"
    KEY_CORRUPT DataLoss "Upload the key again; the stored bytes differ from the uploaded bytes"

    // Storage.
    STORAGE_FULL ResourceExhausted "Try again later, or ask the operator to free storage"
    STORAGE_FAILED Unavailable "Try again; if the error persists, tell the operator"
    DATABASE_UNAVAILABLE Unavailable "Try again; if the error persists, tell the operator"

    // Ciphertexts and programs.
    CIPHERTEXT_NOT_FOUND NotFound "Upload the ciphertexts again"
    CIPHERTEXT_IN_USE FailedPrecondition "Delete the ciphertexts when the jobs that read them have ended"
    PROGRAM_INVALID InvalidArgument "Correct the program; the error names the operation"
    PROGRAM_NOT_FOUND NotFound "Register the program first, or send it inside the job"
    INPUT_INVALID InvalidArgument "Send one list for each input of the program, with the types that the program declares"
    SET_NOT_SERVED FailedPrecondition "Use a parameter set that a worker of this server serves"

    // Jobs.
    JOB_NOT_FOUND NotFound "Check the job's name; ended jobs are removed after some time"
    JOB_POISON Aborted "Do not send the job again; tell the operator the job's name"
    JOB_ATTEMPTS_EXHAUSTED Aborted "Submit the job again when the service is healthy"
    JOB_CANCELLED Cancelled "Submit the job again if you still want its result"
    OUTPUT_EXPIRED NotFound "Run the job again, and fetch its outputs in time"
    OUTPUT_NOT_READY FailedPrecondition "Wait until the job has succeeded"
    PROGRAM_TOO_LARGE ResourceExhausted "Split the program: a worker cannot hold one row of its values"
    BLOB_UNAVAILABLE Unavailable "Submit the job again; if the error persists, tell the operator"
    BLOB_CORRUPT DataLoss "Upload the blobs that the job reads again"
    DEVICE_FAILED Unavailable "Submit the job again; if the error persists, tell the operator"
    WORKER_OUT_OF_MEMORY ResourceExhausted "Submit the job again; if the error persists, split the job"
    DEADLINE_EXCEEDED DeadlineExceeded "Allow more time, or send less work at once"

    // Load.
    OVERLOADED ResourceExhausted "Try again after the delay in RetryInfo"
    ADDRESS_LIMITED ResourceExhausted "Try again after the delay in RetryInfo, with a valid token"
    QUEUE_FULL ResourceExhausted "Try again after the delay in RetryInfo"
    TENANT_QUEUE_FULL ResourceExhausted "Wait for some of your jobs to end, then try again"
    DRAINING Unavailable "Try again; another server or the restarted server will answer"
    NOT_OWNER Unavailable "Try again; a worker connects to the server that the error names"

    // Workers.
    STALE_LEASE Aborted "Drop the job; another worker has its lease now"
    WORKER_UNKNOWN Unavailable "Attach first, and try again when the first assignment has arrived"
    CERTIFICATE_UNAVAILABLE Unavailable "Try again; if the error persists, tell the operator to look at attestation.sign_command"
    ATTESTATION_MISSING InvalidArgument "Use workers and servers of one version; as a client, ask the operator for a server that signs"
    ATTESTATION_INVALID InvalidArgument "Do not use the result; tell the operator"
    ATTESTATION_EXPIRED FailedPrecondition "Set the clocks of worker, server and client; do not use the result"
    ATTESTATION_OTHER_INSTALLATION FailedPrecondition "Compare the pinned anchor with the one that the operator prints; do not use the result"
    ATTESTATION_MISMATCH InvalidArgument "Do not use the result; it belongs to another job"
    WORKER_REFUSED ResourceExhausted "Attach fewer workers, or raise limits.workers"
    WORKER_QUARANTINED FailedPrecondition "Examine the worker's machine, then restart the worker"

    // Errors of the server itself.
    INTERNAL Internal "Try again; if the error persists, report the message to the operator"
}
