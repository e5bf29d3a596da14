//! Encryption with a public key, and the keys of list compression, tested with the evaluation
//! crate.

use crate::common::*;
use cloakwork_math::Torus;
use cloakwork_params::{CompressionSet, Noise, Order, ParameterSet, table};
use cloakwork_secret::{ClientKey, KeyGenerator, Randomness, SecretError, encrypt_compact, noise::noise};
use cloakwork_tfhe::{
    CompressionKey, DecompressionKey, LweList,
    packing::{Scratch, pack},
};

fn compact_round_trip<T: Torus>(set: &'static ParameterSet, messages: &[u64]) {
    let mut randomness = Randomness::insecure_for_tests(u64::from(set.id.0));
    let client = ClientKey::generate(set, &mut randomness).unwrap();
    let public = KeyGenerator::new(&client, set).unwrap().compact_public_key::<T>(&mut randomness).unwrap();
    let list = encrypt_compact(set, &public, messages, &mut randomness).unwrap();
    assert_eq!(list.masks().len(), messages.len().div_ceil(public.dimension()) * public.dimension());
    let expanded = list.expand();
    assert_eq!(client.decrypt(set, &expanded).unwrap(), messages, "{}", set.name);
}

#[test]
fn compact_encryptions_decrypt_with_the_client_key() {
    let messages: Vec<u64> = (0..2500).map(|index| index * 7 % 16).collect();
    compact_round_trip::<u64>(set(CLASSICAL_2_2), &messages);
    compact_round_trip::<u64>(set(CLASSICAL_2_2), &messages[..2048]);
    compact_round_trip::<u64>(set("TOY_MESSAGE_2_CARRY_2"), &messages[..1000]);
    compact_round_trip::<u64>(set("V1_8_PARAM_MESSAGE_1_CARRY_1_KS_PBS_TUNIFORM_2M128"), &[3; 1500]);
}

/// The errors are the public key's error times a random binary polynomial, the mask's error times
/// the key, and the body's error.
#[test]
fn compact_lists_have_the_noise_of_their_three_errors() {
    let set = set("TOY_MESSAGE_2_CARRY_2");
    let Noise::TUniform { bound_log2 } = set.glwe_noise else { panic!("the toy set has TUniform noise") };
    let fresh = (2.0 * 4_f64.powi(bound_log2 as i32) + 1.0) / 6.0 * 4_f64.powi(-64);
    let keys = 200;
    let mut ratio = 0.0;
    for seed in 0..keys {
        let mut randomness = Randomness::insecure_for_tests(seed);
        let client = ClientKey::generate(set, &mut randomness).unwrap();
        let public = KeyGenerator::new(&client, set).unwrap().compact_public_key::<u64>(&mut randomness).unwrap();
        let messages = vec![5; public.dimension()];
        let list = encrypt_compact(set, &public, &messages, &mut randomness).unwrap();
        let ones = client.big().bits().iter().filter(|bit| **bit == 1).count();
        let expected = fresh * (public.dimension() as f64 / 2.0 + ones as f64 + 1.0);
        let report = client.noise(set, &list.expand(), &messages).unwrap();
        ratio += (report.variance + report.mean.powi(2)) / expected / keys as f64;
    }
    // A binary polynomial has a mean, so the errors of one key are a random walk. Their mean square
    // varies by half of itself from key to key. Over 200 keys the deviation is 0.035; six of those
    // are allowed.
    assert!((ratio - 1.0).abs() < 0.21, "{ratio}");
}

#[test]
fn sets_without_a_power_of_two_have_no_public_key() {
    let set = set("DEFAULT_PARAMETERS");
    assert_eq!(set.order, Order::BootstrapFirst);
    let mut randomness = Randomness::insecure_for_tests(1);
    let client = ClientKey::generate(set, &mut randomness).unwrap();
    let refused = KeyGenerator::new(&client, set).unwrap().compact_public_key::<u32>(&mut randomness).unwrap_err();
    assert_eq!(refused, SecretError::Unsupported { set: "DEFAULT_PARAMETERS", what: "compact public key" });
}

#[test]
fn a_compression_set_must_serve_the_key() {
    let mut randomness = Randomness::insecure_for_tests(1);
    let mut client = ClientKey::generate(set("TOY_MESSAGE_2_CARRY_2"), &mut randomness).unwrap();
    let compression = table::compression_for(set(CLASSICAL_2_2)).unwrap();
    assert!(matches!(client.add_compression(compression, &mut randomness), Err(SecretError::Unsupported { .. })));
    let client = ClientKey::generate(set(CLASSICAL_2_2), &mut randomness).unwrap();
    let keys = KeyGenerator::new(&client, set(CLASSICAL_2_2)).unwrap();
    let absent = keys.packing_key::<u64>(compression, &mut randomness).unwrap_err();
    assert_eq!(absent, SecretError::SetNotInKey { set: compression.name });
}

fn compression_client(seed: u64) -> (&'static ParameterSet, &'static CompressionSet, ClientKey, Randomness) {
    let set = set(CLASSICAL_2_2);
    let compression = table::compression_for(set).unwrap();
    let mut randomness = Randomness::insecure_for_tests(seed);
    let mut client = ClientKey::generate(set, &mut randomness).unwrap();
    client.add_compression(compression, &mut randomness).unwrap();
    (set, compression, client, randomness)
}

