//! Generates the known-answer vectors: `cargo run -p cloakwork-device --example vectors`.
//!
//! The answers are computed from the secret key and the plaintexts, and by no device. Every run
//! produces identical bytes.

#![forbid(unsafe_code)]

use std::{error::Error, fs, path::Path};

use cloakwork_params::{CiphertextInfo, Encoding, KeyId, ParameterSet, table};
use cloakwork_secret::{ClientKey, GlweSecretKey, KeyGenerator, LweSecretKey, Randomness};
use cloakwork_tfhe::{
    KeySwitchKey, LweList, Torus,
    format::{CiphertextList, WireObject, encode},
    key_switch::key_switch,
    modulus_switch::modulus_switch,
};

const KEY_ID: KeyId = KeyId([0x7e; 16]);
const INPUTS: u64 = 8;

fn main() -> Result<(), Box<dyn Error>> {
    vector::<u64, u64>("TOY_MESSAGE_2_CARRY_2")?;
    vector::<u64, u32>("TOY_MESSAGE_2_CARRY_2_KS32")?;
    vector::<u64, u64>("TOY_MULTI_BIT_GROUP_2_MESSAGE_2_CARRY_2")?;
    vector::<u64, u64>("TOY_MESSAGE_2_CARRY_2_N2048")?;
    vector::<u32, u32>("TOY_BOOLEAN_KS_PBS")?;
    vector::<u32, u32>("TOY_BOOLEAN_KS_PBS_N1024")
}

fn vector<T: Torus, S: Torus>(name: &str) -> Result<(), Box<dyn Error>> {
    let set = table::by_name(name).ok_or("no such set")?;
    let mut randomness = Randomness::insecure_for_tests(u64::from(set.id.0));
    // The only 1 bit is in the first place, so that a phase is the body minus the first word.
    let mut bits = vec![0; set.big_dimension()];
    bits[0] = 1;
    let big = GlweSecretKey::from_bits(set.polynomial_size, bits)?;
    let small = LweSecretKey::generate(set.lwe_dimension, randomness.secret());
    let client = ClientKey::from_parts(KEY_ID, set, big, small)?;
    let generator = KeyGenerator::new(&client, set)?;
    let switch = generator.key_switch_key::<S>(&mut randomness)?;
    write(name, "key_switch", &switch, set)?;
    write(name, "bootstrap", &generator.bootstrap_key::<T>(&mut randomness)?, set)?;

    let values = if set.encoding == Encoding::Boolean { 2 } else { INPUTS };
    let messages: Vec<u64> = (0..INPUTS).map(|message| message % values).collect();
    let inputs: LweList<T> = client.encrypt(set, &messages, &mut randomness)?;
    let switch = KeySwitchKey::expand(&switch, 1);
    let mut expected = Vec::new();
    for (message, input) in messages.iter().zip(inputs.iter()) {
        expected.push(ramp::<T>(set, exponent(set, &client, &switch, input)?));
        expected.extend(tables(set, *message));
    }
    let bytes: Vec<u8> = expected.iter().flat_map(|phase| phase.to_le_bytes()).collect();
    fs::write(path(name, "expected"), bytes)?;
    let info = vec![CiphertextInfo::fresh(set); inputs.len()];
    write(name, "inputs", &CiphertextList::new(inputs, info)?, set)
}

/// The phase modulo 2N after the key switch and the modulus switch. Both are exact.
fn exponent<T: Torus, S: Torus>(
    set: &ParameterSet,
    client: &ClientKey,
    key: &KeySwitchKey<S>,
    input: &[T],
) -> Result<u64, Box<dyn Error>> {
    let bits = client.small(set)?.bits();
    let log2 = set.rotation_modulus_log2();
    let mut small = vec![S::default(); set.lwe_dimension + 1];
    key_switch(key, input, &mut small, &mut Default::default())?;
    let mut exponents = vec![0; small.len()];
    if set.grouping == 1 {
        modulus_switch(set.modulus_switch, log2, &small, &mut exponents);
        let mask = exponents.iter().zip(bits).filter(|(_, bit)| **bit == 1).map(|(exponent, _)| *exponent);
        let sum = mask.fold(0u32, u32::wrapping_add);
        return Ok(u64::from(exponents[set.lwe_dimension].wrapping_sub(sum) % (1 << log2)));
    }
    // Multi-bit: the chosen words of a group are added up before rounding.
    let round = |word: S| word.round_to_modulus(log2) as u32;
    let groups = small.chunks_exact(set.grouping).zip(bits.chunks_exact(set.grouping));
    let sum = groups.map(|(words, bits)| {
        let chosen = words.iter().zip(bits).filter(|(_, bit)| **bit == 1).map(|(word, _)| *word);
        round(chosen.fold(S::default(), S::wrapping_add))
    });
    let sum = sum.fold(0u32, u32::wrapping_add);
    Ok(u64::from(round(small[set.lwe_dimension]).wrapping_sub(sum) % (1 << log2)))
}

/// Result of the ramp table, which rises by half a rotation step per exponent. The result is
/// negative in the upper half of the torus.
fn ramp<T: Torus>(set: &ParameterSet, exponent: u64) -> u64 {
    let step = 1u64 << (T::BITS - 1 - set.rotation_modulus_log2());
    let size = set.polynomial_size as u64;
    match exponent < size {
        true => exponent * step,
        false => T::from_u64((exponent - size) * step).wrapping_neg().to_u64(),
    }
}

fn tables(set: &ParameterSet, message: u64) -> Vec<u64> {
    match set.encoding {
        Encoding::Boolean => vec![if message == 1 { 1 << 29 } else { (1u32 << 29).wrapping_neg().into() }],
        Encoding::Shortint { .. } => {
            [(5 * message + 3) % 16, 15 - message, message * message % 16].map(|value| value << 59).into()
        }
    }
}

fn write<O: WireObject>(name: &str, what: &str, object: &O, set: &ParameterSet) -> Result<(), Box<dyn Error>> {
    let mut bytes = Vec::new();
    encode(object, set, KEY_ID, &mut bytes)?;
    Ok(fs::write(path(name, what), bytes)?)
}

fn path(name: &str, what: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors").join(format!("{name}.{what}"))
}
