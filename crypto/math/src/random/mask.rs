//! The public mask stream: AES-128 in counter mode, bit-identical with tfhe-rs.

use tfhe_csprng::generators::{
    SoftwareAes128BlockCipher,
    aes_ctr::{AES_CALLS_PER_BATCH, Aes128Key, AesBlockCipher, BYTES_PER_AES_CALL, BYTES_PER_BATCH},
    default::DefaultAes128BlockCipher,
};

use super::{OsRandomError, fill_from_os};
use crate::torus::Torus;

/// The start of a mask stream. A seed is public and tells nothing about any secret.
///
/// A seed corresponds to tfhe-rs's `AesCtrParams` with a `SeedKind::Ctr` seed. `SeedKind::Xof`,
/// which derives the key and the first counter from a byte string, is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MaskSeed {
    /// The AES key, as the little-endian integer that tfhe-rs calls the seed.
    pub key: u128,
    /// Counter of the first AES block.
    pub block: u128,
    /// First byte within that block, below 16.
    pub byte: u8,
}

impl MaskSeed {
    /// A fresh seed from the operating system, unrelated to every other value drawn from it.
    pub fn fresh() -> Result<Self, OsRandomError> {
        let mut key = [0; 16];
        fill_from_os(&mut key)?;
        Ok(Self { key: u128::from_le_bytes(key), block: 0, byte: 0 })
    }

    /// The position in this stream that is this number of bytes further on.
    pub fn advanced(&self, bytes: u128) -> Self {
        const BLOCK: u128 = BYTES_PER_AES_CALL as u128;
        let byte = u128::from(self.byte) + bytes % BLOCK;
        let block = self.block.wrapping_add(bytes / BLOCK).wrapping_add(byte / BLOCK);
        Self { key: self.key, block, byte: (byte % BLOCK) as u8 }
    }
}

/// The byte stream of a [`MaskSeed`], read as torus words. Block counters wrap at 2^128.
pub struct MaskStream {
    cipher: Cipher,
    next_block: u128,
    batch: [u8; BYTES_PER_BATCH],
    /// Bytes of `batch` that are already consumed.
    used: usize,
}

impl MaskStream {
    /// The stream from its beginning.
    pub fn new(seed: &MaskSeed) -> Self {
        Self::at(seed, 0)
    }

    /// The stream from byte `offset` on.
    pub fn at(seed: &MaskSeed, offset: u128) -> Self {
        Self::with_cipher(Cipher::new(seed.key), seed, offset)
    }

    fn with_cipher(cipher: Cipher, seed: &MaskSeed, offset: u128) -> Self {
        let MaskSeed { block, byte, .. } = seed.advanced(offset);
        let mut stream = Self { cipher, next_block: block, batch: [0; BYTES_PER_BATCH], used: BYTES_PER_BATCH };
        if byte > 0 {
            stream.refill();
            stream.used = usize::from(byte);
        }
        stream
    }

    /// Bytes of the stream for one word of a modulus.
    pub fn bytes_per_word(modulus_log2: u32) -> usize {
        modulus_log2.div_ceil(8) as usize
    }

    /// Fills `words` with uniform values modulo 2^`modulus_log2`, kept in the top bits.
    pub fn fill<T: Torus>(&mut self, modulus_log2: u32, words: &mut [T]) {
        debug_assert!(0 < modulus_log2 && modulus_log2 <= T::BITS);
        match Self::bytes_per_word(modulus_log2) {
            8 => self.fill_wide::<T, 8>(modulus_log2, words),
            7 => self.fill_wide::<T, 7>(modulus_log2, words),
            6 => self.fill_wide::<T, 6>(modulus_log2, words),
            5 => self.fill_wide::<T, 5>(modulus_log2, words),
            4 => self.fill_wide::<T, 4>(modulus_log2, words),
            3 => self.fill_wide::<T, 3>(modulus_log2, words),
            2 => self.fill_wide::<T, 2>(modulus_log2, words),
            _ => self.fill_wide::<T, 1>(modulus_log2, words),
        }
    }

