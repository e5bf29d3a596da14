//! Self-test with a known answer: a unit must pass it before it is given work.
//!
//! The secret is the constant 1, which is public. A ciphertext's numbers are then the sum of body
//! and mask. Neither making the keys nor checking the results needs a secret that could decrypt a
//! client's data. The masks are uniform like any others. The sum is therefore right only if every
//! part of the key switches and bootstraps is right.

use cloakwork_circuit::{
    ckks::{LIMITS, Program},
    wire::{
        self, Operation,
        operation::{
            Bootstrap as WireBootstrap, Kind,
            bootstrap::{Kind as WireKind, Size},
        },
    },
};
use cloakwork_ckks::{
    Basis, Ciphertext, CkksError, Complex, Gadget, KeyPart, Ring,
    key::{SeededSwitchKey, fill_uniform, masks},
};
use cloakwork_device::{DeviceError, KeySlot, Row, RowError, RowResult, VectorUnit};
use cloakwork_math::random::MaskSeed;
use cloakwork_params::ckks::{CkksSet, by_name, layout::KeyShape};
use prost::Message as _;

use crate::ring;

/// Why a unit must not be given work.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SelfTestError {
    /// The program could not be run.
    #[error("self-test of {set}: {problem}")]
    Failed {
        /// Parameter set.
        set: &'static str,
        /// Cause of the failure.
        problem: RowError,
    },
    /// A number came out wrong.
    #[error("self-test of {set}: number {index} is off by {error:e}")]
    Wrong {
        /// Parameter set.
        set: &'static str,
        /// Index of the number.
        index: usize,
        /// Absolute error of the number.
        error: f64,
    },
}

/// Toy sets, over a small ring, that together use the primes of all served sets.
const SETS: [&str; 2] = ["TOY_CKKS_45_60_50", "TOY_CKKS_54_60"];
const SLOTS_LOG2: u32 = 9;
/// Bound on the error. After a bootstrap, numbers are exact to 14 bits and more.
const ERROR_MAX: f64 = 1.0 / (1 << 13) as f64;

/// Runs a program with a product, a rotation, a conjugate, a matrix and bootstraps under each set.
/// The regular bootstrap shares work among its rotations where it can. The lossy bootstrap, of two
/// vectors, does its rotations one after the other. As soon as the answer under a set is right, the
/// test calls `proven` for all sets of the unit with the same primes.
pub fn self_test(unit: &dyn VectorUnit, mut proven: impl FnMut(&'static CkksSet)) -> Result<(), SelfTestError> {
    let served = unit.sets();
    for name in SETS {
        let set = by_name(name).expect("a row of the table");
        let program = program(set);
        let parts = program
            .keys()
            .iter()
            .map(|need| part(ring(set), KeyShape { purpose: need.purpose.purposes(set)[0], level: need.level }));
        test(unit, &program, parts.collect())?;
        let is_like = |other: &&&'static CkksSet| (other.chain, other.special) == (set.chain, set.special);
        served.iter().filter(is_like).for_each(|set| proven(set));
    }
    Ok(())
}

fn test(unit: &dyn VectorUnit, program: &Program, parts: Vec<KeyPart>) -> Result<(), SelfTestError> {
    let set = program.set();
    let failed = |problem| SelfTestError::Failed { set: set.name, problem };
    let object = |problem: CkksError| failed(RowError::Step { operation: 0, problem });
    let ring = ring(set);
    let numbers: Vec<[f64; 2]> =
        (0..1 << SLOTS_LOG2).map(|at| [(at * 29 % 97) as f64 / 128.0, (at * 53 % 89) as f64 / -128.0]).collect();
    let input = encrypted(ring, &numbers, program.inputs()[0].vector.level).map_err(object)?;
    let mut loaded = Loaded { unit, parts: Vec::with_capacity(parts.len()) };
    for part in parts {
        let part = unit.load_part(set, part).map_err(|error: DeviceError| failed(error.into()))?;
        loaded.parts.push(part);
    }
    let row = Row { program, inputs: vec![input], parts: &loaded.parts, goes_on: &|| true };
    let RowResult { outputs, .. } = unit.compute(row).map_err(failed)?;
    let expected = program.evaluate(&[numbers]);
    for (output, expected) in outputs.iter().zip(&expected) {
        for (index, (got, [re, im])) in decrypted(ring, output).map_err(object)?.into_iter().zip(expected).enumerate() {
            let error = (got - Complex::new(*re, *im)).magnitude();
            if error.is_nan() || error > ERROR_MAX {
                return Err(SelfTestError::Wrong { set: set.name, index, error });
            }
        }
    }
    Ok(())
}

/// Parts on a unit, evicted on drop.
struct Loaded<'u> {
    unit: &'u dyn VectorUnit,
    parts: Vec<KeySlot>,
}

impl Drop for Loaded<'_> {
    fn drop(&mut self) {
        self.parts.drain(..).for_each(|part| self.unit.evict_part(part));
    }
}

