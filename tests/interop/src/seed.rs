//! Conversion of mask seeds.

use cloakwork_math::random::MaskSeed;
use tfhe::core_crypto::commons::math::random::{CompressionSeed, Seed};
use tfhe_csprng::{
    generators::aes_ctr::{AesCtrParams, AesIndex, ByteIndex, TableIndex},
    seeders::SeedKind,
};

use crate::ConversionError;

/// Number of AES blocks whose bytes a `u128` can count.
const COUNTABLE_BLOCKS: u128 = 1 << 124;

/// Converts the seed of a seeded key or ciphertext of tfhe-rs.
pub fn from_tfhe(seed: &CompressionSeed) -> Result<MaskSeed, ConversionError> {
    let SeedKind::Ctr(Seed(key)) = seed.inner.seed else {
        return Err(ConversionError::Unsupported { what: "a mask seed of the XOF kind" });
    };
    let (block, byte) = position(&seed.inner.first_index);
    Ok(MaskSeed { key, block, byte })
}

/// Converts a seed to a seed of tfhe-rs.
pub fn into_tfhe(seed: &MaskSeed) -> CompressionSeed {
    let first_index = TableIndex::new(AesIndex(seed.block), ByteIndex(usize::from(seed.byte)));
    CompressionSeed { inner: AesCtrParams { seed: SeedKind::Ctr(Seed(seed.key)), first_index } }
}

/// Computes the block and byte of a table index. The index reveals only its distance in bytes from
/// another index.
fn position(index: &TableIndex) -> (u128, u8) {
    // The distance saturates at 2^128 bytes, so the code measures from the nearest of 16 marks.
    let marks = (0..16).rev().map(|sixteenth| sixteenth * COUNTABLE_BLOCKS);
    let distances = marks.filter_map(|mark| {
        let mark_index = TableIndex::new(AesIndex(mark), ByteIndex(0));
        TableIndex::distance(index, &mark_index).map(|distance| (mark, distance.0))
    });
    let (mark, distance) = { distances }.next().expect("no index lies before the first mark");
    (mark + distance / 16, (distance % 16) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_survives_the_round_trip() {
        let blocks = [0, 1, 41, COUNTABLE_BLOCKS - 1, COUNTABLE_BLOCKS, 7 * COUNTABLE_BLOCKS + 3, u128::MAX];
        for block in blocks {
            for byte in [0, 1, 15] {
                let seed = MaskSeed { key: 0x0123_4567_89ab_cdef, block, byte };
                assert_eq!(from_tfhe(&into_tfhe(&seed)), Ok(seed));
            }
        }
    }

    #[test]
    fn xof_seeds_are_refused() {
        let seed = CompressionSeed {
            inner: tfhe::core_crypto::commons::math::random::XofSeed::new_u128(1, *b"domain_s").into(),
        };
        assert_eq!(from_tfhe(&seed), Err(ConversionError::Unsupported { what: "a mask seed of the XOF kind" }));
    }
}
