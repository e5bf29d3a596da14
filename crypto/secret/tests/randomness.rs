//! Independence of public seeds and secrets.

use std::collections::HashSet;

use crate::common::*;
use cloakwork_params::{Noise, table};
use cloakwork_secret::{ClientKey, KeyGenerator, Randomness};

/// All values that one client makes: secrets, noise and seeds.
#[derive(PartialEq)]
struct Made {
    bits: Vec<u8>,
    noise: Vec<u64>,
    seeds: Vec<u128>,
}

fn make(randomness: &mut Randomness) -> Made {
    let toy = set("TOY_MESSAGE_2_CARRY_2");
    let client = ClientKey::generate(toy, randomness).unwrap();
    let keys = KeyGenerator::new(&client, toy).unwrap();
    let (key_switch, bootstrap) = keys.server_key::<u64, u64>(randomness).unwrap();
    let public = keys.compact_public_key::<u64>(randomness).unwrap();
    let messages = [0; 100];
    let list = client.encrypt_seeded::<u64>(toy, &messages, randomness).unwrap();
    let again = client.encrypt_seeded::<u64>(toy, &messages, randomness).unwrap();

    let mut noise = client.phases(toy, &list.expand()).unwrap();
    noise.extend(client.phases(toy, &again.expand()).unwrap());
    // The last row of each GGSW ciphertext is a GLWE encryption of a constant. All its other
    // coefficients are noise.
    let size = toy.polynomial_size;
    let masks = masks::<u64>(bootstrap.seed(), 64, bootstrap.bodies().len());
    for (mask, body) in masks.chunks(size).zip(bootstrap.bodies().chunks(size)).skip(1).step_by(2) {
        noise.extend(&glwe_phase(client.big().bits(), size, mask, body)[1..]);
    }
    // The noise of the key-switch key is the part of the phases below the smallest weight of the
    // gadget.
    let small = client.small(toy).unwrap();
    let masks = crate::common::masks::<u64>(key_switch.seed(), 64, key_switch.bodies().len() * small.dimension());
    let least = 64 - toy.key_switch.base_log * toy.key_switch.levels as u32;
    for (mask, body) in masks.chunks(small.dimension()).zip(key_switch.bodies()) {
        let phase = small.phase(&[mask, &[*body]].concat()).unwrap();
        noise.push(phase.wrapping_add(1 << (least - 1)) & ((1 << least) - 1));
    }
    let seeds = [*key_switch.seed(), *bootstrap.seed(), *public.seed(), *list.seed(), *again.seed()];
    let seeds = seeds.map(|seed| seed.key).into_iter().chain([u128::from_le_bytes(client.key_id().0)]).collect();
    let bits = [client.big().bits(), client.small(toy).unwrap().bits()].concat();
    Made { bits, noise, seeds }
}

/// The secret source alone determines secrets and noise, and the public source alone determines
/// seeds and key ids. If one source changes, all of its values change and those of the other do
/// not.
#[test]
fn secrets_and_seeds_come_from_independent_sources() {
    let base = make(&mut Randomness::insecure_parts_for_tests(1, 2));
    let other_public = make(&mut Randomness::insecure_parts_for_tests(1, 3));
    assert!(base.bits == other_public.bits && base.noise == other_public.noise);
    assert!(base.seeds.iter().zip(&other_public.seeds).all(|(one, two)| one != two));

    let other_secret = make(&mut Randomness::insecure_parts_for_tests(4, 2));
    assert_eq!(base.seeds, other_secret.seeds);
    assert!(base.bits != other_secret.bits);
    let same = base.noise.iter().zip(&other_secret.noise).filter(|(one, two)| one == two).count();
    // Noise is uniform on 2^18 values or more here.
    assert!(same < base.noise.len() / 100, "{same} of {} values of noise agree", base.noise.len());
}

#[test]
fn every_object_has_a_seed_of_its_own() {
    let mut seen = HashSet::new();
    for source in 0..20 {
        let mut randomness = match source {
            0..10 => Randomness::from_os().unwrap(),
            _ => Randomness::insecure_for_tests(source),
        };
        for _ in 0..2 {
            let made = make(&mut randomness);
            assert!(made.seeds.into_iter().all(|seed| seen.insert(seed)), "a seed was used twice");
        }
    }
    assert_eq!(seen.len(), 20 * 2 * 6);
}

#[test]
fn compression_keys_have_seeds_of_their_own() {
    let toy = set(CLASSICAL_2_2);
    let compression = table::compression_for(toy).unwrap();
    let mut randomness = Randomness::from_os().unwrap();
    let mut client = ClientKey::generate(toy, &mut randomness).unwrap();
    client.add_compression(compression, &mut randomness).unwrap();
    let keys = KeyGenerator::new(&client, toy).unwrap();
    let packing = keys.packing_key::<u64>(compression, &mut randomness).unwrap();
    let decompression = keys.decompression_key(compression, &mut randomness).unwrap();
    assert_ne!(packing.seed(), decompression.0.seed());
}

/// Tests the check itself: errors that mirror those of another item have the correct variance and
/// no repeated run.
#[test]
#[should_panic(expected = "correlate by -")]
fn errors_that_mirror_others_are_noticed() {
    let noise = Noise::TUniform { bound_log2: 17 };
    let mut item = vec![0_u64; 1024];
    Randomness::insecure_for_tests(1).secret().add_noise(noise, 64, &mut item);
    let mirrored: Vec<u64> = item.iter().map(|error| error.wrapping_neg()).collect();
    let mut errors = Errors::new(64);
    errors.extend(&item, &[0; 1024]);
    errors.extend(&mirrored, &[0; 1024]);
    errors.assert_follow(noise, 1024, "mirrored");
}
