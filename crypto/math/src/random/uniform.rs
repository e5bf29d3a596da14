//! Uniform residues from a mask stream.

use super::{MaskSeed, MaskStream};
use crate::{
    modulus::Modulus,
    simd::{
        Level,
        aes::{BATCH, BLOCK, WideCipher},
    },
};

/// Bytes of a batch of the cipher.
const BATCH_BYTES: usize = BATCH * size_of::<u64>();
/// Words that are drawn at once. Their number is the number of bytes in a batch, so they fill whole
/// batches for every number of bytes in a word.
const DRAWN_WORDS: usize = BATCH_BYTES;

/// Fills `words` with uniform residues by rejection sampling from byte `offset` of the seed's
/// stream on. Candidates have as many bits as the prime, each in whole bytes. Candidates that are
/// not below the prime are skipped.
pub fn fill_residues(modulus: Modulus, seed: &MaskSeed, offset: u128, words: &mut [u64]) {
    let source = Source::new(Level::detect(), seed, offset);
    match MaskStream::bytes_per_word(modulus.bits()) {
        8 => fill::<8>(modulus, source, words),
        7 => fill::<7>(modulus, source, words),
        6 => fill::<6>(modulus, source, words),
        5 => fill::<5>(modulus, source, words),
        4 => fill::<4>(modulus, source, words),
        3 => fill::<3>(modulus, source, words),
        2 => fill::<2>(modulus, source, words),
        _ => fill::<1>(modulus, source, words),
    }
}

/// Like [`fill_residues`], with the bytes of a word as a compile-time constant.
fn fill<const WIDTH: usize>(modulus: Modulus, mut source: Source, words: &mut [u64]) {
    let (prime, mask) = (modulus.value(), (1 << modulus.bits()) - 1);
    // Each word is read as eight bytes, so the buffer has eight bytes more than are drawn.
    let mut bytes = [0; (DRAWN_WORDS + 1) * size_of::<u64>()];
    let mut below = [0; DRAWN_WORDS];
    let mut left = words;
    while !left.is_empty() {
        source.fill(&mut bytes[..DRAWN_WORDS * WIDTH]);
        let mut count = 0;
        for at in 0..DRAWN_WORDS {
            let word = bytes[at * WIDTH..].first_chunk().expect("eight bytes more than are drawn");
            let word = u64::from_le_bytes(*word) & mask;
            // No branch predictor can foresee which words are accepted. Every word is therefore
            // stored, and the next word overwrites a rejected word.
            below[count % DRAWN_WORDS] = word;
            count += usize::from(word < prime);
        }
        let (filled, rest) = left.split_at_mut(count.min(left.len()));
        filled.copy_from_slice(&below[..filled.len()]);
        left = rest;
    }
}

/// A source of the bytes of a stream.
enum Source {
    Wide { cipher: WideCipher, next_block: u128 },
    Narrow(Box<MaskStream>),
}

impl Source {
    /// The source from byte `offset` on: wide if the machine has the instructions and the stream
    /// begins with a whole block.
    fn new(level: Level, seed: &MaskSeed, offset: u128) -> Self {
        let block_bytes = (BLOCK * size_of::<u64>()) as u128;
        let is_whole = seed.byte == 0 && offset.is_multiple_of(block_bytes);
        match is_whole.then(|| WideCipher::new(level, seed.key)).flatten() {
            Some(cipher) => Self::Wide { cipher, next_block: seed.block.wrapping_add(offset / block_bytes) },
            None => Self::Narrow(Box::new(MaskStream::at(seed, offset))),
        }
    }

    /// Fills `bytes`, a number of whole batches, with the next bytes of the stream.
    fn fill(&mut self, bytes: &mut [u8]) {
        match self {
            Self::Wide { cipher, next_block } => {
                for bytes in bytes.as_chunks_mut::<BATCH_BYTES>().0 {
                    let mut batch = [0; BATCH];
                    cipher.add_blocks(*next_block, false, &mut batch);
                    *next_block = next_block.wrapping_add((BATCH / BLOCK) as u128);
                    bytes.as_chunks_mut().0.iter_mut().zip(batch).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
                }
            }
            Self::Narrow(stream) => stream.fill_bytes(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Primes of 2, 14, 45, 46, 50, 53, 60 and 61 bits. Some are just above a power of two, others
    /// just below.
    const PRIMES: [u64; 8] = [
        3,
        12289,
        (1 << 45) - 229,
        (1 << 45) + 59,
        0x3_ffff_fea6_0001,
        (1 << 53) - 111,
        (1 << 60) - 93,
        0x1000_0000_006e_0001,
    ];

    /// The residues by their specification, word by word.
    fn expected(modulus: Modulus, seed: &MaskSeed, offset: u128, count: usize) -> Vec<u64> {
        let mut stream = MaskStream::at(seed, offset);
        let mut words = Vec::new();
        while words.len() < count {
            let mut word = [0_u64];
            stream.fill(modulus.bits(), &mut word);
            words.extend(Some(word[0] >> (u64::BITS - modulus.bits())).filter(|word| *word < modulus.value()));
        }
        words
    }

    #[test]
    fn residues_are_the_words_of_the_stream_below_the_prime() {
        let key = 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978;
        for modulus in PRIMES.map(|prime| Modulus::new(prime).expect("a prime")) {
            for (block, byte, offset) in
                [(0, 0, 0), (41, 0, 7 << 32), (u128::MAX - 33, 0, 16), (3, 11, 1 << 32), (9, 0, 5)]
            {
                let seed = MaskSeed { key, block, byte };
                for count in [0, 1, 63, DRAWN_WORDS, 3 * DRAWN_WORDS + 17] {
                    let expected = expected(modulus, &seed, offset, count);
                    let mut words = vec![u64::MAX; count];
                    fill_residues(modulus, &seed, offset, &mut words);
                    assert!(words == expected, "{count} modulo {} from {seed:?} and {offset}", modulus.value());
                }
            }
        }
    }

    #[test]
    fn wide_and_narrow_streams_have_the_same_bytes() {
        for level in Level::available() {
            for (block, offset) in [(0, 0), (u128::from(u64::MAX) - 40, 32), (u128::MAX - 33, 1 << 36)] {
                let seed = MaskSeed { key: 5, block, byte: 0 };
                let mut narrow = Source::Narrow(Box::new(MaskStream::at(&seed, offset)));
                let mut chosen = Source::new(level, &seed, offset);
                for batches in [1, 7, 2] {
                    let [mut expected, mut bytes] = [vec![0; batches * BATCH_BYTES], vec![1; batches * BATCH_BYTES]];
                    narrow.fill(&mut expected);
                    chosen.fill(&mut bytes);
                    assert!(bytes == expected, "{} from block {block}", level.name());
                }
            }
        }
    }
}
