//! Small fixed cases for counting instructions: no clock, no randomness, one thread.
//!
//! `speed-case CASE` runs a case, and prints the instruction set in use and a digest of the
//! results. Callgrind counts only the function [`measured`].

#![forbid(unsafe_code)]

use std::process::ExitCode;

use cloakwork_math::{Torus, key_product, random::MaskSeed, simd::Level};
use cloakwork_params::{ParameterSet, table};
use cloakwork_tfhe::{
    BootstrapKey, GgswShape, KeySwitchKey, SeededBootstrapKey, SeededKeySwitchKey,
    blind_rotation::{self, blind_rotate},
    key_switch::key_switch,
};

const CLASSICAL: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";
const LARGE: &str = "V1_8_PARAM_MESSAGE_3_CARRY_3_KS_PBS_TUNIFORM_2M128";
const KS32: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS32_PBS_TUNIFORM_2M128";
const BITS: &str = "TFHE_LIB_PARAMETERS";
const MULTI_BIT: &str = "V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";

/// Bits of a blind rotation's small key, which are as many steps, or a single step of a group of
/// four.
const BITS_OF_KEY: usize = 4;
/// Number of ciphertexts of a key switch, and its input and output dimensions.
const KEY_SWITCH_SIZES: (usize, usize, usize) = (64, 128, 250);

/// Runs a case and returns a digest of its results.
type Work = fn() -> u64;

/// All cases.
const CASES: [(&str, Work); 8] = [
    ("rotate-2_2-tile-of-1", || rotate::<u64>(CLASSICAL, 1)),
    ("rotate-2_2-tile-of-8", || rotate::<u64>(CLASSICAL, 8)),
    ("rotate-3_3-tile-of-1", || rotate::<u64>(LARGE, 1)),
    ("rotate-TFHE_LIB-tile-of-8", || rotate::<u32>(BITS, 8)),
    ("rotate-2_2-multi-bit-g4-tile-of-2", || rotate::<u64>(MULTI_BIT, 2)),
    ("switch-2_2", || switch::<u64, u64>(CLASSICAL)),
    ("switch-KS32", || switch::<u64, u32>(KS32)),
    ("switch-TFHE_LIB", || switch::<u32, u32>(BITS)),
];

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    if let Some((_, case)) = CASES.iter().find(|(name, _)| *name == wanted) {
        println!("{} {:016x}", Level::detect().name(), case());
        return ExitCode::SUCCESS;
    }
    CASES.iter().for_each(|(name, _)| println!("{name}"));
    if wanted.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a blind rotation of `tile` ciphertexts under a key of few bits.
fn rotate<T: Torus>(set: &str, tile: usize) -> u64 {
    let (set, mut numbers) = (by_name(set), Numbers(1));
    let shape = GgswShape::of_set(set, set.bootstrap);
    let ggsws = if set.grouping == 1 { BITS_OF_KEY } else { (BITS_OF_KEY / set.grouping) << set.grouping };
    let bodies = numbers.list(ggsws * shape.body_words());
    let seeded = SeededBootstrapKey::<T>::new(shape, ggsws, SEED, bodies).expect("the set's shape");
    let key = BootstrapKey::expand(&seeded, set.grouping, 1).expect("the set's shape");
    let (lut, ciphertexts) = (numbers.list::<T>(set.polynomial_size), numbers.list::<T>(tile * (BITS_OF_KEY + 1)));
    let luts = vec![&lut[..]; tile];
    let mut accumulators = vec![T::default(); tile * shape.accumulator_words::<T>()];
    let mut scratch = blind_rotation::Scratch::new(&key);
    let rule = set.modulus_switch;
    twice(&mut || blind_rotate(&key, rule, &ciphertexts, &luts, &mut accumulators, &mut scratch));
    digest(&accumulators)
}

/// Switches a chunk of ciphertexts between short keys.
fn switch<T: Torus, S: Torus>(set: &str) -> u64 {
    let (set, mut numbers, (count, from, to)) = (by_name(set), Numbers(2), KEY_SWITCH_SIZES);
    let bodies = numbers.list(from * set.key_switch.levels);
    let seeded = SeededKeySwitchKey::<S>::new(from, to, set.key_switch, set.small_modulus_log2, SEED, bodies);
    let key = KeySwitchKey::expand(&seeded.expect("the set's shape"), 1);
    let inputs = numbers.list::<T>(count * (from + 1));
    let mut outputs = vec![S::default(); count * (to + 1)];
    let mut scratch = key_product::Scratch::default();
    twice(&mut || key_switch(&key, &inputs, &mut outputs, &mut scratch).expect("whole ciphertexts"));
    digest(&outputs)
}

/// Runs the work once to allocate buffers and detect the instruction set, and once to be counted.
fn twice(work: &mut dyn FnMut()) {
    work();
    measured(work);
}

#[inline(never)]
fn measured(work: &mut dyn FnMut()) {
    work();
    // The call above must not become a jump: this function must end after the work.
    std::hint::black_box(());
}

fn by_name(name: &str) -> &'static ParameterSet {
    table::by_name(name).expect("a set of the table")
}

const SEED: MaskSeed = MaskSeed { key: 7, block: 0, byte: 0 };

/// A reproducible sequence of numbers that are spread over the whole word (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn list<T: Torus>(&mut self, count: usize) -> Vec<T> {
        let next = || {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            T::from_u64(mixed ^ (mixed >> 31))
        };
        std::iter::repeat_with(next).take(count).collect()
    }
}

/// A digest that depends on every word, so that the compiler cannot drop the computation of any.
fn digest<T: Torus>(words: &[T]) -> u64 {
    words.iter().fold(0, |sum: u64, word| sum.wrapping_mul(0x0100_0000_01b3) ^ word.to_u64())
}
