//! Serialization of CKKS keys and ciphertexts: objects that are read back work like the originals.

use cloakwork_ckks::{
    Bootstrap, BootstrapKeys, Ciphertext, CkksError, Complex, Evaluator, KeyPart, KeyPlan, KeySize, Ring,
    SeededCiphertext,
    bootstrap::SeededBootstrapKeys,
    format::{FormatError, WireObject, decode, encode},
    key::conjugation_power,
};
use cloakwork_params::{
    EnvelopeReader, KeyId,
    ckks::{self, layout::Purpose},
};
use cloakwork_secret::{
    Randomness,
    ckks::{KeyGenerator, SecretKey},
};
use proptest::prelude::*;

const SETS: [&str; 2] = ["TOY_CKKS_54_60", "TOY_CKKS_45_60_50"];

fn ring(set: &str) -> Ring {
    Ring::new(ckks::by_name(set).expect("a set"))
}

fn client(ring: &Ring) -> (SecretKey, Randomness) {
    let mut randomness = Randomness::insecure_for_tests(3);
    (SecretKey::generate(ring.set(), &mut randomness).expect("a key"), randomness)
}

fn bytes<O: WireObject>(object: &O, ring: &Ring, key_id: KeyId) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(object, ring, key_id, &mut bytes).expect("an object of the set");
    bytes
}

fn read<O: WireObject>(bytes: &[u8], ring: &Ring, key_id: KeyId) -> O {
    decode(bytes, ring, Some(key_id)).expect("what was written").object
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn stored_ciphertexts_decrypt_to_equal_numbers(set in 0..2_usize, slots_log2 in 0..=9_u32, level in 0..=14_usize, seed: u8) {
        let ring = ring(SETS[set]);
        let (key, mut randomness) = client(&ring);
        let numbers: Vec<Complex> =
            (0..1 << slots_log2).map(|at| Complex::at_turn(f64::from(seed) + 0.37 * f64::from(at))).collect();
        let seeded = key.encrypt_seeded(&ring, &numbers, level, &mut randomness).expect("encryption");
        let stored = bytes(&seeded, &ring, key.key_id());
        prop_assert_eq!(stored.len() as u64, 144 + ring.set().packed_bytes(level, 0));
        let again: SeededCiphertext = read(&stored, &ring, key.key_id());
        prop_assert_eq!((again.seed, again.scale.to_bits(), again.slots_log2), (seeded.seed, seeded.scale.to_bits(), slots_log2));
        prop_assert!(again.body.words() == seeded.body.words());
        let ciphertext = seeded.expand(&ring).expect("a ciphertext of the ring");
        prop_assert!(again.expand(&ring).expect("the same").polys[1].words() == ciphertext.polys[1].words());
        // Computations leave a scale that is not a power of two.
        let ciphertext = Ciphertext { scale: ciphertext.scale * 1.000_123, ..ciphertext };
        let again: Ciphertext = read(&bytes(&ciphertext, &ring, key.key_id()), &ring, key.key_id());
        prop_assert_eq!(again.scale.to_bits(), ciphertext.scale.to_bits());
        let before = key.decrypt(&ring, &ciphertext).expect("decryption");
        prop_assert_eq!(key.decrypt(&ring, &again).expect("decryption"), before);
    }
}

#[test]
fn stored_parts_of_one_plan_serve_two_bootstraps() {
    let ring = ring("TOY_CKKS_45_60_50");
    let (key, mut randomness) = client(&ring);
    let full = Bootstrap::new(&ring, 9, 3, KeySize::Medium).expect("a bootstrap");
    let sparse = Bootstrap::new(&ring, 4, 2, KeySize::Medium).expect("a bootstrap");
    let mut plan = KeyPlan::default();
    for bootstrap in [&full, &sparse] {
        plan.bootstrap(&ring, bootstrap.shape()).expect("a bootstrap of the ring");
    }
    plan.rotation(&ring, 0, 5);
    plan.rotation(&ring, 3, 5);
    let shapes: Vec<_> = plan.shapes().collect();
    assert!(shapes.is_sorted() && shapes.iter().all(|shape| shape.purpose != Purpose::Move { power: 1 }));
    let generator = KeyGenerator::new(&key, &ring);
    let parts = generator.parts(&plan, &mut randomness).expect("a sparse secret");
    let stored: Vec<Vec<u8>> = parts.map(|part| bytes(&part.expect("a part"), &ring, key.key_id())).collect();
    assert_eq!(stored.len(), shapes.len());
    for (bytes, shape) in stored.iter().zip(&shapes) {
        let header = EnvelopeReader::open(&bytes[..]).expect("an envelope").header().clone();
        assert_eq!(ckks::layout::KeyShape::of(ring.set(), &header.dimensions), Ok(*shape));
        assert_eq!(header.payload_len + 144, bytes.len() as u64);
    }
    let part = |bytes: &Vec<u8>| read::<KeyPart>(bytes, &ring, key.key_id());
    let seeded = SeededBootstrapKeys::of_parts(stored.iter().map(part)).expect("all parts");
    let mut again: Vec<_> = seeded.into_parts().map(|part| part.shape()).collect();
    again.sort_unstable();
    assert_eq!(again, shapes);
    // One sparse secret serves both bootstraps.
    let seeded = SeededBootstrapKeys::of_parts(stored.iter().map(part)).expect("all parts");
    let keys = BootstrapKeys::expand(&ring, seeded).expect("keys of the ring");
    for (bootstrap, slots) in [(&full, 512), (&sparse, 16)] {
        let numbers: Vec<Complex> = (0..slots).map(|at| Complex::at_turn((at * at) as f64 * 0.618)).collect();
        let x = key.encrypt(&ring, &numbers, 0, &mut randomness).expect("encryption");
        let y = Evaluator::new(&ring, 1).bootstrap(&x, bootstrap, &keys).expect("a bootstrap");
        let got = key.decrypt(&ring, &y).expect("decryption");
        let worst = got.iter().zip(&numbers).map(|(a, b)| (*a - *b).magnitude()).fold(0.0, f64::max);
        assert!(worst < 2_f64.powi(-12), "{worst}");
    }
}

