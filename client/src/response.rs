//! Fields of responses.

use crate::{ClientError, Result};

/// A field that a response must have.
pub(crate) fn required<T>(field: Option<T>, what: &str) -> Result<T> {
    field.ok_or_else(|| ClientError::malformed(format!("it has no {what}")))
}
