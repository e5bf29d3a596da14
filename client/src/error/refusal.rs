//! A refusal by the server, with all its details.

use std::{collections::BTreeMap, fmt, time::Duration};

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::names::one_line;

/// Why the server refused a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The gRPC code.
    pub code: Code,
    /// Stable code such as `KEY_NOT_FOUND`; docs/errors has a page on each. Empty if the server
    /// sent none.
    pub reason: String,
    /// A sentence that tells the user what to do.
    pub message: String,
    /// Delay before the next attempt, if the server states one.
    pub retry_after: Option<Duration>,
    /// The values in the message, by name.
    pub metadata: BTreeMap<String, String>,
    /// Invalid fields of the request, each with the reason.
    pub fields: Vec<(String, String)>,
}

impl From<&Status> for Refusal {
    fn from(status: &Status) -> Self {
        // Unreadable details are left out, because code and message are still useful.
        let details = status.get_error_details();
        let info = details.error_info().cloned();
        let (reason, metadata) = info.map_or_else(Default::default, |info| (info.reason, info.metadata));
        let violations = details.bad_request().map(|request| request.field_violations.clone()).unwrap_or_default();
        Self {
            code: status.code(),
            reason: one_line(&reason),
            message: one_line(status.message()),
            retry_after: details.retry_info().and_then(|info| info.retry_delay),
            metadata: metadata.into_iter().collect(),
            fields: violations.into_iter().map(|it| (one_line(&it.field), one_line(&it.description))).collect(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason.as_str() {
            "" => write!(out, "{:?}: {}", self.code, self.message)?,
            reason => write!(out, "{reason}: {}", self.message)?,
        }
        for (field, problem) in &self.fields {
            write!(out, "; {field}: {problem}")?;
        }
        match self.retry_after {
            Some(delay) => write!(out, " (try again in {:.1} s)", delay.as_secs_f64()),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}
