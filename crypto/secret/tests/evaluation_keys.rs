//! Comparison of generated keys with their definition, by slow reference code.

use crate::common::*;
use cloakwork_math::Torus;
use cloakwork_params::ParameterSet;
use cloakwork_secret::{ClientKey, KeyGenerator, Randomness};
use cloakwork_tfhe::{LweList, SeededBootstrapKey, SeededKeySwitchKey};

fn client(set: &'static ParameterSet, seed: u64) -> (ClientKey, Randomness) {
    let mut randomness = Randomness::insecure_for_tests(seed);
    (ClientKey::generate(set, &mut randomness).unwrap(), randomness)
}

/// Uses several threads, so that their errors can be compared.
fn generator<'a>(client: &'a ClientKey, set: &'static ParameterSet) -> KeyGenerator<'a> {
    KeyGenerator::new(client, set).unwrap().on_threads(3)
}

/// Checks that every row of the key encrypts its bit times its weight, and that all rows together
/// have the noise of the small key.
fn check_key_switch_rows<S: Torus>(set: &'static ParameterSet) {
    let (client, mut randomness) = client(set, 1);
    let key: SeededKeySwitchKey<S> = generator(&client, set).key_switch_key(&mut randomness).unwrap();
    let (small, log2) = (client.small(set).unwrap(), set.small_modulus_log2);
    let masks = masks::<S>(key.seed(), log2, key.bodies().len() * small.dimension());
    let limit = noise_limit::<S>(set.lwe_noise, log2);
    let mut errors = Errors::new(log2);
    let mut rows = masks.chunks(small.dimension()).zip(key.bodies());
    for (place, &bit) in client.big().bits().iter().enumerate() {
        for level in (1..=set.key_switch.levels as u32).rev() {
            let (mask, body) = rows.next().unwrap();
            let phase = small.phase(&[mask, &[*body]].concat()).unwrap();
            let weight = S::from_u64(u64::from(bit) << (S::BITS - set.key_switch.base_log * level));
            assert_near(phase, weight, limit, &(set.name, place, level));
            errors.extend(&[phase], &[weight]);
        }
    }
    assert!(rows.next().is_none());
    // Each fork of the generator makes 64 input bits.
    errors.assert_follow(set.lwe_noise, 64 * set.key_switch.levels, set.name);
}

#[test]
fn key_switch_rows_of_every_modulus() {
    check_key_switch_rows::<u64>(set(CLASSICAL_2_2));
    check_key_switch_rows::<u32>(set(KS32_2_2));
    check_key_switch_rows::<u32>(set_like(&["HPU", "KS32"]));
    check_key_switch_rows::<u32>(set("DEFAULT_PARAMETERS_KS_PBS"));
    check_key_switch_rows::<u32>(set("DEFAULT_PARAMETERS"));
    check_key_switch_rows::<u64>(set("V1_8_PARAM_MESSAGE_1_CARRY_1_KS_PBS_GAUSSIAN_2M128"));
}

/// A key switch written out: fresh ciphertexts, their digits, and one subtraction per row.
#[test]
fn a_key_switch_by_hand_keeps_the_message() {
    let set = set(CLASSICAL_2_2);
    let (client, mut randomness) = client(set, 2);
    let key: SeededKeySwitchKey<u64> =
        KeyGenerator::new(&client, set).unwrap().key_switch_key(&mut randomness).unwrap();
    let small = client.small(set).unwrap();
    let n = small.dimension();
    let masks = masks::<u64>(key.seed(), 64, key.bodies().len() * n);
    let messages: Vec<u64> = (0..16).collect();
    let inputs: LweList<u64> = client.encrypt(set, &messages, &mut randomness).unwrap();
    for (input, message) in inputs.iter().zip(messages) {
        let mut output = vec![0_u64; n + 1];
        output[n] = input[set.big_dimension()];
        let mut rows = masks.chunks(n).zip(key.bodies());
        for word in &input[..set.big_dimension()] {
            for digit in digits(set.key_switch, *word) {
                let (mask, body) = rows.next().unwrap();
                for (out, row) in output.iter_mut().zip(mask.iter().chain([body])) {
                    *out = out.wrapping_sub(row.wrapping_mul(digit as u64));
                }
            }
        }
        let phase = small.phase(&output).unwrap();
        assert_eq!(phase.wrapping_add(1 << 58) >> 59, message);
    }
}

/// Messages of the GGSW ciphertexts of a key, computed from the definition.
fn selectors(set: &ParameterSet, bits: &[u8]) -> Vec<u8> {
    if set.grouping == 1 {
        return bits.to_vec();
    }
    let mut selectors = vec![];
    for group in bits.chunks(set.grouping) {
        for index in 0..1 << set.grouping {
            // The selected index is the group as a binary number, with its first bit on top.
            let value = group.iter().fold(0, |value, &bit| 2 * value + usize::from(bit));
            selectors.push(u8::from(value == index));
        }
    }
    selectors
}

