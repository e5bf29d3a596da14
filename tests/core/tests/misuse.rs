//! Mismatched arguments are refused, and legal but unusual arguments cost no extra memory.

use cloakwork_math::{Torus, random::MaskSeed};
use cloakwork_params::{Decomposition, table};
use cloakwork_secret::{ClientKey, KeyGenerator, Randomness};
use cloakwork_tests_core::Pair;
use cloakwork_tfhe::{
    CompactList, CompressedList, GgswShape, KeySwitchKey, Lut, LweList, SeededBootstrapKey, SeededKeySwitchKey,
    SeededLweList, SeededPackingKey, ServerKey, key_switch::key_switch,
};

/// Bootstraps one table with the largest possible number of outputs, and bounds the bytes that a
/// cold scratch allocates.
fn every_output_of_a_table<T: Torus, S: Torus>(name: &str) -> LweList<T> {
    let pair = Pair::<T, S>::generate(name);
    let size = pair.set.polynomial_size;
    let body = (0..size as u64).map(|at| T::from_u64(at << (T::BITS - 20))).collect();
    let lut = Lut::from_parts(body, (0..size).collect()).expect("ascending outputs");
    let dimension = pair.set.input_dimension();
    let inputs = LweList::trivial(dimension, &[T::default()]);
    let mut outputs = LweList::zeros(dimension, size);
    let mut scratches = [pair.server.scratch()];
    let run = || pair.server.bootstrap(&inputs, &[&lut], &mut outputs, &mut scratches).expect("it fits");
    let bytes = allocation_counter::measure(run).bytes_total;
    // The remaining bytes hold the key switch's digits for one part of the outputs.
    let results = size * (pair.set.big_dimension() + 1) * size_of::<T>();
    assert!(bytes < results as u64 / 4, "{name}: {bytes} bytes for {results} bytes of results");
    outputs
}

#[test]
fn further_outputs_of_a_table_take_no_working_memory() {
    let outputs = every_output_of_a_table::<u64, u64>("TOY_MESSAGE_2_CARRY_2");
    // Neighbouring outputs are neighbouring coefficients of the table, except where the table wraps
    // around.
    let bodies: Vec<u64> = outputs.iter().map(|output| output[output.len() - 1]).collect();
    assert!(bodies.windows(2).filter(|pair| pair[1].wrapping_sub(pair[0]) == 1 << 44).count() >= bodies.len() - 2);
    every_output_of_a_table::<u32, u32>("DEFAULT_PARAMETERS");
}

#[test]
fn a_scratch_of_another_set_is_refused() {
    let small = Pair::<u64, u64>::generate("TOY_MESSAGE_2_CARRY_2");
    let large = Pair::<u64, u64>::generate("TOY_MULTI_BIT_GROUP_3_MESSAGE_2_CARRY_2");
    for (one, other) in [(&small, &large), (&large, &small)] {
        let dimension = one.set.input_dimension();
        let (inputs, lut) = (LweList::trivial(dimension, &[0]), Lut::sign(one.set.polynomial_size, 1));
        let mut outputs = LweList::zeros(dimension, 1);
        let mut run = |scratches: &mut [_]| one.server.bootstrap(&inputs, &[&lut], &mut outputs, scratches);
        let error = run(&mut [one.server.scratch(), other.server.scratch()]).expect_err("the second does not fit");
        assert_eq!((error.expected, error.got), (usize::from(one.set.id.0), usize::from(other.set.id.0)));
        run(&mut [one.server.scratch()]).expect("it fits");
    }
}

