//! Content of a TFHE key file. All numbers are little-endian, and bits start from the lowest of a
//! byte. The content has, in this order:
//!
//! - the big key's bits;
//! - the number of small keys (u16), and for each its parameter set (u16) and its bits;
//! - the number of packing keys (u16), and for each its compression set (u16) and its bits.
//!
//! The header names the first small key's set. Lengths follow from the sets; unused bits of a last
//! byte are zero.

use cloakwork_params::{CompressionId, KeyId, SetId, table};
use zeroize::Zeroizing;

use super::KeyFileError;
use crate::{ClientKey, GlweSecretKey, LweSecretKey};

/// Encodes the content of a file for `key`.
pub(super) fn encode(key: &ClientKey) -> Zeroizing<Vec<u8>> {
    let small = || key.sets().filter_map(|set| Some((set.id.0, key.small(set).ok()?.bits())));
    let packing = || key.compression_sets().filter_map(|set| Some((set.id.0, key.packing(set).ok()?.bits())));
    let lengths = small().chain(packing()).map(|(_, bits)| 2 + bits.len().div_ceil(8));
    let len = key.big().bits().len().div_ceil(8) + 4 + lengths.sum::<usize>();
    // Allocate the full length at once: a vector that grows would leave copies of secrets behind.
    let mut out = Zeroizing::new(Vec::with_capacity(len));
    put_bits(&mut out, key.big().bits());
    out.extend((small().count() as u16).to_le_bytes());
    for (id, bits) in small() {
        out.extend(id.to_le_bytes());
        put_bits(&mut out, bits);
    }
    out.extend((packing().count() as u16).to_le_bytes());
    for (id, bits) in packing() {
        out.extend(id.to_le_bytes());
        put_bits(&mut out, bits);
    }
    debug_assert_eq!(out.len(), len);
    out
}

/// Decodes the key in `content`, with the key id and the first set from the header.
pub(super) fn decode(key_id: KeyId, first: SetId, content: &[u8]) -> Result<ClientKey, KeyFileError> {
    let mut input = Input(content);
    let first_set = table::find(first).ok_or(KeyFileError::UnknownSet { got: first })?;
    let big = input.bits(first_set.big_dimension())?;
    let mut key = None;
    for _ in 0..input.number()? {
        let id = SetId(input.number()?);
        let set = table::find(id).ok_or(KeyFileError::UnknownSet { got: id })?;
        let small = lwe(input.bits(set.lwe_dimension)?)?;
        match &mut key {
            None if id == first => {
                let big = glwe(set.polynomial_size, big.to_vec())?;
                key = Some(fits(ClientKey::from_parts(key_id, set, big, small))?);
            }
            None => return Err(KeyFileError::Malformed { what: "the header and the content name different sets" }),
            Some(key) => fits(key.add_part(set, small))?,
        }
    }
    let mut key = key.ok_or(KeyFileError::Malformed { what: "no small key" })?;
    for _ in 0..input.number()? {
        let id = CompressionId(input.number()?);
        let set = table::find_compression(id).ok_or(KeyFileError::Malformed { what: "an unknown compression set" })?;
        let packing = glwe(set.packing_polynomial_size, input.bits(set.packing_dimension())?.to_vec())?;
        fits(key.add_compression_part(set, packing))?;
    }
    if input.0.is_empty() { Ok(key) } else { Err(KeyFileError::Malformed { what: "bytes after the last key" }) }
}

/// Bytes that are not read yet.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn number(&mut self) -> Result<u16, KeyFileError> {
        let (number, rest) = self.0.split_first_chunk().ok_or(ENDS_EARLY)?;
        self.0 = rest;
        Ok(u16::from_le_bytes(*number))
    }

    fn bits(&mut self, count: usize) -> Result<Zeroizing<Vec<u8>>, KeyFileError> {
        let (bytes, rest) = self.0.split_at_checked(count.div_ceil(8)).ok_or(ENDS_EARLY)?;
        self.0 = rest;
        let bit = |index: usize| bytes[index / 8] >> (index % 8) & 1;
        if (count..bytes.len() * 8).any(|index| bit(index) == 1) {
            return Err(KeyFileError::Malformed { what: "bits beyond the end of a key" });
        }
        Ok(Zeroizing::new((0..count).map(bit).collect()))
    }
}

fn put_bits(out: &mut Vec<u8>, bits: &[u8]) {
    out.extend(bits.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, bit| byte << 1 | bit)));
}

fn lwe(bits: Zeroizing<Vec<u8>>) -> Result<LweSecretKey, KeyFileError> {
    fits(LweSecretKey::from_bits(bits.to_vec()))
}

fn glwe(polynomial_size: usize, bits: Vec<u8>) -> Result<GlweSecretKey, KeyFileError> {
    fits(GlweSecretKey::from_bits(polynomial_size, bits))
}

/// Maps an error of the key's construction. The parts have the lengths of their sets, so the
/// remaining causes are a set of another family and a repeated set.
fn fits<V>(result: Result<V, crate::SecretError>) -> Result<V, KeyFileError> {
    result.map_err(|_| KeyFileError::Malformed { what: "keys that do not belong together" })
}

const ENDS_EARLY: KeyFileError = KeyFileError::Malformed { what: "it ends early" };
