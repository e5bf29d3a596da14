//! Every parameter set computes lookup tables, alone and in batches, with fresh inputs and with
//! outputs as inputs.

use cloakwork_math::{
    Torus,
    random::{MaskSeed, MaskStream},
};
use cloakwork_params::{Encoding, ParameterSet, table::SETS};
use cloakwork_tests_core::Pair;
use cloakwork_tfhe::{Lut, LweList, ServerKey};

/// Largest evaluation key, in bytes, of a set that is tested without `CLOAKWORK_TEST_ALL`.
const EVERYDAY_KEY_BYTES: usize = 1 << 30;

#[test]
fn every_shortint_set_applies_tables() {
    for set in SETS.iter().filter(|set| matches!(set.encoding, Encoding::Shortint { .. })) {
        if key_bytes(set) > EVERYDAY_KEY_BYTES && std::env::var_os("CLOAKWORK_TEST_ALL").is_none() {
            println!("{}: left to `make test-all`, its key is {} MiB", set.name, key_bytes(set) >> 20);
            continue;
        }
        let started = std::time::Instant::now();
        match set.small_modulus_log2 {
            64 => applies_tables::<u64>(set.name),
            _ => applies_tables::<u32>(set.name),
        }
        println!("{}: {:.1} s", set.name, started.elapsed().as_secs_f64());
    }
}

fn applies_tables<S: Torus>(name: &str) {
    let mut pair = Pair::<u64, S>::generate(name);
    let values = pair.values();
    let words = random_words(values as usize * 4);
    // Each lane has its own table, and every input value occurs.
    let messages: Vec<u64> = (0..values).chain(words.iter().map(|word| word % values)).take(20).collect();
    let tables: Vec<Vec<u64>> = messages
        .iter()
        .enumerate()
        .map(|(lane, _)| (0..values as usize).map(|input| words[(input + 3 * lane) % words.len()] % values).collect())
        .collect();
    let luts: Vec<Lut<u64>> =
        tables.iter().map(|table| Lut::from_fn(pair.set, |input| table[input as usize]).expect("a table")).collect();
    let luts: Vec<&Lut<u64>> = luts.iter().collect();

    let inputs = pair.client.encrypt(pair.set, &messages, &mut pair.randomness).expect("ciphertexts");
    let mut outputs = LweList::zeros(inputs.dimension(), inputs.len());
    pair.server.bootstrap(&inputs, &luts, &mut outputs, &mut pair.scratches).expect("shapes that fit");
    let expected: Vec<u64> = messages.iter().zip(&tables).map(|(message, table)| table[*message as usize]).collect();
    assert_eq!(pair.client.decrypt(pair.set, &outputs).expect("messages"), expected, "{name}, fresh inputs");

    // A second time, on the outputs, with one scratch: the same tables, another order of work.
    let mut again = LweList::zeros(inputs.dimension(), inputs.len());
    pair.server.bootstrap(&outputs, &luts, &mut again, &mut pair.scratches[..1]).expect("shapes that fit");
    let expected: Vec<u64> = expected.iter().zip(&tables).map(|(message, table)| table[*message as usize]).collect();
    assert_eq!(pair.client.decrypt(pair.set, &again).expect("messages"), expected, "{name}, used inputs");
}

fn key_bytes(set: &ParameterSet) -> usize {
    match set.small_word_bits() {
        64 => ServerKey::<u64, u64>::bytes_of(set),
        _ => ServerKey::<u64, u32>::bytes_of(set),
    }
}

fn random_words(len: usize) -> Vec<u64> {
    let mut words = vec![0; len];
    MaskStream::new(&MaskSeed { key: 0x7ab1e, block: 0, byte: 0 }).fill(64, &mut words);
    words
}

#[test]
fn batching_changes_no_bit_of_a_classical_bootstrap() {
    batch_changes_no_bit("V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128", 150);
}

/// A single ciphertext computes the key's masks, but a batch reads them from memory. Both must give
/// the same bits.
#[test]
fn batching_changes_no_bit_of_a_multi_bit_bootstrap() {
    batch_changes_no_bit("V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128", 33);
    // Two masks in each row.
    batch_changes_no_bit("V1_8_PARAM_GPU_MULTI_BIT_GROUP_2_MESSAGE_1_CARRY_1_KS_PBS_TUNIFORM_2M128", 33);
    batch_changes_no_bit("TOY_MULTI_BIT_GROUP_3_MESSAGE_2_CARRY_2", 40);
}

fn batch_changes_no_bit(name: &str, count: usize) {
    let mut pair = Pair::<u64, u64>::generate(name);
    let modulus = 1 << (63 - pair.set.plaintext_step().ilog2());
    let function = |message: u64| (message * 7 + 3) % modulus;
    let messages: Vec<u64> = (0..count as u64).map(|lane| lane % modulus).collect();
    let lut = Lut::from_fn(pair.set, function).expect("a table");
    let inputs = pair.client.encrypt(pair.set, &messages, &mut pair.randomness).expect("ciphertexts");
    let run = |inputs: &LweList<u64>, scratches: &mut [_]| {
        let mut outputs = LweList::zeros(inputs.dimension(), inputs.len());
        pair.server.bootstrap(inputs, &vec![&lut; inputs.len()], &mut outputs, scratches).expect("shapes that fit");
        outputs
    };
    let together = run(&inputs, &mut pair.scratches);
    assert_eq!(run(&inputs, &mut pair.scratches[..1]), together, "{name}: one thread or two");
    let expected: Vec<u64> = messages.iter().map(|message| function(*message)).collect();
    assert_eq!(pair.client.decrypt(pair.set, &together).expect("messages"), expected, "{name}");
    // Lanes on both sides of the end of a tile, and of the end of a thread's part with one thread
    // and with two.
    for lane in [0, 15, 16, 31, 32, 63, 64, 79, 80, 109, 110, 149].into_iter().filter(|lane| *lane < count) {
        let single = LweList::from_words(inputs.dimension(), inputs.get(lane).to_vec()).expect("one ciphertext");
        assert_eq!(run(&single, &mut pair.scratches[..1]).get(0), together.get(lane), "{name}: lane {lane} alone");
    }
}

