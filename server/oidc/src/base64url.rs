//! The encoding of the parts of a token and of the numbers of a key.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

/// Decodes base64url without padding. Each byte string has exactly one accepted encoding: trailing
/// bits must be zero, so that no second text stands for the same token.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_one_encoding_is_accepted() {
        assert_eq!(decode("_-8").as_deref(), Some(&[0xff, 0xef][..]));
        assert_eq!(decode(""), Some(Vec::new()));
        for wrong in ["_-8=", "/+8", "_-9", "_-8 ", "_-8\n", "_", "_-8é"] {
            assert_eq!(decode(wrong), None, "{wrong:?}");
        }
    }
}
