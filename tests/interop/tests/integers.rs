//! Integers of tfhe-rs under our keys, and blocks of its integers bootstrapped by our server.

use crate::common::*;
use cloakwork_secret::{ClientKey, KeyGenerator, Randomness};
use cloakwork_tests_interop::{
    EvaluationKeys, integer, parameters,
    shortint::{self, SmallWord},
};
use cloakwork_tfhe::{Lut, LweList};
use tfhe::{ConfigBuilder, FheInt16, FheUint8, integer::IntegerCiphertext, prelude::*, set_server_key};

/// Runs tfhe-rs's arithmetic on our keys. Every operation is a chain of dozens of bootstraps.
fn arithmetic_on_our_keys<S: SmallWord>(name: &str) {
    let set = set(name);
    let mut randomness = Randomness::from_os().unwrap();
    let ours = ClientKey::generate(set, &mut randomness).unwrap();
    let generator = KeyGenerator::new(&ours, set).unwrap();
    let keys = EvaluationKeys {
        set,
        key_switch: generator.key_switch_key::<S>(&mut randomness).unwrap(),
        bootstrap: generator.bootstrap_key(&mut randomness).unwrap(),
    };
    let client = integer::client_key_into_tfhe(&ours, set).unwrap();
    set_server_key(keys.to_integer().unwrap().decompress());

    let (a, b) = (201_u8, 77_u8);
    let (x, y) = (FheUint8::encrypt(a, &client), FheUint8::encrypt(b, &client));
    let sum: u8 = (&x + &y).decrypt(&client);
    let product: u8 = (&x * &y).decrypt(&client);
    let larger: u8 = x.max(&y).decrypt(&client);
    let less: bool = x.lt(&y).decrypt(&client);
    assert_eq!((sum, product, larger, less), (a.wrapping_add(b), a.wrapping_mul(b), a.max(b), a < b), "{name}");

    let (a, b) = (-12_345_i16, 678_i16);
    let (x, y) = (FheInt16::encrypt(a, &client), FheInt16::encrypt(b, &client));
    let difference: i16 = (&x - &y).decrypt(&client);
    let magnitude: i16 = x.abs().decrypt(&client);
    assert_eq!((difference, magnitude), (a - b, a.abs()), "{name}");
}

#[test]
fn arithmetic_of_tfhe_rs_works_under_classical_keys_of_our_library() {
    arithmetic_on_our_keys::<u64>(CLASSICAL_2_2);
}

#[test]
fn arithmetic_of_tfhe_rs_works_under_32_bit_keys_of_our_library() {
    arithmetic_on_our_keys::<u32>(KS32_2_2);
}

#[test]
fn our_server_bootstraps_the_blocks_of_an_integer_of_tfhe_rs() {
    let set = set(CLASSICAL_2_2);
    let config = ConfigBuilder::default().build();
    let client = tfhe::ClientKey::generate(config);
    let server = tfhe::CompressedServerKey::new(&client);
    set_server_key(server.decompress());
    let key = server.into_raw_parts().0.into_raw_parts();
    // The default parameters of tfhe-rs are this set.
    let shortint_client = client.clone().into_raw_parts().0.into_raw_parts();
    let their_set = shortint::client_key_from_tfhe(shortint_client, cloakwork_params::KeyId([7; 16])).unwrap();
    assert_eq!(their_set.sets().map(|set| set.name).collect::<Vec<_>>(), [set.name]);
    assert_eq!(parameters::shortint(set).unwrap().max_noise_level(), key.max_noise_level);
    let ours = EvaluationKeys::<u64, u64>::from_shortint(set, key).unwrap().expand(2).unwrap();

    // Our server replaces each block's message m by 3 - m, which inverts all bits. tfhe-rs then
    // adds one, which negates the number.
    let number = 0b01_10_00_11_u8;
    let (radix, id, tag, metadata) = FheUint8::encrypt(number, &client).into_raw_parts();
    let blocks = shortint::ciphertexts_from_tfhe(set, radix.blocks()).unwrap();
    let lut = Lut::from_fn(set, |value| 3 - value % 4).unwrap();
    let mut outputs = LweList::zeros(set.input_dimension(), blocks.len());
    ours.bootstrap(&blocks, &vec![&lut; blocks.len()], &mut outputs, &mut [ours.scratch()]).unwrap();
    let blocks = shortint::ciphertexts_into_tfhe(set, &outputs, 3).unwrap();
    let complement = FheUint8::from_raw_parts(blocks.into(), id, tag, metadata);
    let bits: u8 = complement.decrypt(&client);
    assert_eq!(bits, !number);
    let negated: u8 = (complement + 1_u8).decrypt(&client);
    assert_eq!(negated, number.wrapping_neg());
}
