//! A mask stream that is computed faster than memory delivers it, on processors with wide AES
//! instructions.

use super::MaskSeed;
use crate::{
    cache::LINE,
    simd::{
        Level,
        aes::{BATCH, BLOCK, WideCipher},
        prefetch,
    },
    torus::Torus,
};

/// Random access to a stream of 64-bit masks, at about twenty gigabytes a second on one core.
pub struct FastMasks {
    cipher: WideCipher,
    first_block: u128,
    /// Coefficients of a polynomial, a multiple of a batch.
    size: usize,
}

impl FastMasks {
    /// Prepares the stream for polynomials of `size` coefficients. Returns `None` if `level` or the
    /// machine lacks the instructions, the stream does not begin with a whole block, or polynomials
    /// are too short.
    pub fn new<T: Torus>(level: Level, seed: &MaskSeed, size: usize) -> Option<Self> {
        let fits = T::BITS == u64::BITS && seed.byte == 0 && size >= BATCH && size.is_multiple_of(BATCH);
        let cipher = fits.then(|| WideCipher::new(level, seed.key)).flatten()?;
        Some(Self { cipher, first_block: seed.block, size })
    }

    /// `out += X^exponent * row`. The last polynomial of the row is `body`. The other polynomials
    /// begin with mask `at` of the stream, an even index. `next` is the data that is read after
    /// `body`. Up to as many words of `next` are prefetched meanwhile.
    pub fn add_rotated<T: Torus>(&self, at: u128, exponent: usize, body: &[T], next: &[T], out: &mut [T]) {
        assert!(T::BITS == u64::BITS && at.is_multiple_of(BLOCK as u128), "masks of 64 bits, from a block's first one");
        assert!(body.len() == self.size && exponent < 2 * self.size, "a body of the stream's polynomials");
        assert!(out.len() > self.size && out.len().is_multiple_of(self.size), "a row of masks and a body");
        let (body, next): (&[u64], &[u64]) = (bytemuck::cast_slice(body), bytemuck::cast_slice(next));
        let masks = out.len() - body.len();
        let (out, out_body) = bytemuck::cast_slice_mut(out).split_at_mut(masks);
        let mut counter = self.first_block.wrapping_add(at / BLOCK as u128);
        for (index, out) in out.chunks_exact_mut(body.len()).enumerate() {
            for from in (0..body.len()).step_by(BATCH) {
                self.add_masks(counter, from + exponent, out);
                counter = counter.wrapping_add((BATCH / BLOCK) as u128);
                // Computing the last masks and reading the body alternate, batch by batch. Both
                // overlap and take the time of only one of them.
                if index + 1 == masks / body.len() {
                    let coming = next.get(from..from + BATCH).unwrap_or_default();
                    coming.iter().step_by(LINE / size_of::<u64>()).for_each(prefetch);
                    self.add_words(body, from, exponent, out_body);
                }
            }
        }
    }

    /// Adds a batch of masks from `counter` on, at the place of `X^to`.
    #[inline(always)]
    fn add_masks(&self, counter: u128, to: usize, out: &mut [u64]) {
        let (negative, to) = on_circle(to, out.len());
        if let Some(out) = out[to..].first_chunk_mut() {
            return self.cipher.add_blocks(counter, negative, out);
        }
        let mut masks = [0; BATCH];
        self.cipher.add_blocks(counter, negative, &mut masks);
        // Masks that run over the end wrap around and change sign.
        let (stays, wraps) = masks.split_at(out.len() - to);
        out[to..].iter_mut().zip(stays).for_each(|(out, mask)| *out = out.wrapping_add(*mask));
        out.iter_mut().zip(wraps).for_each(|(out, mask)| *out = out.wrapping_sub(*mask));
    }

    /// Adds to batch `at` of `out` the words that rotate to this batch. Here the reads cross cache
    /// lines, and the writes do not.
    #[inline(always)]
    fn add_words(&self, words: &[u64], at: usize, exponent: usize, out: &mut [u64]) {
        let (negative, from) = on_circle(at + 2 * words.len() - exponent, words.len());
        let out = out[at..].first_chunk_mut().expect("whole batches");
        if let Some(words) = words[from..].first_chunk() {
            return self.cipher.add_words(words, negative, out);
        }
        let stays = &words[from..];
        let mut batch = [0; BATCH];
        batch[..stays.len()].copy_from_slice(stays);
        batch[stays.len()..].iter_mut().zip(words).for_each(|(word, wraps)| *word = wraps.wrapping_neg());
        self.cipher.add_words(&batch, negative, out);
    }
}

/// Whether X^exponent is negative modulo X^size + 1, and its remaining power.
fn on_circle(exponent: usize, size: usize) -> (bool, usize) {
    let exponent = exponent % (2 * size);
    (exponent >= size, exponent % size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{polynomial, random::MaskStream};

    #[test]
    fn rows_match_the_mask_stream_and_rotate_as_polynomials() {
        const SIZE: usize = 256;
        const MASKS: usize = 3;
        let some = |seed: u64, len: usize| -> Vec<u64> {
            (0..len as u64).map(|index| (index + seed).wrapping_mul(0x1234_5678_9abc_def1)).collect()
        };
        let (body, next, out) = (some(7, SIZE), some(8, SIZE), some(9, (MASKS + 1) * SIZE));
        let key = 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978;
        for block in [0, 41, u128::from(u64::MAX) - 40, u128::from(u64::MAX) - 31, u128::MAX - 33, 7 << 64] {
            let seed = MaskSeed { key, block, byte: 0 };
            for level in Level::available() {
                let Some(masks) = FastMasks::new::<u64>(level, &seed, SIZE) else { continue };
                for exponent in [0, 1, 63, 64, 65, 192, 200, 255, 256, 257, 300, 511] {
                    let mut row = vec![0; MASKS * SIZE];
                    MaskStream::at(&seed, 8 * 6).fill(64, &mut row);
                    row.extend(&body);
                    let mut expected = out.clone();
                    for (polynomial, out) in row.chunks_exact(SIZE).zip(expected.chunks_exact_mut(SIZE)) {
                        polynomial::add_rotated(level, SIZE, polynomial, &[], exponent, out);
                    }
                    let mut got = out.clone();
                    masks.add_rotated(6, exponent, &body, &next[..SIZE - exponent / 2], &mut got);
                    assert!(got == expected, "from block {block}, times X^{exponent}");
                }
            }
        }
    }

    #[test]
    fn fast_masks_exist_if_the_processor_and_the_stream_allow() {
        for level in Level::available() {
            #[cfg(target_arch = "x86_64")]
            let able = level.name() == "avx512" && is_x86_feature_detected!("vaes");
            #[cfg(not(target_arch = "x86_64"))]
            let able = false;
            let fits = |byte, size| FastMasks::new::<u64>(level, &MaskSeed { key: 1, block: 0, byte }, size).is_some();
            assert_eq!([fits(0, 512), fits(0, BATCH)], [able; 2], "{}", level.name());
            assert!(!fits(1, 512) && !fits(0, BATCH / 2) && !fits(0, 0));
            assert!(FastMasks::new::<u32>(level, &MaskSeed { key: 1, block: 0, byte: 0 }, 512).is_none());
        }
    }
}