#[test]
fn missing_and_duplicate_parts_are_named() {
    let ring = ring("TOY_CKKS_54_60");
    let (key, mut randomness) = client(&ring);
    let bootstrap = Bootstrap::new(&ring, 2, 1, KeySize::Medium).expect("a bootstrap");
    let mut plan = KeyPlan::default();
    plan.bootstrap(&ring, bootstrap.shape()).expect("a bootstrap of the ring");
    let generator = KeyGenerator::new(&key, &ring);
    let mut make = |purposes: &[Purpose]| -> Vec<KeyPart> {
        let parts = generator.parts(&plan, &mut randomness).expect("a sparse secret");
        parts.map(|part| part.expect("a part")).filter(|part| purposes.contains(&part.purpose)).collect()
    };
    let conjugation = Purpose::Move { power: conjugation_power(&ring) };
    let all = [Purpose::Relinearization, Purpose::ToSparse, Purpose::ToDense, conjugation];
    for (index, purpose) in all.into_iter().enumerate() {
        let others: Vec<Purpose> = all.iter().copied().filter(|other| *other != purpose).collect();
        let refused = SeededBootstrapKeys::of_parts(make(&others)).err();
        // The keys of a bootstrap do not record which rotations and conjugations it needs.
        let expected = (index < 3).then(|| CkksError::MissingKey { what: purpose.to_string() });
        assert_eq!(refused, expected);
        let twice = make(&all).into_iter().chain(make(&[purpose]));
        let expected = Some(CkksError::DoubleKey { what: purpose.to_string() });
        assert_eq!(SeededBootstrapKeys::of_parts(twice).err(), expected);
    }
}

#[test]
fn objects_that_could_not_be_read_back_are_not_written() {
    let ring = ring("TOY_CKKS_45_60_50");
    let (key, mut randomness) = client(&ring);
    let generator = KeyGenerator::new(&key, &ring);
    let mut made = |spoil: fn(&mut KeyPart)| {
        let mut plan = KeyPlan::default();
        plan.products(7);
        let mut parts = generator.parts(&plan, &mut randomness).expect("a sparse secret");
        let mut part = parts.next().expect("one part").expect("a part");
        spoil(&mut part);
        encode(&part, &ring, key.key_id(), std::io::sink()).err()
    };
    assert_eq!(made(|_| {}), None);
    assert!(matches!(made(|part| part.purpose = Purpose::ToDense), Some(FormatError::Object(_))));
    assert!(matches!(made(|part| part.purpose = Purpose::ToSparse), Some(FormatError::Envelope(_))));
    assert!(matches!(made(|part| part.purpose = Purpose::Move { power: 4 }), Some(FormatError::Envelope(_))));
    assert!(matches!(made(|part| part.key.basis.special = 1), Some(FormatError::Object(_))));
    assert!(matches!(made(|part| part.key.basis.level = 6), Some(FormatError::WrongBasis)));
    assert!(matches!(made(|part| part.key.bodies.truncate(1)), Some(FormatError::Object(_))));
    assert!(matches!(made(|part| part.key.seed.byte = 16), Some(FormatError::Envelope(_))));
    let refused = made(|part| part.key.bodies[1].row_mut(2)[9] = u64::MAX);
    assert!(matches!(refused, Some(FormatError::ResidueTooLarge { row: 2, index: 9, .. })), "{refused:?}");
    let x = key.encrypt(&ring, &[Complex::ZERO], 3, &mut randomness).expect("encryption");
    let spoilt: [Ciphertext; 4] = [
        Ciphertext { scale: f64::NAN, ..x.clone() },
        Ciphertext { scale: 0.0, ..x.clone() },
        Ciphertext { slots_log2: 10, ..x.clone() },
        Ciphertext { polys: [x.polys[0].clone(), x.polys[1].at_level(2)], ..x },
    ];
    for ciphertext in spoilt {
        assert!(encode(&ciphertext, &ring, key.key_id(), std::io::sink()).is_err());
    }
}
