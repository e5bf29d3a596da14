//! Errors returned to callers: a [`Reason`] from one table, a message about the specific case, and
//! the `google.rpc` details that let a program react.

mod convert;
mod reason;

use std::{borrow::Cow, collections::HashMap, time::Duration};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

pub use convert::database_busy;
pub use reason::*;

/// The `domain` of every `ErrorInfo` that this service sends.
pub const DOMAIN: &str = "cloakwork";

/// Maximum length of a message in bytes. Errors travel in headers, and clients refuse header lists
/// of more than 16 KiB.
const MESSAGE_BYTES_MAX: usize = 1024;

/// Maximum length of a metadata value or field description in bytes.
const VALUE_BYTES_MAX: usize = 256;

/// Maximum number of fields that an error lists.
const FIELDS_MAX: usize = 8;

/// An error that is returned to the caller.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}: {message}", reason.code)]
pub struct ApiError {
    reason: Reason,
    message: Cow<'static, str>,
    // Boxed to keep `Result` small, because most results are not errors.
    details: Box<Details>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Details {
    metadata: Vec<(&'static str, String)>,
    retry_after: Option<Duration>,
    fields: Vec<(String, String)>,
    quota: Option<(String, String)>,
}

impl ApiError {
    /// Creates an error for `reason`. The message states the expected and the actual value.
    pub fn new(reason: Reason, message: impl Into<Cow<'static, str>>) -> Self {
        let mut message = message.into();
        if message.len() > MESSAGE_BYTES_MAX {
            message = Cow::Owned(shortened(message.into_owned(), MESSAGE_BYTES_MAX));
        }
        Self { reason, message, details: Box::default() }
    }

    /// Adds a value that a program may read from the error. A later value for a key replaces an
    /// earlier value.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl ToString) -> Self {
        self.details.metadata.push((key, value_text(value.to_string())));
        self
    }

    /// Sets the delay after which the caller may retry.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.details.retry_after = Some(delay);
        self
    }

    /// Names a field of the request and its error. Fields beyond the first `FIELDS_MAX` are left
    /// out.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>, description: impl Into<String>) -> Self {
        if self.details.fields.len() < FIELDS_MAX {
            self.details.fields.push((value_text(field.into()), value_text(description.into())));
        }
        self
    }

    /// Names the limit that was exceeded: its subject (`tenants/{tenant}`) and its value.
    #[must_use]
    pub fn quota(mut self, subject: impl Into<String>, description: impl Into<String>) -> Self {
        self.details.quota = Some((value_text(subject.into()), value_text(description.into())));
        self
    }

    /// The reason of the error.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The message: the expected and the actual value.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The delay after which the caller may retry, if known.
    pub fn retry_delay(&self) -> Option<Duration> {
        self.details.retry_after
    }
}

impl From<ApiError> for Status {
    fn from(error: ApiError) -> Self {
        let Details { metadata, retry_after, fields, quota } = *error.details;
        let metadata: HashMap<String, String> =
            metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let mut details = ErrorDetails::with_error_info(error.reason.code, DOMAIN, metadata);
        if let Some(delay) = retry_after {
            details.set_retry_info(Some(delay));
        }
        for (field, description) in fields {
            details.add_bad_request_violation(field, description);
        }
        if let Some((subject, description)) = quota {
            details.add_quota_failure_violation(subject, description);
        }
        let message = format!("{}. {}", error.message.trim_end_matches('.'), error.reason.advice);
        Status::with_error_details(error.reason.grpc, message, details)
    }
}

/// The name of a gRPC code as in the gRPC specification, such as `NOT_FOUND`.
pub fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

fn value_text(text: String) -> String {
    shortened(text, VALUE_BYTES_MAX)
}

fn shortened(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        let end = (0..=bytes_max).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Text of a caller for an error message: escaped, in one line, and cut to 120 characters.
pub(crate) fn quoted(text: &str) -> String {
    const CHARS_MAX: usize = 120;
    let mut short: String = text.chars().take(CHARS_MAX).flat_map(char::escape_default).collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        short.push_str("...");
    }
    format!("'{short}'")
}

#[cfg(test)]
mod tests;