#[test]
fn tables_of_two_inputs_and_of_many_functions_give_the_right_values() {
    let mut pair = Pair::<u64, u32>::generate("V1_8_PARAM_MESSAGE_2_CARRY_2_KS32_PBS_TUNIFORM_2M128");
    let (left, right): (Vec<u64>, Vec<u64>) = (0..16).map(|pair| (pair / 4, pair % 4)).unzip();
    let product = Lut::bivariate(pair.set, 4, |left, right| left * right % 4).expect("a table");
    assert!(Lut::bivariate(pair.set, 0, |left, _| left).is_err(), "a right input without values");
    let lefts = pair.client.encrypt::<u64>(pair.set, &left, &mut pair.randomness).expect("ciphertexts");
    let rights = pair.client.encrypt::<u64>(pair.set, &right, &mut pair.randomness).expect("ciphertexts");
    let mut outputs = LweList::zeros(lefts.dimension(), lefts.len());
    let packed = |lane: usize, input: &mut [u64]| {
        for ((word, left), right) in input.iter_mut().zip(lefts.get(lane)).zip(rights.get(lane)) {
            *word = left.wrapping_mul(4).wrapping_add(*right);
        }
    };
    let luts = vec![&product; lefts.len()];
    pair.server.bootstrap_with(&packed, &luts, &mut outputs, &mut pair.scratches).expect("shapes that fit");
    let expected: Vec<u64> = left.iter().zip(&right).map(|(left, right)| left * right % 4).collect();
    assert_eq!(pair.client.decrypt(pair.set, &outputs).expect("messages"), expected);

    // One blind rotation gives three outputs. The inputs go up to a third of the values.
    let functions: [&dyn Fn(u64) -> u64; 3] = [&|x| x, &|x| (x * x) % 16, &|x| 15 - x];
    let many = Lut::from_fns(pair.set, &functions).expect("a table");
    let messages = [0, 1, 2, 3, 4];
    let inputs = pair.client.encrypt(pair.set, &messages, &mut pair.randomness).expect("ciphertexts");
    let mut outputs = LweList::zeros(inputs.dimension(), messages.len() * functions.len());
    let luts = [&many; 5];
    pair.server.bootstrap(&inputs, &luts, &mut outputs, &mut pair.scratches).expect("shapes that fit");
    let expected: Vec<u64> =
        messages.iter().flat_map(|message| functions.iter().map(|function| function(*message))).collect();
    assert_eq!(pair.client.decrypt(pair.set, &outputs).expect("messages"), expected);
}

#[test]
fn trivial_ciphertexts_bootstrap_like_any_other() {
    let mut pair = Pair::<u64, u64>::generate("TOY_MESSAGE_2_CARRY_2");
    let plaintexts: Vec<u64> = (0..16).map(|message| message << 59).collect();
    let inputs = LweList::trivial(pair.set.big_dimension(), &plaintexts);
    let lut = Lut::from_fn(pair.set, |value| 15 - value).expect("a table");
    let mut outputs = LweList::zeros(inputs.dimension(), inputs.len());
    pair.server.bootstrap(&inputs, &[&lut; 16], &mut outputs, &mut pair.scratches).expect("shapes that fit");
    let expected: Vec<u64> = (0..16).rev().collect();
    assert_eq!(pair.client.decrypt(pair.set, &outputs).expect("messages"), expected);
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let mut pair = Pair::<u64, u64>::generate("TOY_MESSAGE_2_CARRY_2");
    let lut = Lut::from_fn(pair.set, |input| input).expect("a table");
    let inputs = pair.client.encrypt(pair.set, &[1, 2], &mut pair.randomness).expect("ciphertexts");
    let dimension = inputs.dimension();
    let mut run = |inputs: &LweList<u64>, luts: &[&Lut<u64>], outputs: usize, scratches: usize| {
        let mut outputs = LweList::zeros(dimension, outputs);
        pair.server.bootstrap(inputs, luts, &mut outputs, &mut pair.scratches[..scratches]).is_ok()
    };
    assert!(run(&inputs, &[&lut, &lut], 2, 1));
    assert!(!run(&inputs, &[&lut], 2, 1), "a table for each input");
    assert!(!run(&inputs, &[&lut, &lut], 1, 1), "an output for each input");
    assert!(!run(&inputs, &[&lut, &lut], 2, 0), "no scratch");
    assert!(!run(&LweList::zeros(dimension + 1, 2), &[&lut, &lut], 2, 1), "inputs of another dimension");
    assert!(!run(&inputs, &[&lut, &Lut::from_body(vec![0; 8])], 2, 1), "a table of another size");
    assert!(run(&LweList::zeros(dimension, 0), &[], 0, 2), "nothing to do is no error");
}