    /// Like [`fill`](Self::fill), with the bytes of a word as a compile-time constant.
    fn fill_wide<T: Torus, const WIDTH: usize>(&mut self, modulus_log2: u32, words: &mut [T]) {
        let mut buffer = [0; 4096];
        for chunk in words.chunks_mut(buffer.len() / WIDTH) {
            let bytes = &mut buffer[..chunk.len() * WIDTH];
            self.fill_bytes(bytes);
            for (word, bytes) in chunk.iter_mut().zip(bytes.chunks_exact(WIDTH)) {
                let mut value = [0; 8];
                value[..WIDTH].copy_from_slice(bytes);
                *word = T::from_u64(u64::from_le_bytes(value) << (T::BITS - modulus_log2));
            }
        }
    }

    /// The next bytes of the stream.
    pub(super) fn fill_bytes(&mut self, bytes: &mut [u8]) {
        let (head, rest) = bytes.split_at_mut(bytes.len().min(BYTES_PER_BATCH - self.used));
        head.copy_from_slice(&self.batch[self.used..][..head.len()]);
        self.used += head.len();
        let mut batches = rest.chunks_exact_mut(BYTES_PER_BATCH);
        for batch in &mut batches {
            batch.copy_from_slice(&self.next_batch());
        }
        let tail = batches.into_remainder();
        if !tail.is_empty() {
            self.refill();
            self.used = tail.len();
            tail.copy_from_slice(&self.batch[..tail.len()]);
        }
    }

    fn refill(&mut self) {
        self.batch = self.next_batch();
        self.used = 0;
    }

    #[inline]
    fn next_batch(&mut self) -> [u8; BYTES_PER_BATCH] {
        let first = self.next_block;
        self.next_block = first.wrapping_add(AES_CALLS_PER_BATCH as u128);
        self.cipher.batch(std::array::from_fn(|i| first.wrapping_add(i as u128).to_le()))
    }
}

/// AES-128, in hardware instructions if the processor has them.
enum Cipher {
    Hardware(DefaultAes128BlockCipher),
    Software(SoftwareAes128BlockCipher),
}

impl Cipher {
    fn new(key: u128) -> Self {
        // `DefaultAes128BlockCipher` panics on a processor without AES instructions.
        if has_aes_instructions() { Self::hardware(key) } else { Self::software(key) }
    }

    fn hardware(key: u128) -> Self {
        Self::Hardware(DefaultAes128BlockCipher::new(Aes128Key::new(key.to_le())))
    }

    fn software(key: u128) -> Self {
        Self::Software(SoftwareAes128BlockCipher::new(Aes128Key::new(key.to_le())))
    }

    #[inline]
    fn batch(&mut self, blocks: [u128; AES_CALLS_PER_BATCH]) -> [u8; BYTES_PER_BATCH] {
        match self {
            Self::Hardware(cipher) => cipher.generate_batch(blocks),
            Self::Software(cipher) => cipher.generate_batch(blocks),
        }
    }
}

