//! Keys of this crate, used by the evaluation crate: encrypt, bootstrap, decrypt.

use crate::common::*;
use cloakwork_math::Torus;
use cloakwork_params::{Encoding, ParameterSet, table};
use cloakwork_secret::{ClientKey, KeyGenerator, Randomness};
use cloakwork_tfhe::{Lut, LweList, ServerKey};

fn bootstrap<S: Torus>(set: &'static ParameterSet) {
    let mut randomness = Randomness::insecure_for_tests(u64::from(set.id.0));
    let client = ClientKey::generate(set, &mut randomness).unwrap();
    let generator = KeyGenerator::new(&client, set).unwrap();
    let (key_switch, key) = generator.server_key::<u64, S>(&mut randomness).unwrap();
    let server = ServerKey::expand(set, &key_switch, &key, 2).unwrap();
    let Encoding::Shortint { message_modulus, carry_modulus, .. } = set.encoding else { panic!("not a shortint set") };
    let space = message_modulus * carry_modulus;
    let messages: Vec<u64> = (0..space.min(8)).map(|index| index * space / space.min(8)).collect();
    let function = |message: u64| (3 * message + 1) % space;
    let lut = Lut::from_fn(set, function).unwrap();
    let inputs: LweList<u64> = client.encrypt(set, &messages, &mut randomness).unwrap();
    let mut outputs = LweList::zeros(set.input_dimension(), messages.len());
    server
        .bootstrap(&inputs, &vec![&lut; messages.len()], &mut outputs, &mut [server.scratch(), server.scratch()])
        .unwrap();
    let expected: Vec<u64> = messages.iter().map(|&message| function(message)).collect();
    assert_eq!(client.decrypt(set, &outputs).unwrap(), expected, "{}", set.name);
}

#[test]
fn bootstraps_decrypt_to_the_table() {
    for name in ["TOY_MESSAGE_2_CARRY_2", CLASSICAL_2_2, "V1_8_PARAM_MESSAGE_1_CARRY_1_KS_PBS_TUNIFORM_2M128"] {
        bootstrap::<u64>(set(name));
    }
    for group in ["GROUP_2", "GROUP_3", "GROUP_4"] {
        bootstrap::<u64>(set_like(&["TOY", group]));
    }
    bootstrap::<u64>(set_like(&["GROUP_4", "MESSAGE_2_CARRY_2", "TUNIFORM"]));
    bootstrap::<u32>(set(KS32_2_2));
    bootstrap::<u32>(set_like(&["HPU", "KS32"]));
}

#[test]
fn fresh_ciphertexts_of_every_set_decrypt_and_have_the_noise_of_the_table() {
    for set in table::SETS {
        let mut randomness = Randomness::insecure_for_tests(u64::from(set.id.0));
        let client = ClientKey::generate(set, &mut randomness).unwrap();
        match set.encoding {
            Encoding::Shortint { message_modulus, carry_modulus, .. } => {
                round_trip::<u64>(&client, set, message_modulus * carry_modulus, &mut randomness);
            }
            Encoding::Boolean => round_trip::<u32>(&client, set, 2, &mut randomness),
        }
    }
}

fn round_trip<T: Torus>(client: &ClientKey, set: &'static ParameterSet, space: u64, randomness: &mut Randomness) {
    // The masks of the 4_4 sets have 65536 words.
    let count = (1 << 21) / set.input_dimension() as u64;
    let messages: Vec<u64> = (0..count.clamp(space, 4096)).map(|index| index % space).collect();
    let list: LweList<T> = client.encrypt(set, &messages, randomness).unwrap();
    assert_eq!(client.decrypt(set, &list).unwrap(), messages, "{}", set.name);
    let seeded = client.encrypt_seeded::<T>(set, &messages, randomness).unwrap();
    assert_eq!(client.decrypt(set, &seeded.expand()).unwrap(), messages, "{}", set.name);

    let report = client.noise(set, &list, &messages).unwrap();
    let nominal = match set.order {
        cloakwork_params::Order::KeySwitchFirst => set.glwe_noise,
        cloakwork_params::Order::BootstrapFirst => set.lwe_noise,
    };
    let unit = 0.5_f64.powi(T::BITS as i32);
    let variance = match nominal {
        cloakwork_params::Noise::Gaussian { std_dev } => std_dev.powi(2) + unit * unit / 12.0,
        cloakwork_params::Noise::TUniform { bound_log2 } => {
            (2.0 * 4_f64.powi(bound_log2 as i32) + 1.0) / 6.0 * unit * unit
        }
    };
    // The bound is six standard deviations of either statistic, on fixed seeds.
    let count = messages.len() as f64;
    assert!(report.mean.abs() < 6.0 * (variance / count).sqrt(), "{}: {report:?}", set.name);
    assert!((report.variance / variance - 1.0).abs() < 6.0 * (2.0 / count).sqrt(), "{}: {report:?}", set.name);
    assert!(report.max >= report.variance.sqrt() && report.count == messages.len());
}
