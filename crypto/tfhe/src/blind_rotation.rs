//! Blind rotation: the lookup table, rotated by an encrypted amount. Where the time goes.
//!
//! The loop over the key is the outer one. Each GGSW ciphertext is read once and used by every ciphertext
//! of the tile, so that memory traffic is shared; the tile's accumulators stay in cache.

mod classical;
mod multi_bit;

use cloakwork_math::{
    GgswShape, Torus,
    aligned::Aligned,
    cache,
    external_product::{Scratch as ProductScratch, accumulator},
    polynomial,
};
use cloakwork_params::ModulusSwitch;

use crate::{BootstrapKey, key::Ggsws};

/// Ciphertexts in a tile beyond which the key's share of the time no longer falls.
pub(crate) const TILE_MAX: usize = 16;

/// Working memory of one thread.
pub struct Scratch<T> {
    product: ProductScratch,
    /// By ciphertext, one exponent a word; classical only.
    exponents: Vec<u32>,
    /// By ciphertext, the exponents of the step at hand; classical only.
    step: Vec<u32>,
    /// Sum of the rotated ciphertexts of a group, and its spectrum; multi-bit only.
    bundle: Vec<T>,
    spectrum: Aligned<f64>,
}

impl<T: Torus> Scratch<T> {
    /// For tiles of any size.
    pub fn new(key: &BootstrapKey<T>) -> Self {
        let tile = TILE_MAX;
        let (bundle, spectrum, exponents) = match key.ggsws() {
            Ggsws::Spectra(_) => (0, 0, tile * (key.input_dimension() + 1)),
            Ggsws::Standard(_) => (key.shape().words(), key.product().spectrum_len(), 0),
        };
        Self {
            product: key.product_scratch(),
            exponents: vec![0; exponents],
            step: vec![0; tile],
            bundle: vec![T::default(); bundle],
            spectrum: Aligned::for_work(spectrum),
        }
    }
}

/// Ciphertexts that share one pass over a key of `shape`: their accumulators, margins aside, fill half of the
/// second-level cache.
pub fn tile<T: Torus>(shape: GgswShape) -> usize {
    tile_for(cache::second_level_bytes() / 2, shape.glwe_words() * size_of::<T>())
}

fn tile_for(bytes: usize, accumulator_bytes: usize) -> usize {
    (bytes / accumulator_bytes).clamp(1, TILE_MAX)
}

/// Rotates the lookup table of each ciphertext by its phase: `accumulators[c]` becomes a GLWE encryption of
/// `X^-phase * luts[c]`, the phase taken modulo 2N.
///
/// `ciphertexts` are rows under the small key, at most 16 of them and best [`tile`]; `accumulators` lie as
/// [`cloakwork_math::external_product::accumulator`] says.
pub fn blind_rotate<T: Torus, S: Torus>(
    key: &BootstrapKey<T>,
    rule: ModulusSwitch,
    ciphertexts: &[S],
    luts: &[&[T]],
    accumulators: &mut [T],
    scratch: &mut Scratch<T>,
) {
    let words = key.shape().accumulator_words::<T>();
    assert_eq!(accumulators.len(), luts.len() * words, "an accumulator, margins included, for each ciphertext");
    match key.ggsws() {
        Ggsws::Spectra(spectra) => {
            classical::rotate(key, spectra, rule, ciphertexts, luts, accumulators, scratch);
        }
        Ggsws::Standard(words) => multi_bit::rotate(key, words, ciphertexts, luts, accumulators, scratch),
    }
}

/// The trivial encryption of `X^-exponent * lut`.
fn load_lut<T: Torus>(glwe_dimension: usize, lut: &[T], exponent: u32, accumulator: &mut [T]) {
    let size = lut.len();
    accumulator::set(size, accumulator, |index, polynomial| {
        if index < glwe_dimension {
            polynomial.fill(T::default());
        } else {
            polynomial::rotate(lut, (2 * size - exponent as usize) % (2 * size), polynomial);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_fills_what_it_may() {
        let (kib, accumulator) = (1 << 10, |glwe_size: usize, polynomial_size: usize| glwe_size * polynomial_size * 8);
        // 2_2, 3_3 and 4_4 where the cache has a megabyte, and two.
        assert_eq!([2048, 8192, 65536].map(|size| tile_for(512 * kib, accumulator(2, size))), [16, 4, 1]);
        assert_eq!([2048, 8192, 65536].map(|size| tile_for(1024 * kib, accumulator(2, size))), [16, 8, 1]);
    }
}
