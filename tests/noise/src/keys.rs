//! Reproducible keys whose every secret the measurement knows. They protect nothing.

use cloakwork_math::{
    GgswShape, Torus, polynomial,
    random::{MaskSeed, MaskStream, SecretRng},
    simd::Level,
};
use cloakwork_params::{ParameterSet, noise::KeyWeight};
use cloakwork_tfhe::{SeededBootstrapKey, SeededKeySwitchKey, ServerKey};

use crate::transform::shape_of;

/// Both secret keys of a set and the evaluation key made from them.
pub struct Keys<T, S> {
    /// Bits of the small key.
    pub small: Vec<u8>,
    /// Bits of the big key.
    pub big: Vec<u8>,
    /// What a server would hold.
    pub server: ServerKey<T, S>,
    /// Mean square of the errors that the key-switch key was made with: they are few enough to miss their expectation
    /// by a percent or two.
    pub key_switch_square: f64,
}

impl<T: Torus, S: Torus> Keys<T, S> {
    /// The keys of `set` that belong to `seed`.
    pub fn generate(set: &'static ParameterSet, seed: u64) -> Self {
        let mut rng = SecretRng::insecure_for_tests(seed);
        let mut bits = |count: usize| {
            let mut bits = vec![0; count];
            rng.fill_binary(&mut bits);
            bits
        };
        let (small, big) = (bits(set.lwe_dimension), bits(set.big_dimension()));
        let mask_seed = |key: u64| MaskSeed { key: u128::from(seed) << 64 | u128::from(key), block: 0, byte: 0 };
        let (key_switch, key_switch_square) = key_switch_key(set, &small, &big, mask_seed(1), &mut rng);
        let bootstrap = bootstrap_key(set, &small, &big, mask_seed(2), &mut rng);
        let server = ServerKey::expand(set, &key_switch, &bootstrap, THREADS).expect("made for the set");
        Self { small, big, server, key_switch_square }
    }

    /// The parameter set.
    pub fn set(&self) -> &'static ParameterSet {
        self.server.set()
    }

    /// What the formula asks about a key.
    pub fn weight(&self) -> KeyWeight {
        let ones = |bits: &[u8]| bits.iter().map(|bit| f64::from(*bit)).sum();
        let groups = self.small.chunks_exact(self.set().grouping);
        KeyWeight {
            small_ones: ones(&self.small),
            small_groups: groups.filter(|group| group.contains(&1)).count() as f64,
            big_ones: ones(&self.big),
        }
    }
}

fn key_switch_key<S: Torus>(
    set: &ParameterSet,
    small: &[u8],
    big: &[u8],
    seed: MaskSeed,
    rng: &mut SecretRng,
) -> (SeededKeySwitchKey<S>, f64) {
    let (gadget, modulus_log2) = (set.key_switch, set.small_modulus_log2);
    let mut masks = MaskStream::new(&seed);
    let mut mask = vec![S::default(); small.len()];
    let mut bodies = Vec::with_capacity(big.len() * gadget.levels);
    let mut square = 0.0;
    for bit in big {
        for level in (1..=gadget.levels as u32).rev() {
            masks.fill(modulus_log2, &mut mask);
            let error: S = rng.noise(set.lwe_noise, modulus_log2);
            square += fraction(error).powi(2);
            let message = S::from_u64(u64::from(*bit) << (S::BITS - gadget.base_log * level));
            bodies.push(inner_product(&mask, small).wrapping_add(message).wrapping_add(error));
        }
    }
    square /= bodies.len() as f64;
    let key = SeededKeySwitchKey::new(big.len(), small.len(), gadget, modulus_log2, seed, bodies);
    (key.expect("one body a row"), square)
}

fn bootstrap_key<T: Torus>(
    set: &ParameterSet,
    small: &[u8],
    big: &[u8],
    seed: MaskSeed,
    rng: &mut SecretRng,
) -> SeededBootstrapKey<T> {
    let shape = shape_of(set);
    let messages = selectors(small, set.grouping);
    let mut bodies = vec![T::default(); messages.len() * shape.body_words()];
    let share = messages.len().div_ceil(THREADS);
    std::thread::scope(|scope| {
        let parts = messages.chunks(share).zip(bodies.chunks_mut(share * shape.body_words()));
        for (part, (messages, bodies)) in parts.enumerate() {
            let mut rng = rng.fork();
            scope.spawn(move || {
                let ggsw_bytes = shape.rows() * shape.glwe_dimension * shape.polynomial_size * size_of::<T>();
                let mut masks = MaskStream::at(&seed, (part * share * ggsw_bytes) as u128);
                for (message, bodies) in messages.iter().zip(bodies.chunks_exact_mut(shape.body_words())) {
                    encrypt_ggsw(shape, *message, big, &mut masks, bodies);
                    rng.add_noise(set.glwe_noise, T::BITS, bodies);
                }
            });
        }
    });
    SeededBootstrapKey::new(shape, messages.len(), seed, bodies).expect("whole GGSW ciphertexts")
}

/// What each GGSW ciphertext encrypts: the bits themselves or, for a group, whether it is exactly this subset of ones.
fn selectors(small: &[u8], grouping: usize) -> Vec<u8> {
    if grouping == 1 {
        return small.to_vec();
    }
    let value = |group: &[u8]| group.iter().fold(0, |value, bit| value << 1 | usize::from(*bit));
    let groups = small.chunks_exact(grouping).map(value);
    groups.flat_map(|ones| (0..1 << grouping).map(move |subset| u8::from(subset == ones))).collect()
}

/// The bodies of a GGSW encryption, without errors.
fn encrypt_ggsw<T: Torus>(shape: GgswShape, message: u8, big: &[u8], masks: &mut MaskStream, bodies: &mut [T]) {
    let size = shape.polynomial_size;
    let keys: Vec<&[u8]> = big.chunks_exact(size).collect();
    let mut mask = vec![T::default(); size];
    for (row, body) in bodies.chunks_exact_mut(size).enumerate() {
        for key in &keys {
            masks.fill(T::BITS, &mut mask);
            add_times_bits(&mask, key, body);
        }
        let (level, column) = (shape.gadget.levels - row / shape.glwe_size(), row % shape.glwe_size());
        let weight = T::from_u64(u64::from(message) << (T::BITS - shape.gadget.base_log * level as u32));
        match keys.get(column) {
            // The row of a mask polynomial carries minus its key.
            Some(key) => body.iter_mut().zip(*key).filter(|(_, bit)| **bit == 1).for_each(|(word, _)| {
                *word = word.wrapping_sub(weight);
            }),
            None => body[0] = body[0].wrapping_add(weight),
        }
    }
}

/// `sum += polynomial * bits` modulo X^N + 1, exactly.
pub fn add_times_bits<T: Torus>(polynomial: &[T], bits: &[u8], sum: &mut [T]) {
    let level = Level::detect();
    for (exponent, _) in bits.iter().enumerate().filter(|(_, bit)| **bit == 1) {
        polynomial::add_rotated(level, polynomial.len(), polynomial, exponent, sum);
    }
}

/// The sum of the words that the bits select.
pub fn inner_product<T: Torus>(words: &[T], bits: &[u8]) -> T {
    let selected = words.iter().zip(bits).filter(|(_, bit)| **bit == 1);
    selected.fold(T::default(), |sum, (word, _)| sum.wrapping_add(*word))
}

/// A word as a signed fraction of the torus.
pub fn fraction<T: Torus>(word: T) -> f64 {
    word.to_i64() as f64 * (-f64::from(T::BITS)).exp2()
}

/// Threads that keys are made and ciphertexts measured on.
pub const THREADS: usize = 2;
