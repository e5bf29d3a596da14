//! Keys ready for use: the masks are expanded from the seed, and bootstrap keys are in the kernel's
//! spectrum.

use cloakwork_math::{
    ExternalProduct, GgswShape, Torus,
    aligned::Aligned,
    external_product::Scratch,
    key_product::KeyMatrix,
    random::{FastMasks, MaskStream},
    simd::Level,
    threads::Team,
};
use cloakwork_params::{Decomposition, ParameterSet};

use super::{SeededBootstrapKey, SeededKeySwitchKey, ShapeError};

/// A key-switch key as a matrix. Each input bit and level has a row, an LWE ciphertext under the
/// output key.
pub struct KeySwitchKey<S> {
    modulus_log2: u32,
    matrix: KeyMatrix<S>,
}

impl<S: Torus> KeySwitchKey<S> {
    /// Expands the masks on `threads` threads.
    pub fn expand(seeded: &SeededKeySwitchKey<S>, threads: usize) -> Self {
        let (modulus_log2, mask_words) = (seeded.modulus_log2(), seeded.output_dimension());
        let mut matrix = KeyMatrix::new(seeded.gadget(), seeded.input_dimension(), mask_words + 1, modulus_log2);
        let row_bytes = (mask_words * MaskStream::bytes_per_word(modulus_log2)) as u128;
        Team::new(threads).for_each_part(1, &mut matrix.blocks_mut(), |_, blocks| {
            for block in blocks {
                let mut masks = MaskStream::at(seeded.seed(), block.first_row() as u128 * row_bytes);
                block.fill(|index, row| {
                    masks.fill(modulus_log2, &mut row[..mask_words]);
                    row[mask_words] = seeded.bodies()[index];
                });
            }
        });
        Self { modulus_log2, matrix }
    }

    /// Length of the key of the input ciphertexts.
    pub fn input_dimension(&self) -> usize {
        self.matrix.inputs()
    }

    /// Length of the key of the output ciphertexts.
    pub fn output_dimension(&self) -> usize {
        self.matrix.columns() - 1
    }

    /// Key-switching gadget.
    pub fn gadget(&self) -> Decomposition {
        self.matrix.gadget()
    }

    /// log2 of the output modulus. Values occupy the top bits of the word.
    pub fn modulus_log2(&self) -> u32 {
        self.modulus_log2
    }

    /// The matrix.
    pub fn matrix(&self) -> &KeyMatrix<S> {
        &self.matrix
    }

    /// Size of this key in memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.matrix.bytes()
    }

    /// Size of an expanded key of `set` in memory, in bytes.
    pub fn bytes_of(set: &ParameterSet) -> usize {
        let (inputs, columns) = (set.big_dimension(), set.lwe_dimension + 1);
        KeyMatrix::<S>::bytes_of(set.key_switch, inputs, columns, set.small_modulus_log2)
    }
}

/// A bootstrap key in the form that its blind rotation reads.
pub struct BootstrapKey<T> {
    product: ExternalProduct<T>,
    grouping: usize,
    ggsws: Ggsws<T>,
}

/// Maximum number of secret bits that one step of a bootstrap key handles.
pub(crate) const GROUPING_MAX: usize = 4;

/// The GGSW ciphertexts of a bootstrap key.
pub(crate) enum Ggsws<T> {
    /// One spectrum for each secret bit, for the classical blind rotation.
    Spectra(Aligned<f64>),
    /// Standard domain, for the multi-bit blind rotation: a step adds rotated ciphertexts before it
    /// transforms the sum.
    Standard(Groups<T>),
}

/// The GGSW ciphertexts of a multi-bit key.
pub(crate) struct Groups<T> {
    /// Words by group, polynomial and subset. All subsets of a group's first polynomial come first,
    /// so that their sum stays in the first-level cache.
    pub(crate) words: Aligned<T>,
    /// Generator of the masks, where the CPU and the key allow one. A tile of one ciphertext
    /// computes masks faster than it reads them.
    pub(crate) masks: Option<FastMasks>,
}

