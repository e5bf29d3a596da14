//! The format of a token: `cw_{public part}_{secret part}`. The prefix lets scanners find leaked
//! tokens.

use std::fmt::{self, Write as _};

use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// The prefix of every token.
const PREFIX: &str = "cw_";

/// Length of the public part in bytes. The public part identifies the token in listings.
const ID_BYTES: usize = 6;

/// Length of the secret part in bytes. The secret part comes from the operating system's random
/// generator and cannot be guessed, so a plain hash without salt or stretching is safe to store.
const SECRET_BYTES: usize = 32;

/// The public part of a token, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenId(String);

impl TokenId {
    /// Parses a public part. Returns `None` if it is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 2 * ID_BYTES && is_hex(text)).then(|| Self(text.to_owned()))
    }

    /// The hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A whole token. Wiped from memory when dropped. Only [`Secret::reveal`] returns the text.
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Generates a random token.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut id = [0; ID_BYTES];
        let mut secret = Zeroizing::new([0; SECRET_BYTES]);
        getrandom::fill(&mut id)?;
        getrandom::fill(secret.as_mut())?;
        // The capacity covers the whole text. If the string grew, it would leave copies of the
        // secret in freed memory.
        let mut text = Zeroizing::new(String::with_capacity(PREFIX.len() + 2 * ID_BYTES + 1 + 2 * SECRET_BYTES));
        text.push_str(PREFIX);
        hex(&mut text, &id);
        text.push('_');
        hex(&mut text, secret.as_ref());
        Ok(Self(text))
    }

    /// Parses a token from outside. Returns `None` if it is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let formed = id.len() == 2 * ID_BYTES && secret.len() == 2 * SECRET_BYTES && is_hex(id) && is_hex(secret);
        formed.then(|| Self(Zeroizing::new(text.to_owned())))
    }

    /// The token's public part.
    pub fn id(&self) -> TokenId {
        TokenId(self.0[PREFIX.len()..PREFIX.len() + 2 * ID_BYTES].to_owned())
    }

    /// The hash of the token, which is all that the database stores of the secret.
    pub fn hash(&self) -> [u8; 32] {
        *blake3::hash(self.0.as_bytes()).as_bytes()
    }

    /// Whether `stored` is the hash of this token. Takes constant time.
    pub fn matches(&self, stored: &[u8]) -> bool {
        self.hash().ct_eq(stored).into()
    }

    /// The text of the token, for its owner.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}_...", self.id())
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Appends bytes in hexadecimal.
pub(crate) fn hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_parse_and_are_all_different() {
        let [first, second] = [(); 2].map(|()| Secret::generate().unwrap());
        assert_ne!(first.reveal(), second.reveal());
        let read = Secret::parse(first.reveal()).unwrap();
        assert_eq!(read.id(), first.id());
        assert!(read.matches(&first.hash()) && !second.matches(&first.hash()));
        assert!(!read.matches(&[]) && !read.matches(&first.hash()[..31]));
        assert_eq!(TokenId::parse(first.id().as_str()), Some(first.id()));
    }

    #[test]
    fn debug_output_shows_no_secret() {
        let token = Secret::generate().unwrap();
        let secret = &token.reveal()[PREFIX.len() + 2 * ID_BYTES + 1..];
        assert!(!format!("{token:?}").contains(&secret[..4]));
    }

    #[test]
    fn malformed_tokens_do_not_parse() {
        let good = Secret::generate().unwrap().reveal().to_owned();
        let upper = good.to_uppercase();
        for bad in ["", "cw_", "cw__", "x", &good[1..], &good[..good.len() - 1], &format!("{good}0"), &upper, "cw_é_é"]
        {
            assert!(Secret::parse(bad).is_none(), "{bad}");
        }
    }
}
