//! Notation for the size of a bootstrap's key.

use std::{fmt, str::FromStr};

use cloakwork_client::KeySize;

/// `small`, `medium` or `large`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size(pub(super) KeySize);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "small" => Ok(Self(KeySize::Small)),
            "medium" => Ok(Self(KeySize::Medium)),
            "large" => Ok(Self(KeySize::Large)),
            _ => Err(format!("'{text}' is no size of a key: expected small, medium or large")),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self.0 {
            KeySize::Small => "small",
            KeySize::Medium => "medium",
            KeySize::Large => "large",
        })
    }
}
