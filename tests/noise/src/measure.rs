//! Errors of single operations, as fractions of the torus.

use cloakwork_math::{Torus, external_product::accumulator, key_product, polynomial, random::SecretRng};
use cloakwork_params::{Encoding, ModulusSwitch, ParameterSet};
use cloakwork_secret::{LweSecretKey, Randomness, noise::NoiseReport};
use cloakwork_tfhe::{
    Lut, LweList,
    blind_rotation::{self, blind_rotate, tile},
    key_switch::key_switch,
    modulus_switch::{modulus_switch, switch_word},
};

use crate::keys::{Keys, THREADS, fraction, uniform};

/// Errors that the key switch adds to `count` random ciphertexts, rounded up to whole tiles.
pub fn key_switch_errors<T: Torus, S: Torus>(keys: &Keys<T, S>, count: usize, seed: u64) -> Vec<f64> {
    on_threads(count, seed, |count, rng| {
        let (big, small) = (keys.big().flattened(), keys.small());
        let (stride, columns) = (big.dimension() + 1, small.dimension() + 1);
        let mut scratch = key_product::Scratch::default();
        let tile = || -> Vec<f64> {
            let inputs: Vec<T> = uniform(rng, T::BITS, KEY_SWITCH_TILE * stride);
            let mut outputs = vec![S::default(); KEY_SWITCH_TILE * columns];
            key_switch(keys.server.key_switch_key(), &inputs, &mut outputs, &mut scratch).expect("made for the key");
            let pairs = inputs.chunks_exact(stride).zip(outputs.chunks_exact(columns));
            pairs
                .map(|(input, output)| {
                    nearest(
                        fraction(small.phase(output).expect("ciphertexts of the key's shape"))
                            - fraction(big.phase(input).expect("ciphertexts of the key's shape")),
                    )
                })
                .collect()
        };
        std::iter::repeat_with(tile).take(count.div_ceil(KEY_SWITCH_TILE)).flatten().collect()
    })
}

/// Errors that the modulus switch adds to `count` random ciphertexts under the small key. An error
/// is the phase that the blind rotation sees, minus the phase of the input.
pub fn modulus_switch_errors<S: Torus>(set: &ParameterSet, small: &LweSecretKey, count: usize, seed: u64) -> Vec<f64> {
    let position = 0.5 / set.polynomial_size as f64;
    on_threads(count, seed, |count, rng| {
        let one = || {
            let ciphertext = small_ciphertext::<S>(set, rng);
            let seen = f64::from(rotation(set, &ciphertext, small)) * position;
            nearest(seen - fraction(small.phase(&ciphertext).expect("ciphertexts of the key's shape")))
        };
        std::iter::repeat_with(one).take(count).collect()
    })
}

/// The mean square of the error over all coefficients of the rotated table, for each of `count`
/// random ciphertexts, rounded up to whole tiles.
///
/// Coefficients of one result share much of their error, but results do not: the mean squares are
/// independent.
pub fn blind_rotation_squares<T: Torus, S: Torus>(keys: &Keys<T, S>, count: usize, seed: u64) -> Vec<f64> {
    on_threads(count, seed, |count, rng| {
        let (set, key) = (keys.set(), keys.server.bootstrap_key());
        // The table may be arbitrary, provided that the gadget represents its words exactly, as it
        // does for real tables.
        let lut: Vec<T> = uniform(rng, LUT_BITS, set.polynomial_size);
        let width = tile::<T>(key.shape());
        let mut scratch = blind_rotation::Scratch::new(key);
        let words = key.shape().accumulator_words::<T>();
        let mut accumulators = vec![T::default(); width * words];
        let tile = || -> Vec<f64> {
            let ciphertexts: Vec<Vec<S>> = (0..width).map(|_| small_ciphertext(set, rng)).collect();
            let luts = vec![&lut[..]; width];
            let inputs = ciphertexts.concat();
            blind_rotate(key, set.modulus_switch, &inputs, &luts, &mut accumulators, &mut scratch);
            let results = accumulators.chunks_exact(words);
            let rotations = ciphertexts.iter().map(|ciphertext| rotation(set, ciphertext, keys.small()));
            results
                .zip(rotations)
                .map(|(accumulator, by)| {
                    let glwe: Vec<T> = accumulator::polynomials(lut.len(), accumulator).flatten().copied().collect();
                    table_error(&keys.big().phases(&glwe).expect("ciphertexts of the key's shape"), &lut, by)
                })
                .collect()
        };
        std::iter::repeat_with(tile).take(count.div_ceil(width)).flatten().collect()
    })
}

