//! Launches that prepare keys.

use bytemuck::Pod;
use cloakwork_math::{
    Torus,
    random::{MaskSeed, MaskStream},
};

use super::{Launcher, check};
use crate::gpu::{DriverError, View};

/// Constants of masks.cu: threads of a block that generates masks, bytes of the stream that a block
/// generates, and bytes of a cipher block.
const MASK_THREADS: u32 = 256;
const TILE_BYTES: usize = 8192;
const BLOCK_BYTES: usize = 16;

/// Rows of a seeded key: masks from a stream, and bodies.
#[derive(Clone, Copy, Debug)]
pub struct SeededRows {
    /// Start of the stream: the masks of row 0.
    pub seed: MaskSeed,
    /// Masks of a row.
    pub mask_words: usize,
    /// Bodies of a row.
    pub body_words: usize,
    /// log2 of the modulus of the words. A word holds its value in its top bits.
    pub modulus_log2: u32,
}

impl SeededRows {
    /// Words of a row.
    pub fn words(&self) -> usize {
        self.mask_words + self.body_words
    }

    /// Start of a row's masks in the stream.
    fn seed_of(&self, row: usize) -> MaskSeed {
        let bytes = self.mask_words * MaskStream::bytes_per_word(self.modulus_log2);
        self.seed.advanced(row as u128 * bytes as u128)
    }

    /// Masks that a block cuts out of its bytes, for any start of the first mask within the first
    /// cipher block.
    fn words_of_tile(&self) -> usize {
        (TILE_BYTES - (BLOCK_BYTES - 1)) / MaskStream::bytes_per_word(self.modulus_log2)
    }
}

impl Launcher<'_> {
    /// Writes whole rows, from row `first` on, for the given bodies.
    pub fn expand_rows<T: Torus + Pod>(
        &self,
        seeded: SeededRows,
        first: usize,
        bodies: View<'_, T>,
        rows: View<'_, T>,
    ) -> Result<(), DriverError> {
        check(seeded.mask_words > 0 && seeded.body_words > 0, "rows of masks and bodies")?;
        check((1..=T::BITS).contains(&seeded.modulus_log2), "a modulus that fits the word")?;
        let count = bodies.len() / seeded.body_words;
        check(bodies.len() == count * seeded.body_words && rows.len() == count * seeded.words(), "whole rows")?;
        check(u32::try_from(rows.len()).is_ok(), "rows whose words can be counted")?;
        let MaskSeed { key, block, byte } = seeded.seed_of(first);
        let arguments = [
            key as u64,
            (key >> 64) as u64,
            block as u64,
            (block >> 64) as u64,
            u64::from(byte),
            bodies.address(),
            rows.address(),
            count as u64,
            seeded.mask_words as u64,
            seeded.body_words as u64,
            u64::from(seeded.modulus_log2),
        ];
        let tiles = (count * seeded.mask_words).div_ceil(seeded.words_of_tile());
        // SAFETY: the views hold `count` rows and their bodies, as checked. Blocks write nothing
        // beyond the last mask.
        unsafe { self.launch(&format!("expand_rows_{}", T::BITS), (tiles, 1), MASK_THREADS, 0, &arguments) }
    }
}