impl<T: Torus> BootstrapKey<T> {
    /// Expands the masks and transforms the ciphertexts. Each of the `threads` threads handles one
    /// ciphertext at a time, so that memory never holds two copies of the key.
    pub fn expand(seeded: &SeededBootstrapKey<T>, grouping: usize, threads: usize) -> Result<Self, ShapeError> {
        let shape = seeded.shape();
        let product = ExternalProduct::new(shape);
        if !(1..=GROUPING_MAX).contains(&grouping) {
            return Err(ShapeError { what: "secret bits per step (at most)", expected: GROUPING_MAX, got: grouping });
        }
        let group = if grouping == 1 { 1 } else { 1 << grouping };
        if !seeded.ggsw_count().is_multiple_of(group) {
            let what = "GGSW ciphertexts of a multi-bit bootstrap key (a multiple of)";
            return Err(ShapeError { what, expected: group, got: seeded.ggsw_count() });
        }
        let ggsws = if grouping == 1 {
            let len = product.spectrum_len();
            let mut spectra = Aligned::new(seeded.ggsw_count() * len);
            Team::new(threads).for_each_part(len, &mut spectra, |first, spectra| {
                let mut scratch = product.scratch();
                let mut ggsw = vec![T::default(); shape.words()];
                for (index, spectrum) in spectra.chunks_exact_mut(len).enumerate() {
                    expand_ggsw(seeded, first + index, &mut ggsw);
                    product.transform(&ggsw, spectrum, &mut scratch);
                }
            });
            Ggsws::Spectra(spectra)
        } else {
            let (size, len) = (shape.polynomial_size, group * shape.words());
            let mut words = Aligned::new(seeded.ggsw_count() * shape.words());
            Team::new(threads).for_each_part(len, &mut words, |first, words| {
                let mut ggsw = vec![T::default(); shape.words()];
                for (index, words) in words.chunks_exact_mut(len).enumerate() {
                    for subset in 0..group {
                        expand_ggsw(seeded, (first + index) * group + subset, &mut ggsw);
                        let places = words.chunks_exact_mut(size).skip(subset).step_by(group);
                        places.zip(ggsw.chunks_exact(size)).for_each(|(place, from)| place.copy_from_slice(from));
                    }
                }
            });
            Ggsws::Standard(Groups { words, masks: FastMasks::new::<T>(Level::detect(), seeded.seed(), size) })
        };
        Ok(Self { product, grouping, ggsws })
    }

    /// Shape of the GGSW ciphertexts.
    pub fn shape(&self) -> GgswShape {
        self.product.shape()
    }

    /// Number of secret bits per step. 1 is the classical bootstrap.
    pub fn grouping(&self) -> usize {
        self.grouping
    }

    /// Number of GGSW ciphertexts.
    pub fn ggsw_count(&self) -> usize {
        match &self.ggsws {
            Ggsws::Spectra(spectra) => spectra.len() / self.product.spectrum_len(),
            Ggsws::Standard(groups) => groups.words.len() / self.shape().words(),
        }
    }

    /// Length of the secret key whose bits the GGSW ciphertexts encrypt.
    pub fn input_dimension(&self) -> usize {
        match self.grouping {
            1 => self.ggsw_count(),
            grouping => (self.ggsw_count() >> grouping) * grouping,
        }
    }

    /// Size of this key in memory, in bytes.
    pub fn bytes(&self) -> usize {
        match &self.ggsws {
            Ggsws::Spectra(spectra) => size_of_val::<[f64]>(spectra),
            Ggsws::Standard(groups) => size_of_val::<[T]>(&groups.words),
        }
    }

    /// Size of an expanded key of `set` in memory, in bytes.
    pub fn bytes_of(set: &ParameterSet) -> usize {
        let word = if set.grouping == 1 { size_of::<f64>() } else { size_of::<T>() };
        set.ggsw_count() * GgswShape::of_set(set, set.bootstrap).words() * word
    }

    pub(crate) fn ggsws(&self) -> &Ggsws<T> {
        &self.ggsws
    }

    pub(crate) fn product(&self) -> &ExternalProduct<T> {
        &self.product
    }

    /// Allocates working memory of the kernel for one thread.
    pub(crate) fn product_scratch(&self) -> Scratch {
        self.product.scratch()
    }
}

/// Writes GGSW ciphertext `index` in the standard domain, with masks from the stream and bodies
/// from the key.
pub fn expand_ggsw<T: Torus>(seeded: &SeededBootstrapKey<T>, index: usize, ggsw: &mut [T]) {
    let shape = seeded.shape();
    let mask_words = shape.glwe_dimension * shape.polynomial_size;
    let bytes = (shape.rows() * mask_words * size_of::<T>()) as u128;
    let mut masks = MaskStream::at(seeded.seed(), index as u128 * bytes);
    let bodies = seeded.bodies()[index * shape.body_words()..].chunks_exact(shape.polynomial_size);
    for (row, body) in ggsw.chunks_exact_mut(shape.glwe_words()).zip(bodies) {
        let (mask_out, body_out) = row.split_at_mut(mask_words);
        masks.fill(T::BITS, mask_out);
        body_out.copy_from_slice(body);
    }
}
