//! The public mask stream: AES-128 in counter mode, bit-identical with tfhe-rs.

use tfhe_csprng::{
    generators::{
        DefaultRandomGenerator, RandomGenerator,
        aes_ctr::{AesCtrParams, AesIndex, ByteIndex, TableIndex},
    },
    seeders::{Seed, SeedKind},
};

use crate::torus::Torus;

/// Where a mask stream starts. Public: it tells nothing about any secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MaskSeed {
    /// The AES key, as the little-endian integer that tfhe-rs calls the seed.
    pub key: u128,
    /// First AES block.
    pub block: u128,
    /// First byte within that block, below 16.
    pub byte: u8,
}

/// The bytes that a [`MaskSeed`] stands for, read as torus words.
pub struct MaskStream {
    generator: DefaultRandomGenerator,
}

impl MaskStream {
    /// The stream from its beginning.
    pub fn new(seed: &MaskSeed) -> Self {
        Self::at(seed, 0)
    }

    /// The stream from byte `offset` on.
    pub fn at(seed: &MaskSeed, offset: u128) -> Self {
        let start = TableIndex::new(AesIndex(seed.block), ByteIndex(usize::from(seed.byte))).increased(offset);
        let params = AesCtrParams { seed: SeedKind::Ctr(Seed(seed.key)), first_index: start };
        Self { generator: DefaultRandomGenerator::new(params) }
    }

    /// Bytes that one word of a modulus takes from the stream.
    pub fn bytes_per_word(modulus_log2: u32) -> usize {
        modulus_log2.div_ceil(8) as usize
    }

    /// Fills `words` with uniform values modulo 2^`modulus_log2`, kept in the top bits.
    pub fn fill<T: Torus>(&mut self, modulus_log2: u32, words: &mut [T]) {
        let mut buffer = [0; 4096];
        let width = Self::bytes_per_word(modulus_log2);
        for chunk in words.chunks_mut(buffer.len() / width) {
            let bytes = &mut buffer[..chunk.len() * width];
            for byte in bytes.iter_mut() {
                *byte = self.generator.next().expect("the stream has 2^132 bytes");
            }
            for (word, bytes) in chunk.iter_mut().zip(bytes.chunks_exact(width)) {
                let mut value = [0; 8];
                value[..width].copy_from_slice(bytes);
                *word = T::from_u64(u64::from_le_bytes(value) << (T::BITS - modulus_log2));
            }
        }
    }
}
