//! Errors of single operations, as fractions of the torus.

use cloakwork_math::{Torus, key_product, polynomial, random::SecretRng};
use cloakwork_params::{ModulusSwitch, ParameterSet};
use cloakwork_tfhe::{
    blind_rotation::{self, blind_rotate, tile},
    key_switch::key_switch,
    modulus_switch::{modulus_switch, switch_word},
};

use crate::keys::{Keys, THREADS, add_times_bits, fraction, inner_product};

/// What the key switch adds to each of `count` random ciphertexts.
pub fn key_switch_errors<T: Torus, S: Torus>(keys: &Keys<T, S>, count: usize, seed: u64) -> Vec<f64> {
    let (stride, columns) = (keys.big.len() + 1, keys.small.len() + 1);
    let mut rng = SecretRng::insecure_for_tests(seed);
    let mut scratch = key_product::Scratch::default();
    let mut errors = Vec::with_capacity(count);
    while errors.len() < count {
        let inputs: Vec<T> = (0..TILE * stride).map(|_| T::from_u64(rng.word())).collect();
        let mut outputs = vec![S::default(); TILE * columns];
        key_switch(keys.server.key_switch_key(), &inputs, &mut outputs, &mut scratch).expect("made for the key");
        for (input, output) in inputs.chunks_exact(stride).zip(outputs.chunks_exact(columns)) {
            let difference = fraction(phase(output, &keys.small)) - fraction(phase(input, &keys.big));
            errors.push(difference - difference.round());
        }
    }
    errors
}

/// What the modulus switch adds to each of `count` random ciphertexts under the small key: the phase that the blind
/// rotation sees, less the one that came in.
pub fn modulus_switch_errors<S: Torus>(set: &ParameterSet, small: &[u8], count: usize, seed: u64) -> Vec<f64> {
    let mut rng = SecretRng::insecure_for_tests(seed);
    let position = 0.5 / set.polynomial_size as f64;
    (0..count)
        .map(|_| {
            let ciphertext = small_ciphertext::<S>(set, &mut rng);
            let seen = f64::from(rotation_of(set, &ciphertext, small)) * position;
            let difference = seen - fraction(phase(&ciphertext, small));
            difference - difference.round()
        })
        .collect()
}

/// The mean square of the error over all coefficients of the rotated table, for each of `count` random ciphertexts.
///
/// Coefficients of one result share much of their error, results do not: the mean squares are independent.
pub fn blind_rotation_squares<T: Torus, S: Torus>(keys: &Keys<T, S>, count: usize, seed: u64) -> Vec<f64> {
    let share = count.div_ceil(THREADS);
    std::thread::scope(|scope| {
        let run = |thread: u64| move || rotation_squares(keys, share, seed ^ (thread << 32));
        let threads: Vec<_> = (0..THREADS as u64).map(|thread| scope.spawn(run(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a measuring thread panicked")).collect()
    })
}

fn rotation_squares<T: Torus, S: Torus>(keys: &Keys<T, S>, count: usize, seed: u64) -> Vec<f64> {
    let (set, key) = (keys.set(), keys.server.bootstrap_key());
    let mut rng = SecretRng::insecure_for_tests(seed);
    // Any table will do, so long as its digits are those of a real one: a multiple of the gadget's smallest weight.
    let lut: Vec<T> = (0..set.polynomial_size).map(|_| T::from_u64(rng.word() << (T::BITS - 5))).collect();
    let width = tile(key);
    let mut scratch = blind_rotation::Scratch::new(key);
    let mut accumulators = vec![T::default(); width * key.shape().glwe_words()];
    let mut squares = Vec::with_capacity(count);
    while squares.len() < count {
        let ciphertexts: Vec<S> = (0..width).flat_map(|_| small_ciphertext(set, &mut rng)).collect();
        let luts = vec![&lut[..]; width];
        blind_rotate(key, set.modulus_switch, &ciphertexts, &luts, &mut accumulators, &mut scratch);
        let results = accumulators.chunks_exact(key.shape().glwe_words());
        for (ciphertext, glwe) in ciphertexts.chunks_exact(keys.small.len() + 1).zip(results) {
            let rotation = rotation_of(set, ciphertext, &keys.small) as usize;
            let mut expected = vec![T::default(); lut.len()];
            polynomial::rotate(&lut, (2 * lut.len() - rotation) % (2 * lut.len()), &mut expected);
            let phase = glwe_phase(glwe, &keys.big);
            let errors = phase.iter().zip(&expected).map(|(word, expected)| fraction(word.wrapping_sub(*expected)));
            squares.push(errors.map(|error| error * error).sum::<f64>() / lut.len() as f64);
        }
    }
    squares
}

/// The phase of a ciphertext under the small key after the modulus switch, in positions modulo 2N.
fn rotation_of<S: Torus>(set: &ParameterSet, ciphertext: &[S], small: &[u8]) -> u32 {
    let log2 = set.rotation_modulus_log2();
    let (body, mask) = ciphertext.split_last().expect("a ciphertext has a body");
    let rotation = if set.grouping == 1 {
        let mut exponents = vec![0; ciphertext.len()];
        modulus_switch(set.modulus_switch, log2, ciphertext, &mut exponents);
        exponents[mask.len()].wrapping_sub(inner_product(&exponents[..mask.len()], small))
    } else {
        assert_eq!(set.modulus_switch, ModulusSwitch::Plain);
        let groups = mask.chunks_exact(set.grouping).zip(small.chunks_exact(set.grouping));
        let selected = groups.map(|(mask, bits)| switch_word(inner_product(mask, bits), log2));
        selected.fold(switch_word(*body, log2), u32::wrapping_sub)
    };
    rotation % (1 << log2)
}

/// Uniform words of the small modulus.
fn small_ciphertext<S: Torus>(set: &ParameterSet, rng: &mut SecretRng) -> Vec<S> {
    let shift = S::BITS - set.small_modulus_log2;
    (0..=set.lwe_dimension).map(|_| S::from_u64(rng.word() << shift)).collect()
}

fn phase<T: Torus>(ciphertext: &[T], key: &[u8]) -> T {
    let (body, mask) = ciphertext.split_last().expect("a ciphertext has a body");
    body.wrapping_sub(inner_product(mask, key))
}

/// `body - sum of mask * key`, as polynomials.
fn glwe_phase<T: Torus>(glwe: &[T], key: &[u8]) -> Vec<T> {
    let size = glwe.len() - key.len();
    let (masks, body) = glwe.split_at(key.len());
    let mut product = vec![T::default(); size];
    for (mask, bits) in masks.chunks_exact(size).zip(key.chunks_exact(size)) {
        add_times_bits(mask, bits, &mut product);
    }
    body.iter().zip(&product).map(|(body, product)| body.wrapping_sub(*product)).collect()
}

const TILE: usize = 64;
