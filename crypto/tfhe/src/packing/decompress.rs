//! Decompression by a bootstrap: from a compressed list back to the big key, with fresh noise.

use cloakwork_math::{aligned::Aligned, external_product::accumulator};
use cloakwork_params::{CompressionId, CompressionSet, ModulusSwitch, ParameterSet};

use super::{CompressedList, CompressionError, check_set};
use crate::{
    BootstrapKey, GgswShape, Lut, LweList, SeededDecompressionKey, ShapeError,
    blind_rotation::{self, TILE_MAX, blind_rotate, tile},
    sample_extract::sample_extract,
};

/// The decompression key: a bootstrap key from the packing key to the big key, and the lookup table
/// that moves messages back to the low bits.
pub struct DecompressionKey {
    set: &'static CompressionSet,
    bootstrap: BootstrapKey<u64>,
    rescale: Lut<u64>,
}

/// Working memory of one thread, for keys of one compression set and one parameter set.
pub struct DecompressScratch {
    compression: CompressionId,
    shape: GgswShape,
    glwe: Vec<u64>,
    small: Vec<u64>,
    rotation: blind_rotation::Scratch<u64>,
    accumulators: Aligned<u64>,
}

impl DecompressionKey {
    /// Expands a seeded key, made for ciphertexts of `parameter_set`, on `threads` threads.
    pub fn expand(
        set: &'static CompressionSet,
        parameter_set: &ParameterSet,
        SeededDecompressionKey(seeded): &SeededDecompressionKey,
        threads: usize,
    ) -> Result<Self, CompressionError> {
        check_set(set, parameter_set)?;
        let shape = seeded.shape();
        for (what, expected, got) in [
            ("input dimension of the decompression key", set.packing_dimension(), seeded.ggsw_count()),
            ("mask polynomials of the decompression key", parameter_set.glwe_dimension, shape.glwe_dimension),
            (
                "coefficients of the decompression key's polynomials",
                parameter_set.polynomial_size,
                shape.polynomial_size,
            ),
            ("levels of the decompression key", set.bootstrap.levels, shape.gadget.levels),
            ("base of the decompression key", set.bootstrap.base_log as usize, shape.gadget.base_log as usize),
        ] {
            ShapeError::check(what, expected, got)?;
        }
        let rescale = Lut::rescale_carry(parameter_set)?;
        Ok(Self { set, bootstrap: BootstrapKey::expand(seeded, 1, threads)?, rescale })
    }

    /// Allocates working memory for one thread.
    pub fn scratch(&self) -> DecompressScratch {
        let tile = tile::<u64>(self.bootstrap.shape());
        DecompressScratch {
            compression: self.set.id,
            shape: self.bootstrap.shape(),
            glwe: vec![0; self.set.packing_dimension() + self.set.packing_polynomial_size],
            small: vec![0; tile * (self.set.packing_dimension() + 1)],
            rotation: blind_rotation::Scratch::new(&self.bootstrap),
            accumulators: Aligned::for_work(tile * self.bootstrap.shape().accumulator_words::<u64>()),
        }
    }

    /// Computes `outputs[i] = list[indices[i]]`, with the message in the low bits and an empty
    /// carry. The work is split over as many threads as there are scratches.
    pub fn decompress(
        &self,
        list: &CompressedList,
        indices: &[usize],
        outputs: &mut LweList<u64>,
        scratches: &mut [DecompressScratch],
    ) -> Result<(), ShapeError> {
        ShapeError::check("compression set of the list", usize::from(self.set.id.0), usize::from(list.set().id.0))?;
        let dimension = self.bootstrap.shape().glwe_dimension * self.bootstrap.shape().polynomial_size;
        ShapeError::check("dimension of the decompressed ciphertexts", dimension, outputs.dimension())?;
        ShapeError::check("decompressed ciphertexts", indices.len(), outputs.len())?;
        if let Some(&index) = indices.iter().find(|index| **index >= list.len()) {
            return Err(ShapeError { what: "index into the list (below)", expected: list.len(), got: index });
        }
        if scratches.is_empty() {
            return Err(ShapeError { what: "scratches (at least)", expected: 1, got: 0 });
        }
        for scratch in &*scratches {
            let (expected, got) = (usize::from(self.set.id.0), usize::from(scratch.compression.0));
            ShapeError::check("compression set of a scratch", expected, got)?;
            let words = self.bootstrap.shape().words();
            ShapeError::check("words of a scratch's GGSW ciphertexts", words, scratch.shape.words())?;
        }
        let share = indices.len().div_ceil(scratches.len()).max(1);
        let runs = indices.chunks(share).zip(outputs.words_mut().chunks_mut(share * (dimension + 1)));
        if let [scratch] = scratches {
            runs.for_each(|(indices, outputs)| self.decompress_share(list, indices, outputs, scratch));
        } else {
            std::thread::scope(|scope| {
                for ((indices, outputs), scratch) in runs.zip(scratches) {
                    scope.spawn(move || self.decompress_share(list, indices, outputs, scratch));
                }
            });
        }
        Ok(())
    }

    fn decompress_share(
        &self,
        list: &CompressedList,
        indices: &[usize],
        outputs: &mut [u64],
        scratch: &mut DecompressScratch,
    ) {
        let shape = self.bootstrap.shape();
        let tile = tile::<u64>(self.bootstrap.shape());
        let small_words = self.set.packing_dimension() + 1;
        let big_words = shape.glwe_dimension * shape.polynomial_size + 1;
        let luts = [self.rescale.body(); TILE_MAX];
        for (indices, outputs) in indices.chunks(tile).zip(outputs.chunks_mut(tile * big_words)) {
            let small = &mut scratch.small[..indices.len() * small_words];
            for (index, small) in indices.iter().zip(small.chunks_exact_mut(small_words)) {
                list.extract(*index, &mut scratch.glwe, small);
            }
            let accumulators = &mut scratch.accumulators[..indices.len() * shape.accumulator_words::<u64>()];
            let luts = &luts[..indices.len()];
            // The storage modulus divides 2N or equals it, so the modulus switch rounds nothing.
            let rule = ModulusSwitch::Plain;
            blind_rotate(&self.bootstrap, rule, small, luts, accumulators, &mut scratch.rotation);
            for (accumulator, output) in
                accumulators.chunks_exact(shape.accumulator_words::<u64>()).zip(outputs.chunks_exact_mut(big_words))
            {
                let polynomials = accumulator::polynomials(shape.polynomial_size, accumulator);
                sample_extract(polynomials, shape.polynomial_size, 0, output);
            }
        }
    }
}
