//! Pages of a listing. A page token holds only a position and gives no rights. A forged token only
//! begins the caller's own listing at a different position.

use std::fmt::Write as _;

use crate::error::{ApiError, INVALID_ARGUMENT, PAGE_TOKEN_INVALID};

/// First byte of a token: the version of its format.
const VERSION: u8 = 1;

/// Bytes of the checksum that tells tokens of different listings apart.
const CHECK_BYTES: usize = 8;

/// Maximum length of a position, in bytes.
const POSITION_BYTES_MAX: usize = 128;

/// The number of entries to return: the requested number, limited to `limit`. A request of 0 means
/// the limit.
pub fn size(requested: i32, limit: u64) -> Result<u32, ApiError> {
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    match u32::try_from(requested) {
        Ok(0) => Ok(limit),
        Ok(requested) => Ok(requested.min(limit)),
        Err(_) => Err(INVALID_ARGUMENT
            .error(format!("page_size must be 0 or more, not {requested}"))
            .field("page_size", "must be 0 or more")),
    }
}

/// The token of the page that begins after `position`. `listing` identifies the listing: tenant,
/// collection and filters.
pub fn token(listing: &str, position: &[u8]) -> String {
    debug_assert!(position.len() <= POSITION_BYTES_MAX);
    let bytes = [VERSION].into_iter().chain(checksum(listing, position)).chain(position.iter().copied());
    bytes.fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The position in a token of this listing, or `None` for the first page.
pub fn position(listing: &str, token: &str) -> Result<Option<Vec<u8>>, ApiError> {
    if token.is_empty() {
        return Ok(None);
    }
    let bytes = bytes(token).filter(|bytes| bytes.len() > CHECK_BYTES && bytes[0] == VERSION);
    let bytes = bytes.ok_or_else(|| PAGE_TOKEN_INVALID.error("page_token was not issued by this server"))?;
    let (check, position) = bytes[1..].split_at(CHECK_BYTES);
    if check != checksum(listing, position) {
        return Err(PAGE_TOKEN_INVALID.error("page_token was not issued for this listing"));
    }
    Ok(Some(position.to_vec()))
}

fn checksum(listing: &str, position: &[u8]) -> [u8; CHECK_BYTES] {
    let mut hasher = blake3::Hasher::new_derive_key("cloakwork page token");
    hasher.update(&(listing.len() as u64).to_le_bytes()).update(listing.as_bytes()).update(position);
    let mut check = [0; CHECK_BYTES];
    hasher.finalize_xof().fill(&mut check);
    check
}

fn bytes(token: &str) -> Option<Vec<u8>> {
    if token.len() > 2 * (1 + CHECK_BYTES + POSITION_BYTES_MAX) || !token.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    token.as_bytes().chunks_exact(2).map(|pair| u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size(0, 100), Ok(100));
        assert_eq!(size(7, 100), Ok(7));
        assert_eq!(size(i32::MAX, 100), Ok(100));
        for negative in [-1, i32::MIN] {
            assert_eq!(size(negative, 100).unwrap_err().reason(), INVALID_ARGUMENT);
        }
    }

    #[test]
    fn a_token_of_another_listing_is_refused() {
        let token = token("tenants/a/jobs", b"position");
        assert_eq!(position("tenants/a/jobs", &token), Ok(Some(b"position".to_vec())));
        assert_eq!(position("tenants/b/jobs", &token).unwrap_err().reason(), PAGE_TOKEN_INVALID);
        assert_eq!(position("tenants/a/jobs", ""), Ok(None));
    }

    proptest! {
        #[test]
        fn an_issued_page_token_reads_back(listing in "[a-z/]{0,30}", at in prop::collection::vec(any::<u8>(), 0..POSITION_BYTES_MAX)) {
            prop_assert_eq!(position(&listing, &token(&listing, &at)), Ok(Some(at)));
        }

        #[test]
        fn forged_tokens_are_refused(garbage in "\\PC{1,400}|[0-9a-f]{1,400}") {
            prop_assert_eq!(position("l", &garbage).unwrap_err().reason(), PAGE_TOKEN_INVALID);
        }

        #[test]
        fn a_changed_digit_is_noticed(at in 0usize..34, digit in "[0-9a-f]") {
            let mut changed = token("l", b"position");
            let at = at % changed.len();
            prop_assume!(changed[at..=at] != digit);
            changed.replace_range(at..=at, &digit);
            prop_assert!(position("l", &changed).is_err());
        }
    }
}
