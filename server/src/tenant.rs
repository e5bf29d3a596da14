//! Names of tenants.

use std::{fmt, sync::Arc};

use crate::error::{ApiError, NAME_INVALID, quoted};

/// A tenant's name: 1 to 63 of `a-z`, `0-9` and `-`. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenant(Arc<str>);

impl Tenant {
    /// Checks the name.
    pub fn new(name: &str) -> Result<Self, ApiError> {
        if Self::allowed(name) {
            return Ok(Self(name.into()));
        }
        Err(NAME_INVALID.error(format!("a tenant is 1 to 63 of a-z, 0-9 and '-', not {}", quoted(name))))
    }

    /// The tenant of callers without a token.
    pub fn local() -> Self {
        Self("local".into())
    }

    /// The tenant of workers that authenticate with a certificate. No real tenant can have this
    /// name.
    pub fn workers() -> Self {
        Self("_workers".into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn allowed(name: &str) -> bool {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&name.len()) && name.bytes().all(plain)
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