fn bootstrap_key<T: Torus>(set: &'static ParameterSet, seed: u64) -> (ClientKey, Randomness, SeededBootstrapKey<T>) {
    let (client, mut randomness) = client(set, seed);
    let key = generator(&client, set).bootstrap_key(&mut randomness).unwrap();
    (client, randomness, key)
}

/// Checks that every row has its message and the noise of the big key. The schoolbook product
/// checks the rows of every `step`-th GGSW ciphertext.
fn check_ggsw_rows<T: Torus>(set: &'static ParameterSet, step: usize) {
    let (client, _, key) = bootstrap_key::<T>(set, 3);
    let selectors = selectors(set, client.small(set).unwrap().bits());
    assert_eq!(set.ggsw_count(), key.ggsw_count());
    check_ggsws(set, &client, &selectors, &key, step);
}

#[test]
fn ggsw_rows_of_every_shape() {
    check_ggsw_rows::<u64>(set("TOY_MESSAGE_2_CARRY_2"), 1);
    check_ggsw_rows::<u64>(set_like(&["TOY_MULTI_BIT_GROUP_2"]), 1);
    check_ggsw_rows::<u64>(set_like(&["TOY_MULTI_BIT_GROUP_3"]), 1);
    check_ggsw_rows::<u64>(set_like(&["TOY_MULTI_BIT_GROUP_4"]), 1);
    check_ggsw_rows::<u32>(set("TOY_BOOLEAN"), 1);
    check_ggsw_rows::<u64>(set(CLASSICAL_2_2), 200);
    check_ggsw_rows::<u64>(set("V1_8_PARAM_MESSAGE_1_CARRY_1_KS_PBS_TUNIFORM_2M128"), 200);
    check_ggsw_rows::<u32>(set("PARAMETERS_ERROR_PROB_2_POW_MINUS_165_KS_PBS"), 200);
}

/// An external product written out: the digits of a GLWE encryption times the rows of each
/// selector.
#[test]
fn an_external_product_by_hand_multiplies_by_the_bit() {
    let set = set("TOY_MESSAGE_2_CARRY_2");
    let (client, mut randomness, key) = bootstrap_key::<u64>(set, 4);
    let (size, bits) = (set.polynomial_size, client.big().bits());
    // The GLWE ciphertext is seeded, has a known message, and is encrypted here.
    let message: Vec<u64> = (0..size as u64).map(|index| (index % 16) << 59).collect();
    let seed = randomness.mask_seed().unwrap();
    let mask = masks::<u64>(&seed, 64, size);
    let mut body = message.clone();
    add_negacyclic(&words::<u64>(bits), &mask, &mut body);

    let rows = masks::<u64>(key.seed(), 64, key.bodies().len());
    let mut seen = [false; 2];
    for (ggsw, &bit) in client.small(set).unwrap().bits().iter().enumerate() {
        seen[usize::from(bit)] = true;
        let mut product = [vec![0_u64; size], vec![0_u64; size]];
        for (polynomial, glwe) in [&mask, &body].into_iter().enumerate() {
            let digit: Vec<u64> = glwe.iter().map(|word| digits(set.bootstrap, *word)[0] as u64).collect();
            let row = 2 * ggsw + polynomial;
            add_negacyclic(&digit, &rows[row * size..][..size], &mut product[0]);
            add_negacyclic(&digit, &key.bodies()[row * size..][..size], &mut product[1]);
        }
        let phase = glwe_phase(bits, size, &product[0], &product[1]);
        for (phase, message) in phase.iter().zip(&message) {
            assert_eq!(phase.wrapping_add(1 << 58) >> 59 << 59, message * u64::from(bit));
        }
    }
    assert_eq!(seen, [true; 2], "the seed gives a key with both bits");
}

#[test]
fn keys_do_not_depend_on_the_number_of_threads() {
    let set = set("TOY_MESSAGE_2_CARRY_2");
    let keys: Vec<_> = [1, 2, 7]
        .map(|threads| {
            let (client, mut randomness) = client(set, 5);
            let generator = KeyGenerator::new(&client, set).unwrap().on_threads(threads);
            let key_switch: SeededKeySwitchKey<u64> = generator.key_switch_key(&mut randomness).unwrap();
            let bootstrap: SeededBootstrapKey<u64> = generator.bootstrap_key(&mut randomness).unwrap();
            (key_switch, bootstrap)
        })
        .into();
    assert!(keys[0] == keys[1] && keys[0] == keys[2]);
}

/// A server needs words of the widths of the set: `S` is the word of the small key.
#[test]
fn words_of_the_wrong_width_are_refused() {
    let (client, mut randomness) = client(set("TOY_MESSAGE_2_CARRY_2"), 6);
    let generator = KeyGenerator::new(&client, set("TOY_MESSAGE_2_CARRY_2")).unwrap();
    let error = generator.key_switch_key::<u32>(&mut randomness).unwrap_err();
    assert_eq!(error.to_string(), "the key-switch key of TOY_MESSAGE_2_CARRY_2: expected words of 64 bits, got 32");
    assert!(generator.bootstrap_key::<u32>(&mut randomness).is_err());
}
