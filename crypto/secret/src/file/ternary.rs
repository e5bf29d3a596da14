//! Content of a CKKS key file: two bits for each coefficient of the secret, from the lowest of a
//! byte up. The two bits are 0 for 0, 1 for 1 and 3 for -1. The header names the set, which fixes
//! the number of coefficients.

use cloakwork_params::{KeyId, SetId, ckks};
use zeroize::Zeroizing;

use super::KeyFileError;
use crate::ckks::SecretKey;

/// Encodes the content of a file for `key`.
pub(super) fn encode(key: &SecretKey) -> Zeroizing<Vec<u8>> {
    let byte = |four: &[i8]| four.iter().rev().fold(0, |byte, one| byte << 2 | one.cast_unsigned() & 3);
    let (fours, rest) = key.coefficients().as_chunks::<4>();
    debug_assert!(rest.is_empty(), "a set's ring has a multiple of four coefficients");
    Zeroizing::new(fours.iter().map(|four| byte(four)).collect())
}

/// Decodes the key in `content`, with the key id and the set from the header.
pub(super) fn decode(key_id: KeyId, set: SetId, content: &[u8]) -> Result<SecretKey, KeyFileError> {
    let set = ckks::find(set).ok_or(KeyFileError::UnknownSet { got: set })?;
    if content.len() != set.size() / 4 {
        return Err(KeyFileError::Malformed { what: "a length other than that of its set" });
    }
    // Read the two bits as a signed number. 2 becomes -2, which is not a valid coefficient.
    let coefficient = |byte: u8, place: usize| (byte << (6 - 2 * place)).cast_signed() >> 6;
    let mut coefficients = Zeroizing::new(Vec::with_capacity(set.size()));
    coefficients.extend(content.iter().flat_map(|byte| (0..4).map(move |place| coefficient(*byte, place))));
    let key = SecretKey::from_parts(key_id, set, coefficients);
    key.ok_or(KeyFileError::Malformed {
        what: "an empty key id, a coefficient that is not -1, 0 or 1, or too few nonzero coefficients",
    })
}
