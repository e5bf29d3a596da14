//! The keys that a bootstrap uses: all planned keys and no others.

use cloakwork_ckks::{
    Bootstrap, BootstrapKeys, BootstrapKind, BootstrapShape, CkksError, Evaluator, KeyPlan, KeySize, Ring, SwitchKey,
    bootstrap::SeededBootstrapKeys,
    key::{MoveKey, conjugation_power, rotation_power},
};
use cloakwork_params::ckks::{self, key_use::KeyUse};
use cloakwork_secret::{
    Randomness,
    ckks::{KeyGenerator, SecretKey},
};

use crate::client::numbers;

/// The shapes of a toy set that correspond to the tables in the documentation of DESILO's library:
/// numbers of slots, each with its numbers of stages.
fn shapes() -> Vec<BootstrapShape> {
    let stages = |slots_log2: u32| match slots_log2 {
        ..=3 => 1..=1,
        4..=5 => 1..=2,
        6 => 2..=2,
        _ => 2..=3,
    };
    let mut shapes = Vec::new();
    for slots_log2 in 1..=9 {
        for stages in stages(slots_log2) {
            for size in [KeySize::Small, KeySize::Medium, KeySize::Large] {
                let kinds = [BootstrapKind::Regular, BootstrapKind::Lossy];
                shapes.extend(kinds.map(|kind| BootstrapShape { slots_log2, stages, size, kind }));
            }
        }
    }
    shapes
}

/// The keys planned without the matrices are those that a bootstrap uses: no additional key, and no
/// key for a higher level than necessary.
#[test]
fn bootstraps_use_exactly_the_planned_keys() {
    let set = ckks::by_name("TOY_CKKS_45_60_50").expect("a set");
    let ring = Ring::new(set);
    let mut randomness = Randomness::insecure_for_tests(7);
    let key = SecretKey::generate(set, &mut randomness).expect("a key");
    for shape in shapes() {
        let bootstrap = Bootstrap::of(&ring, shape, 2).expect("a bootstrap");
        assert_eq!(shape.matrix_bytes(set), bootstrap.bytes() as u64, "{shape:?}");
        let mut plan = KeyPlan::default();
        plan.bootstrap(&ring, shape).expect("a bootstrap");
        let generator = KeyGenerator::new(&key, &ring);
        let parts = generator.parts(&plan, &mut randomness).expect("keys").collect::<Result<Vec<_>, _>>();
        let parts = SeededBootstrapKeys::of_parts(parts.expect("keys")).expect("a key for each purpose");
        let mut keys = BootstrapKeys::expand(&ring, parts).expect("keys of the ring");

        let plain = numbers(1 << shape.slots_log2, 5);
        let x = key.encrypt(&ring, &plain, shape.level_in(), &mut randomness).expect("encryption");
        let compute = |keys: &BootstrapKeys| Evaluator::new(&ring, 1).bootstrap(&x, &bootstrap, keys);
        let y = compute(&keys).expect("all keys are there");
        let got = key.decrypt(&ring, &y).expect("decryption");
        let worst = got.iter().zip(&plain).map(|(a, b)| (*a - *b).magnitude()).fold(0.0, f64::max);
        assert!(worst < 2_f64.powi(-13), "{shape:?}: {worst}");

        for (purpose, level) in shape.keys(set) {
            // A key that is one level too low. Below the lowest level, the key is missing.
            let (power, lower) = match (purpose, level.checked_sub(1)) {
                (KeyUse::ToSparse | KeyUse::ToDense, _) => continue,
                (KeyUse::Multiplication, below) => {
                    (None, below.map(|below| generator.relinearization(below, &mut randomness).expect("a key")))
                }
                (KeyUse::Conjugation, below) => {
                    let lower = below.map(|below| generator.conjugation(below, &mut randomness).expect("a key").1);
                    (Some(conjugation_power(&ring)), lower)
                }
                (KeyUse::Rotation { steps, .. }, below) => {
                    let steps = steps as i64;
                    let lower = below.map(|below| generator.rotation(steps, below, &mut randomness).expect("a key").1);
                    (Some(rotation_power(&ring, steps)), lower)
                }
            };
            let lower = lower.map(|key| SwitchKey::expand(&ring, key).expect("a key of the ring"));
            let evaluation = &mut keys.evaluation;
            let refused = match power {
                None => {
                    let own = std::mem::replace(&mut evaluation.relinearization, lower);
                    let refused = compute(&keys).err();
                    keys.evaluation.relinearization = own;
                    refused
                }
                Some(power) => {
                    let own = evaluation.moves.remove(&power).expect("a key that was planned");
                    let lower = lower.map(|key| MoveKey::new(&ring, power, key).expect("a key that moves"));
                    evaluation.moves.extend(lower.map(|key| (power, key)));
                    let refused = compute(&keys).err();
                    keys.evaluation.moves.insert(power, own);
                    refused
                }
            };
            let is_refused = matches!(refused, Some(CkksError::LevelTooHigh { .. } | CkksError::MissingKey { .. }));
            assert!(is_refused, "{shape:?} with no key for {purpose} at level {level}: {refused:?}");
        }
    }
}