#[test]
fn rows_of_a_packing_key_hold_their_bits_with_the_noise_of_its_set() {
    let (set, compression, client, mut randomness) = compression_client(5);
    let keys = KeyGenerator::new(&client, set).unwrap().on_threads(3);
    let key = keys.packing_key::<u64>(compression, &mut randomness).unwrap();
    let (size, levels) = (compression.packing_polynomial_size, compression.packing.levels);
    let packing = client.packing(compression).unwrap();
    let bits = packing.bits();
    let masks = masks::<u64>(key.seed(), 64, key.bodies().len() * compression.packing_glwe_dimension);
    let limit = noise_limit::<u64>(compression.packing_noise, 64);
    let rows = || masks.chunks(bits.len()).zip(key.bodies().chunks(size));
    let ciphertexts: Vec<u64> = rows().flat_map(|(mask, body)| mask.iter().chain(body).copied()).collect();
    let phases = packing.phases(&ciphertexts).unwrap();
    let mut errors = Errors::new(64);
    for (row, ((mask, body), phase)) in rows().zip(phases.chunks(size)).enumerate() {
        if row % 13 == 0 {
            assert!(glwe_phase(bits, size, mask, body) == phase, "row {row}");
        }
        let level = (levels - row % levels) as u32;
        let bit = client.big().bits()[row / levels];
        let mut expected = vec![0; size];
        expected[0] = u64::from(bit) << (64 - compression.packing.base_log * level);
        for (index, (phase, expected)) in phase.iter().zip(&expected).enumerate() {
            assert_near(*phase, *expected, limit, &(row, index));
        }
        errors.extend(phase, &expected);
    }
    // Each fork of the generator makes 16 input bits.
    errors.assert_follow(compression.packing_noise, 16 * levels * size, "packing key");
}

#[test]
fn a_decompression_key_holds_the_packing_key_with_the_noise_of_the_big_key() {
    let (set, compression, client, mut randomness) = compression_client(7);
    let keys = KeyGenerator::new(&client, set).unwrap().on_threads(3);
    let key = keys.decompression_key(compression, &mut randomness).unwrap().0;
    assert_eq!(key.shape().gadget, compression.bootstrap);
    check_ggsws(set, &client, client.packing(compression).unwrap().bits(), &key, 200);
}

#[test]
fn a_compact_public_key_has_the_noise_of_fresh_ciphertexts() {
    let set = set(CLASSICAL_2_2);
    let mut randomness = Randomness::insecure_for_tests(8);
    let client = ClientKey::generate(set, &mut randomness).unwrap();
    let key = KeyGenerator::new(&client, set).unwrap().compact_public_key::<u64>(&mut randomness).unwrap();
    let reversed: Vec<u8> = client.big().bits().iter().rev().copied().collect();
    let phases = glwe_phase(&reversed, key.dimension(), &key.mask(), key.body());
    let mut errors = Errors::new(64);
    errors.extend(&phases, &vec![0; key.dimension()]);
    errors.assert_follow(set.glwe_noise, 256, "compact public key");
}

#[test]
fn packed_and_compressed_lists_decrypt() {
    let (set, compression, client, mut randomness) = compression_client(6);
    let keys = KeyGenerator::new(&client, set).unwrap();
    let packing = keys.packing_key::<u64>(compression, &mut randomness).unwrap();
    let compressor = CompressionKey::expand(compression, set, &packing, 2).unwrap();
    let packing = compressor.packing_key();
    let decompression = keys.decompression_key(compression, &mut randomness).unwrap();

    // Packing alone: the coefficients of the packed ciphertext are the messages, under the packing
    // key.
    let messages: Vec<u64> = (0..200).map(|index| index % 16).collect();
    let list: LweList<u64> = client.encrypt(set, &messages, &mut randomness).unwrap();
    let mut glwe = vec![0; packing.glwe_words()];
    let mut scratch = Scratch::default();
    pack(packing, list.words(), &mut glwe, &mut scratch).unwrap();
    let phases = client.packing(compression).unwrap().phases(&glwe).unwrap();
    let plaintexts: Vec<u64> = messages.iter().map(|message| message << 59).collect();
    // Each coefficient has the key noise of all 200 ciphertexts, with digits uniform on [-8, 8],
    // and its own error of rounding to 12 bits. Six standard deviations are allowed.
    let rows = (set.big_dimension() * compression.packing.levels) as f64;
    let key_noise = 200.0 * rows * 21.5 * 4_f64.powi(43 - 64) / 3.0;
    let rounding = set.big_dimension() as f64 / 2.0 * 4_f64.powi(-12) / 12.0;
    let report = noise(&phases[..200], &plaintexts).unwrap();
    assert!(report.max < 6.0 * (key_noise + rounding).sqrt(), "{report:?}");
    assert!((0.6..1.6).contains(&(report.variance / (key_noise + rounding))), "{report:?}");
    let rest = noise(&phases[200..], &[0; 56]).unwrap();
    assert!(rest.max < 6.0 * key_noise.sqrt(), "{rest:?}");

    // Compression and decompression, over more than one packed ciphertext.
    let messages: Vec<u64> = (0..300).map(|index| index % 4).collect();
    let list: LweList<u64> = client.encrypt(set, &messages, &mut randomness).unwrap();
    let compressed = compressor.compress(&list, &mut scratch).unwrap();
    let decompressor = DecompressionKey::expand(compression, set, &decompression, 2).unwrap();
    let indices: Vec<usize> = (0..300).step_by(17).collect();
    let mut outputs = LweList::zeros(set.big_dimension(), indices.len());
    let mut scratches = [decompressor.scratch(), decompressor.scratch()];
    decompressor.decompress(&compressed, &indices, &mut outputs, &mut scratches).unwrap();
    let expected: Vec<u64> = indices.iter().map(|&index| messages[index]).collect();
    assert_eq!(client.decrypt(set, &outputs).unwrap(), expected);
}