fn has_aes_instructions() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("sse2");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes") && std::arch::is_aarch64_feature_detected!("neon");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tfhe_csprng::{
        generators::{
            RandomGenerator, SoftwareRandomGenerator,
            aes_ctr::{AesCtrParams, AesIndex, ByteIndex, TableIndex},
        },
        seeders::{Seed, SeedKind},
    };

    use super::*;

    const SEED: MaskSeed = MaskSeed { key: 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978, block: 41, byte: 11 };

    /// The stream from tfhe-csprng's own generator, byte by byte.
    fn reference(seed: &MaskSeed, offset: u128, count: usize) -> Vec<u8> {
        let start = TableIndex::new(AesIndex(seed.block), ByteIndex(usize::from(seed.byte))).increased(offset);
        let params = AesCtrParams { seed: SeedKind::Ctr(Seed(seed.key)), first_index: start };
        SoftwareRandomGenerator::new(params).take(count).collect()
    }

    #[test]
    fn every_offset_reads_the_same_stream_as_tfhe_csprng() {
        for offset in (0..300).chain([1 << 40, (1 << 100) + 7]) {
            let mut words = vec![0_u64; 61];
            MaskStream::at(&SEED, offset).fill(64, &mut words);
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(bytes, reference(&SEED, offset, bytes.len()), "offset {offset}");
        }
    }

    #[test]
    fn short_reads_continue_where_the_last_one_ended() {
        let mut stream = MaskStream::new(&SEED);
        let mut bytes = vec![];
        for length in (0..150).chain([1000, 1, 5000]) {
            let start = bytes.len();
            bytes.resize(start + length, 0);
            stream.fill_bytes(&mut bytes[start..]);
        }
        assert_eq!(bytes, reference(&SEED, 0, bytes.len()));
    }

    #[test]
    fn words_of_every_modulus_take_whole_bytes_into_the_top_bits() {
        for log2 in 1..=64 {
            let width = MaskStream::bytes_per_word(log2);
            let mut words = vec![0_u64; 2000];
            MaskStream::new(&SEED).fill(log2, &mut words);
            let bytes = reference(&SEED, 0, words.len() * width);
            for (word, bytes) in words.iter().zip(bytes.chunks_exact(width)) {
                let value = bytes.iter().rev().fold(0_u128, |value, &byte| value << 8 | u128::from(byte));
                assert_eq!(u128::from(*word), (value << (64 - log2)) & u128::from(u64::MAX), "2^{log2}");
            }
            if log2 <= 32 {
                let mut narrow = vec![0_u32; words.len()];
                MaskStream::new(&SEED).fill(log2, &mut narrow);
                assert!(narrow.iter().zip(&words).all(|(&narrow, &wide)| u64::from(narrow) << 32 == wide));
            }
        }
    }

    #[test]
    fn hardware_and_software_aes_agree() {
        assert!(!cfg!(target_arch = "x86_64") || std::arch::is_x86_feature_detected!("sse2"));
        let mut software = vec![0_u64; 5000];
        MaskStream::with_cipher(Cipher::software(SEED.key), &SEED, 3).fill(64, &mut software);
        let mut chosen = vec![0_u64; 5000];
        MaskStream::at(&SEED, 3).fill(64, &mut chosen);
        assert_eq!(software, chosen);
        if has_aes_instructions() {
            let mut hardware = vec![0_u64; 5000];
            MaskStream::with_cipher(Cipher::hardware(SEED.key), &SEED, 3).fill(64, &mut hardware);
            assert_eq!(software, hardware);
        }
    }

    #[test]
    fn a_counter_wraps_to_zero() {
        let bytes = |seed: MaskSeed, offset: u128, count: usize| {
            let mut bytes = vec![0; count];
            MaskStream::at(&seed, offset).fill_bytes(&mut bytes);
            bytes
        };
        let seed = |block, byte| MaskSeed { key: 1, block, byte };
        // The last byte of the last block, then the first block and all later blocks.
        let across = [&bytes(seed(u128::MAX, 0), 0, 16)[15..], &bytes(seed(0, 0), 0, 500)].concat();
        assert_eq!(bytes(seed(u128::MAX, 15), 0, 501), across);
        assert_eq!(bytes(seed(u128::MAX - 3, 0), 63, 501), across);
        // The largest offset, which carries into the first byte as well.
        assert_eq!(bytes(seed(u128::MAX, 15), u128::MAX, 501), bytes(seed((1 << 124) - 1, 14), 0, 501));
    }

    #[test]
    fn fresh_seeds_differ() {
        let seeds: std::collections::HashSet<_> = (0..1000).map(|_| MaskSeed::fresh().unwrap()).collect();
        assert_eq!(seeds.len(), 1000);
    }
}
