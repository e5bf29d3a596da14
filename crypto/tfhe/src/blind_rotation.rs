//! Blind rotation: multiplies a lookup table by X to an encrypted power. Bootstraps spend most of
//! their time here.
//!
//! The outer loop runs over the key. Every ciphertext of the tile uses a GGSW ciphertext after a
//! single read of it, which shares the memory traffic. The tile's accumulators stay in cache.

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

/// Maximum number of ciphertexts in a tile. With a larger tile, the share of the time that reading
/// the key takes no longer falls.
pub const TILE_MAX: usize = 16;

/// Working memory of one thread.
pub struct Scratch<T> {
    product: ProductScratch,
    /// Exponents after the modulus switch, one per word, by ciphertext. Classical keys only.
    exponents: Vec<u32>,
    /// Exponent of the current step for each ciphertext. Classical keys only.
    step: Vec<u32>,
    /// Sum of a group's rotated GGSW ciphertexts. Multi-bit keys only.
    bundle: Vec<T>,
    /// Spectrum of that sum. Multi-bit keys only.
    spectrum: Aligned<f64>,
}

impl<T: Torus> Scratch<T> {
    /// Allocates for tiles of up to [`TILE_MAX`] ciphertexts.
    pub fn new(key: &BootstrapKey<T>) -> Self {
        let tile = TILE_MAX;
        let (bundle, spectrum, exponents) = match key.ggsws() {
            Ggsws::Spectra(_) => (0, 0, tile * (key.input_dimension() + 1)),
            Ggsws::Standard(..) => (key.shape().words(), key.product().spectrum_len(), 0),
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

/// Number of ciphertexts that share one pass over a key of `shape`. Their accumulators, without
/// margins, fill half of the second-level cache.
pub fn tile<T: Torus>(shape: GgswShape) -> usize {
    tile_in::<T>(cache::second_level_bytes(), shape)
}

fn tile_in<T: Torus>(cache_bytes: usize, shape: GgswShape) -> usize {
    (cache_bytes / 2 / (shape.glwe_words() * size_of::<T>())).clamp(1, TILE_MAX)
}

/// Rotates the lookup table of each ciphertext by its phase: `accumulators[c]` becomes a GLWE
/// encryption of `X^-phase * luts[c]`, with the phase taken modulo 2N.
///
/// `ciphertexts` are rows under the small key: at most [`TILE_MAX`], ideally [`tile`] of them.
/// [`cloakwork_math::external_product::accumulator`] describes the layout of `accumulators`.
pub fn blind_rotate<T: Torus, S: Torus>(
    key: &BootstrapKey<T>,
    rule: ModulusSwitch,
    ciphertexts: &[S],
    luts: &[&[T]],
    accumulators: &mut [T],
    scratch: &mut Scratch<T>,
) {
    let (shape, small_words) = (key.shape(), key.input_dimension() + 1);
    assert_eq!(ciphertexts.len(), luts.len() * small_words, "a table for each ciphertext");
    assert!(
        luts.iter().all(|lut| lut.len() == shape.polynomial_size),
        "a lookup table has polynomial_size coefficients"
    );
    let words = shape.accumulator_words::<T>();
    assert_eq!(accumulators.len(), luts.len() * words, "an accumulator, margins included, for each ciphertext");
    match key.ggsws() {
        Ggsws::Spectra(spectra) => {
            classical::rotate(key, spectra, rule, ciphertexts, luts, accumulators, scratch);
        }
        Ggsws::Standard(groups) => multi_bit::rotate(key, groups, ciphertexts, luts, accumulators, scratch),
    }
}

/// Writes the trivial encryption of `X^-exponent * lut` to `accumulator`.
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
    use cloakwork_params::table;

    use super::*;

    #[test]
    fn tile_accumulators_fill_half_of_the_second_level_cache() {
        let sets = ["2_CARRY_2", "3_CARRY_3", "4_CARRY_4"].map(|name| {
            let name = format!("V1_8_PARAM_MESSAGE_{name}_KS_PBS_TUNIFORM_2M128");
            table::by_name(&name).expect("a set of the table")
        });
        let tiles = |cache_bytes| sets.map(|set| tile_in::<u64>(cache_bytes, GgswShape::of_set(set, set.bootstrap)));
        assert_eq!((tiles(1 << 20), tiles(2 << 20)), ([16, 4, 1], [16, 8, 1]));
    }
}
