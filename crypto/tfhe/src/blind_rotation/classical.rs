//! Classical blind rotation, one secret bit per step: `acc += GGSW(s_i) * (X^a_i acc - acc)`.

use cloakwork_math::Torus;
use cloakwork_params::ModulusSwitch;

use super::{Scratch, load_lut};
use crate::{BootstrapKey, modulus_switch::modulus_switch};

pub(super) fn rotate<T: Torus, S: Torus>(
    key: &BootstrapKey<T>,
    spectra: &[f64],
    rule: ModulusSwitch,
    ciphertexts: &[S],
    luts: &[&[T]],
    accumulators: &mut [T],
    scratch: &mut Scratch<T>,
) {
    let shape = key.shape();
    let modulus_log2 = shape.rotation_modulus_log2();
    let words = key.input_dimension() + 1;
    let tile = luts.len();
    let exponents = &mut scratch.exponents[..tile * words];
    let lanes = ciphertexts.chunks_exact(words).zip(exponents.chunks_exact_mut(words)).zip(luts);
    for (((ciphertext, exponents), lut), accumulator) in
        lanes.zip(accumulators.chunks_exact_mut(shape.accumulator_words::<T>()))
    {
        modulus_switch(rule, modulus_log2, ciphertext, exponents);
        load_lut(shape.glwe_dimension, lut, exponents[words - 1], accumulator);
    }
    let mut spectra = spectra.chunks_exact(key.product().spectrum_len()).enumerate().peekable();
    while let Some((step, spectrum)) = spectra.next() {
        let rotations = &mut scratch.step[..tile];
        for (rotation, exponents) in rotations.iter_mut().zip(exponents.chunks_exact(words)) {
            *rotation = exponents[step];
        }
        let next = spectra.peek().map_or(&[][..], |(_, next)| next);
        key.product().rotate_accumulate(spectrum, next, accumulators, rotations, &mut scratch.product);
    }
}
