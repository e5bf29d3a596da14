//! The encoder refuses objects that no decoder accepts.

use cloakwork_math::random::MaskSeed;
use cloakwork_params::{EnvelopeError, ParameterSet, table};
use cloakwork_tests_formats::KEY_ID;
use cloakwork_tfhe::{
    LweList, SeededKeySwitchKey, SeededLweList,
    format::{CiphertextInfo, CiphertextList, FormatError, WireObject, encode},
};

fn set(name: &str) -> &'static ParameterSet {
    table::by_name(name).expect("a row of the table")
}

fn refusal(object: &impl WireObject, set: &ParameterSet) -> FormatError {
    encode(object, set, KEY_ID, std::io::sink()).expect_err("must be refused")
}

fn one_ciphertext(dimension: usize, degree: u32, noise_level: u32) -> CiphertextList<LweList<u64>> {
    CiphertextList::new(LweList::zeros(dimension, 1), vec![CiphertextInfo { degree, noise_level }]).expect("one entry")
}

#[test]
fn an_object_of_another_set_is_refused() {
    let error = EnvelopeError::WrongDimension { which: "LWE dimension", expected: 256, got: 255 };
    assert_eq!(refusal(&one_ciphertext(255, 0, 0), set("TOY_MESSAGE_2_CARRY_2")), error.into());
    let error = EnvelopeError::WrongDimension { which: "log2 of the modulus", expected: 32, got: 64 };
    assert_eq!(refusal(&one_ciphertext(16, 0, 0), set("TOY_BOOLEAN")), error.into());
}

#[test]
fn bookkeeping_that_the_set_does_not_allow_is_refused() {
    let error = |what, limit, got| FormatError::ValueOutOfRange { what, index: 0, limit, got };
    let toy = set("TOY_MESSAGE_2_CARRY_2");
    assert_eq!(refusal(&one_ciphertext(256, 16, 0), toy), error("degree", 15, 16));
    assert_eq!(refusal(&one_ciphertext(256, 15, 6), toy), error("noise level", 5, 6));
    assert!(CiphertextList::new(LweList::<u64>::zeros(256, 2), Vec::new()).is_err());
}

#[test]
fn words_that_are_not_values_of_their_modulus_are_refused() {
    let toy = set("TOY_MESSAGE_2_CARRY_2_KS32");
    let mut bodies = vec![1_u32 << 11; toy.big_dimension() * toy.key_switch.levels];
    bodies[77] += 1 << 10;
    let (input, output, gadget) = (toy.big_dimension(), toy.lwe_dimension, toy.key_switch);
    let seed = MaskSeed { key: 0, block: 0, byte: 0 };
    let key = SeededKeySwitchKey::new(input, output, gadget, 21, seed, bodies).expect("a body for each digit");
    assert_eq!(refusal(&key, toy), FormatError::LowBitsNotZero { index: 77, modulus_log2: 21 });
    // Values of moduli up to 2^32 are not encoded in wider words.
    let wide = vec![0_u64; input * gadget.levels];
    let key = SeededKeySwitchKey::new(input, output, gadget, 21, seed, wide).expect("a body for each digit");
    assert_eq!(refusal(&key, toy), FormatError::WrongWord { expected: 32, got: 64 });
}

#[test]
fn a_seed_that_no_decoder_accepts_is_refused() {
    let toy = set("TOY_MESSAGE_2_CARRY_2");
    let list = SeededLweList::new(256, MaskSeed { key: 0, block: 0, byte: 16 }, Vec::<u64>::new());
    let list = CiphertextList::new(list.expect("a set's dimension"), Vec::new()).expect("no entries");
    assert_eq!(refusal(&list, toy), EnvelopeError::SeedOutOfRange { got: 16 }.into());
}