#[test]
fn keys_of_another_set_are_refused_before_they_are_expanded() {
    let set = |name| table::by_name(name).expect("a set");
    let (wanted, other) = (set("TOY_MESSAGE_2_CARRY_2"), set("TOY_MULTI_BIT_GROUP_3_MESSAGE_2_CARRY_2"));
    let mut randomness = Randomness::insecure_for_tests(1);
    let client = ClientKey::generate(other, &mut randomness).expect("a key");
    let generator = KeyGenerator::new(&client, other).expect("a generator");
    let key_switch = generator.key_switch_key::<u64>(&mut randomness).expect("a key");
    let bootstrap = generator.bootstrap_key::<u64>(&mut randomness).expect("a key");
    let run = || {
        ServerKey::expand(wanted, &key_switch, &bootstrap, 1).err().expect("another set's keys");
    };
    assert_eq!(allocation_counter::measure(run).bytes_total, 0);
    // Words of another width than the set's are refused too.
    let shape = GgswShape::of_set(wanted, wanted.bootstrap);
    let bodies = vec![0_u32; wanted.ggsw_count() * shape.body_words()];
    let narrow = SeededBootstrapKey::new(shape, wanted.ggsw_count(), SEED, bodies).expect("whole ciphertexts");
    let (input, output, gadget) = (wanted.big_dimension(), wanted.lwe_dimension, wanted.key_switch);
    let bodies = vec![0_u64; input * gadget.levels];
    let key_switch = SeededKeySwitchKey::new(input, output, gadget, 64, SEED, bodies).expect("a body for each digit");
    let error = ServerKey::expand(wanted, &key_switch, &narrow, 1).err().expect("another word");
    assert_eq!((error.expected, error.got), (64, 32));
}

#[test]
fn shapes_that_overflow_or_divide_by_zero_are_refused() {
    let gadget = |levels| Decomposition { base_log: 4, levels };
    let shape =
        |glwe_dimension, polynomial_size, levels| GgswShape { glwe_dimension, polynomial_size, gadget: gadget(levels) };
    let half = 1 << (usize::BITS / 2);
    for (shape, count) in [
        (shape(1, 0, 1), 0),
        (shape(1, 64, 0), 5),
        (shape(usize::MAX, 64, 1), 1),
        (shape(1, half, 1), half),
        (shape(1, 64, 1), usize::MAX),
    ] {
        assert!(SeededBootstrapKey::<u64>::new(shape, count, SEED, vec![]).is_err(), "{count} of {shape:?}");
    }
    for (input, size, levels) in [(1, 0, 1), (1, 64, 0), (half, half, 1)] {
        let key = SeededPackingKey::<u64>::new(input, 1, size, gadget(levels), SEED, vec![]);
        assert!(key.is_err(), "{input} {size} {levels}");
    }
    for (input, levels) in [(1, 0), (half, half)] {
        assert!(SeededKeySwitchKey::<u64>::new(input, 1, gadget(levels), 64, SEED, vec![]).is_err());
    }
    for dimension in [0, usize::MAX] {
        assert!(LweList::<u64>::from_words(dimension, vec![]).is_err());
        assert!(SeededLweList::<u64>::new(dimension, SEED, vec![1]).is_err());
    }
    assert!(CompactList::<u64>::new(usize::MAX, vec![], vec![]).is_err());
    for set in table::COMPRESSION_SETS {
        assert!(CompressedList::from_words(set, usize::MAX, vec![]).is_err(), "{}", set.name);
    }
}

#[test]
fn a_key_switch_to_wider_words_is_refused() {
    let gadget = Decomposition { base_log: 4, levels: 2 };
    let seeded = SeededKeySwitchKey::new(1, 1, gadget, 64, SEED, vec![0_u64; 2]).expect("a body for each digit");
    let key = KeySwitchKey::expand(&seeded, 1);
    let mut outputs = [0; 2];
    let error = key_switch(&key, &[0_u32; 2], &mut outputs, &mut Default::default()).expect_err("64 bits out of 32");
    assert_eq!((error.expected, error.got), (32, 64));
    key_switch(&key, &[0_u64; 2], &mut outputs, &mut Default::default()).expect("as wide");
}

const SEED: MaskSeed = MaskSeed { key: 1, block: 0, byte: 0 };
