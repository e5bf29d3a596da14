//! What a caller is told when something goes wrong: a [`Reason`] out of one table, a message about this very case,
//! and the `google.rpc` details that let a program act on it.

mod convert;
mod reason;

use std::{borrow::Cow, collections::HashMap, time::Duration};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

pub use reason::*;

/// The `domain` of every `ErrorInfo` that this service sends.
pub const DOMAIN: &str = "cloakwork";

/// Longest message, in bytes. Errors travel in headers, and clients refuse headers beyond 16 KiB.
const MESSAGE_BYTES_MAX: usize = 1024;

/// Longest metadata value and field description, in bytes.
const VALUE_BYTES_MAX: usize = 256;

/// Most fields that a refusal lists.
const FIELDS_MAX: usize = 8;

/// A refusal or failure on its way to the caller.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}: {message}", reason.code)]
pub struct ApiError {
    reason: Reason,
    message: Cow<'static, str>,
    // Boxed, because most results are not errors and should not carry their size.
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
    /// An error for `reason`; `message` says what was expected and what came.
    pub fn new(reason: Reason, message: impl Into<Cow<'static, str>>) -> Self {
        let mut message = message.into();
        if message.len() > MESSAGE_BYTES_MAX {
            message = Cow::Owned(shortened(message.into_owned(), MESSAGE_BYTES_MAX));
        }
        Self { reason, message, details: Box::default() }
    }

    /// Adds a value that a program may want to read out of the error. A later value of the same key wins.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl ToString) -> Self {
        self.details.metadata.push((key, value_text(value.to_string())));
        self
    }

    /// Tells the caller when to try again.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.details.retry_after = Some(delay);
        self
    }

    /// Names a field of the request and what is wrong with it. What lies beyond the first few is left out.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>, description: impl Into<String>) -> Self {
        if self.details.fields.len() < FIELDS_MAX {
            self.details.fields.push((value_text(field.into()), value_text(description.into())));
        }
        self
    }

    /// Names the limit that was hit: whose it is (`tenants/{tenant}`), and what it allows.
    #[must_use]
    pub fn quota(mut self, subject: impl Into<String>, description: impl Into<String>) -> Self {
        self.details.quota = Some((value_text(subject.into()), value_text(description.into())));
        self
    }

    /// Why.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// What was expected and what came.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// When to try again, where that is known.
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

/// The name of a gRPC code as its specification writes it: `NOT_FOUND`.
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