/// The noise of `count` fresh encryptions, and of their bootstraps. The messages take turns, and
/// the table is the identity.
pub fn bootstrap_noise<T: Torus, S: Torus>(
    keys: &Keys<T, S>,
    lut: &Lut<T>,
    count: usize,
    seed: u64,
) -> [NoiseReport; 2] {
    let (client, set) = (&keys.client, keys.set());
    let modulus = match set.encoding {
        Encoding::Shortint { message_modulus, carry_modulus, .. } => message_modulus * carry_modulus,
        Encoding::Boolean => 2,
    };
    let messages: Vec<u64> = (0..count as u64).map(|index| index % modulus).collect();
    let mut randomness = Randomness::insecure_for_tests(seed);
    let inputs: LweList<T> = client.encrypt(set, &messages, &mut randomness).expect("messages below the modulus");
    let mut outputs = LweList::zeros(set.input_dimension(), count);
    let mut scratches: Vec<_> = (0..THREADS).map(|_| keys.server.scratch()).collect();
    keys.server.bootstrap(&inputs, &vec![lut; count], &mut outputs, &mut scratches).expect("shapes of the set");
    [&inputs, &outputs].map(|list| client.noise(set, list, &messages).expect("one message a ciphertext"))
}

/// Mean square of the distance between `phases` and `X^-rotation lut`.
fn table_error<T: Torus>(phases: &[T], lut: &[T], rotation: u32) -> f64 {
    let circle = 2 * lut.len();
    let mut expected = vec![T::default(); lut.len()];
    polynomial::rotate(lut, (circle - rotation as usize) % circle, &mut expected);
    let errors = phases.iter().zip(&expected).map(|(phase, expected)| fraction(phase.wrapping_sub(*expected)));
    errors.map(|error| error * error).sum::<f64>() / lut.len() as f64
}

/// The phase of a ciphertext under the small key after the modulus switch, in positions modulo 2N.
fn rotation<S: Torus>(set: &ParameterSet, ciphertext: &[S], small: &LweSecretKey) -> u32 {
    let log2 = set.rotation_modulus_log2();
    let (body, mask) = ciphertext.split_last().expect("a ciphertext has a body");
    let rotation = if set.grouping == 1 {
        let mut exponents = vec![0; ciphertext.len()];
        modulus_switch(set.modulus_switch, log2, ciphertext, &mut exponents);
        small.phase(&exponents).expect("ciphertexts of the key's shape")
    } else {
        assert_eq!(set.modulus_switch, ModulusSwitch::Plain);
        let groups = mask.chunks_exact(set.grouping).zip(small.bits().chunks_exact(set.grouping));
        let selected = groups.map(|(mask, bits)| {
            let ones = mask.iter().zip(bits).filter(|(_, bit)| **bit == 1);
            switch_word(ones.fold(S::default(), |sum, (word, _)| sum.wrapping_add(*word)), log2)
        });
        selected.fold(switch_word(*body, log2), u32::wrapping_sub)
    };
    rotation % (1 << log2)
}

fn small_ciphertext<S: Torus>(set: &ParameterSet, rng: &mut SecretRng) -> Vec<S> {
    uniform(rng, set.small_modulus_log2, set.lwe_dimension + 1)
}

/// The representative of the difference in [-1/2, 1/2].
fn nearest(difference: f64) -> f64 {
    difference - difference.round()
}

/// Runs an equal share of `count` on each thread, each with its own randomness.
fn on_threads(count: usize, seed: u64, job: impl Fn(usize, &mut SecretRng) -> Vec<f64> + Sync) -> Vec<f64> {
    let mut rng = SecretRng::insecure_for_tests(seed);
    let job = &job;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let mut rng = rng.fork();
                scope.spawn(move || job(count.div_ceil(THREADS), &mut rng))
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a measuring thread panicked")).collect()
    })
}

const KEY_SWITCH_TILE: usize = 64;
const LUT_BITS: u32 = 5;