fn program(set: &CkksSet) -> Program {
    let operation = |kind: Kind, arguments: &[u32]| Operation {
        kind: kind.into(),
        arguments: arguments.to_vec(),
        ..Default::default()
    };
    let bootstrap =
        |stages, size: Size, kind: WireKind| Some(WireBootstrap { stages, size: size.into(), kind: kind.into() });
    let regular = bootstrap(3, Size::Medium, WireKind::Unspecified);
    let lossy = bootstrap(2, Size::Small, WireKind::Lossy);
    let diagonals = [0.25; 2 << SLOTS_LOG2].to_vec();
    let operations = vec![
        operation(Kind::Multiply, &[0, 0]),
        Operation { steps: 3, ..operation(Kind::Rotate, &[1]) },
        operation(Kind::Conjugate, &[2]),
        Operation { numbers: diagonals, offsets: vec![0, 5], ..operation(Kind::Matrix, &[3]) },
        Operation { bootstrap: regular, ..operation(Kind::Bootstrap, &[4]) },
        operation(Kind::Multiply, &[5, 3]),
        Operation { bootstrap: lossy, ..operation(Kind::BootstrapBoth, &[5, 6]) },
    ];
    let input = wire::program::Input {
        name: "x".to_owned(),
        r#type: wire::Type::Vector.into(),
        slots_log2: SLOTS_LOG2,
        level: 4,
        ..Default::default()
    };
    let message = wire::Program {
        parameter_set: set.name.to_owned(),
        inputs: vec![input],
        operations,
        outputs: vec![6, 7, 8],
        ..Default::default()
    };
    Program::decode(&message.encode_to_vec(), &LIMITS).expect("a program that does not change")
}

/// Seed of the input's mask (`number` 1), or of the keys' masks (`number` 2).
fn seed(number: u128) -> MaskSeed {
    MaskSeed { key: number, block: 0, byte: 0 }
}

/// A key that switches from the secret 1 to the secret 1, without noise.
fn part(ring: &Ring, shape: KeyShape) -> KeyPart {
    let set = ring.set();
    let basis = Basis { level: shape.level, special: shape.special(set) };
    let gadget = if shape.is_whole() { Gadget::Whole } else { Gadget::Digits };
    let seed = seed(2);
    let bodies = (0..shape.bodies(set)).map(|part| {
        let mut body = masks(ring, &seed, basis, part);
        for (index, row) in ring.indices(basis).zip(0..basis.len()) {
            let modulus = ring.prime(index).modulus();
            let holds = index < set.chain.len() && gadget.holds(ring, part, index);
            let one = if holds { ring.special_product(basis.special, modulus) } else { 0 };
            body.row_mut(row).iter_mut().for_each(|word| *word = modulus.sub(one, *word));
        }
        body
    });
    KeyPart { purpose: shape.purpose, key: SeededSwitchKey { basis, gadget, seed, bodies: bodies.collect() } }
}

fn encrypted(ring: &Ring, numbers: &[[f64; 2]], level: usize) -> Result<Ciphertext, CkksError> {
    let basis = Basis::of_level(level);
    let numbers: Vec<Complex> = numbers.iter().map(|[re, im]| Complex::new(*re, *im)).collect();
    let plain = ring.encode(&numbers, ring.scale(), basis)?;
    let (mut body, mut mask) = (plain.poly, ring.zero(basis));
    for (row, prime) in ring.primes(basis).enumerate() {
        fill_uniform(prime.modulus(), &seed(1), row, mask.row_mut(row));
        prime.pointwise.sub(body.row_mut(row), mask.row(row));
    }
    Ok(Ciphertext { polys: [body, mask], scale: plain.scale, slots_log2: plain.slots_log2 })
}

fn decrypted(ring: &Ring, ciphertext: &Ciphertext) -> Result<Vec<Complex>, CkksError> {
    let [mut phase, mask] = ciphertext.at_level(0)?.polys;
    let prime = ring.prime(0);
    prime.pointwise.add(phase.row_mut(0), mask.row(0));
    ring.inverse(&mut phase);
    let coefficients: Vec<f64> = phase.row(0).iter().map(|word| prime.modulus().to_signed(*word) as f64).collect();
    Ok(ring.decode(&coefficients, ciphertext.scale, ciphertext.slots_log2))
}

#[cfg(test)]
mod tests {
    use cloakwork_params::ckks::CKKS_SETS;

    use super::*;
    use crate::Processors;

    #[test]
    fn the_self_test_passes_on_any_number_of_threads() {
        for threads in [1, 3] {
            let mut proven = Vec::new();
            self_test(&Processors::new(threads, 0, 0), |set| proven.push(set.name)).expect("right answers");
            assert_eq!(proven.len(), CKKS_SETS.len(), "{proven:?}");
            assert!(CKKS_SETS.iter().all(|set| proven.contains(&set.name)), "{proven:?}");
        }
    }

    /// The test detects a key with a single wrong word.
    #[test]
    fn a_wrong_word_of_a_key_is_detected() {
        let set = by_name(SETS[0]).expect("a set");
        let program = program(set);
        let unit = Processors::new(1, u64::MAX, u64::MAX);
        for spoilt in 0..program.keys().len() {
            let parts = program
                .keys()
                .iter()
                .map(|need| part(ring(set), KeyShape { purpose: need.purpose.purposes(set)[0], level: need.level }));
            let mut parts: Vec<KeyPart> = parts.collect();
            let prime = ring(set).prime(0).modulus();
            let word = &mut parts[spoilt].key.bodies[0].row_mut(0)[7];
            *word = prime.add(*word, 1 << 40);
            let outcome = test(&unit, &program, parts);
            assert!(matches!(outcome, Err(SelfTestError::Wrong { .. })), "key {spoilt}: {outcome:?}");
        }
    }
}
