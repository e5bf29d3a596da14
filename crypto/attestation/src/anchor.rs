//! Anchors: the installations whose results a client takes.

use std::{fmt, str::FromStr};

use crate::PublicKey;

/// Maximum number of keys in an anchor. An installation has one key, during a rotation two, and a
/// few retired ones.
pub const ANCHOR_KEYS_MAX: usize = 16;

/// Public keys of an installation: the current key, and others that are next or retired. The text
/// form is the keys' text forms with commas between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor(Vec<PublicKey>);

/// A text is no anchor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnchorError {
    /// A part of the text is no public key.
    #[error("'{0}' is no public key: expected 'ed25519:' and 64 hexadecimal digits")]
    NoKey(String),
    /// There are no keys, or too many.
    #[error("an anchor of {0} keys: expected 1 to {ANCHOR_KEYS_MAX}")]
    Count(usize),
}

impl Anchor {
    /// An anchor of these keys, each once.
    pub fn new(keys: impl IntoIterator<Item = PublicKey>) -> Result<Self, AnchorError> {
        let mut distinct = Vec::new();
        for key in keys {
            if !distinct.contains(&key) {
                distinct.push(key);
            }
        }
        match distinct.len() {
            1..=ANCHOR_KEYS_MAX => Ok(Self(distinct)),
            count => Err(AnchorError::Count(count)),
        }
    }

    /// Its keys.
    pub fn keys(&self) -> &[PublicKey] {
        &self.0
    }

    /// Whether the anchor names this key.
    pub fn has(&self, key: &PublicKey) -> bool {
        self.0.contains(key)
    }
}

impl FromStr for Anchor {
    type Err = AnchorError;

    fn from_str(text: &str) -> Result<Self, AnchorError> {
        let key = |text: &str| {
            let text = text.trim();
            // The error shows a part of the text only, which may be a whole file.
            PublicKey::parse(text).ok_or_else(|| AnchorError::NoKey(text.chars().take(80).collect()))
        };
        let keys = text.trim().split(',').map(key).collect::<Result<Vec<_>, _>>()?;
        Self::new(keys)
    }
}

impl fmt::Display for Anchor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, key) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(out, "{comma}{key}")?;
        }
        Ok(())
    }
}
