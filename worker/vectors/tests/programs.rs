//! Plans on ciphertexts of toy sets: the result is the program's, and a plan names exactly the keys
//! that it needs.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering},
};

use cloakwork_circuit::{
    ckks::{BootstrapKind, BootstrapShape, KeyNeed, KeySize, LIMITS, Program},
    wire::{
        self, Operation,
        operation::{
            self,
            bootstrap::{Kind as WireKind, Size},
        },
    },
};
use cloakwork_ckks::{
    Ciphertext, CkksError, Complex, Diagonals, EncodedMatrix, Evaluator, KeyPlan, Ring, key::rotation_power,
};
use cloakwork_device::RowError;
use cloakwork_params::ckks::{
    self, CkksSet,
    layout::{KeyShape, Purpose},
    offsets::Way,
};
use cloakwork_secret::{
    Randomness,
    ckks::{KeyGenerator, SecretKey},
};
use cloakwork_tests_programs::{RandomVectors, Seed, evaluate};
use cloakwork_vectors::{Keys, Matrices, Part, ring, run};
use proptest::prelude::*;
use prost::Message as _;

const SETS: [&str; 2] = ["TOY_CKKS_45_60_50", "TOY_CKKS_54_60"];

fn set(name: &str) -> &'static CkksSet {
    ckks::by_name(name).expect("a set")
}

/// A client that makes exactly the keys that a program names.
struct Client {
    ring: &'static Ring,
    secret: SecretKey,
    randomness: Randomness,
    matrices: Matrices,
}

impl Client {
    fn new(set: &'static CkksSet) -> Self {
        let mut randomness = Randomness::insecure_for_tests(11);
        let secret = SecretKey::generate(set, &mut randomness).expect("a key");
        Self { ring: ring(set), secret, randomness, matrices: Matrices::new(usize::MAX, 1) }
    }

    /// Makes the keys that the program names, each for its first purpose.
    fn keys(&mut self, program: &Program) -> Keys {
        let ring = self.ring;
        let mut plan = KeyPlan::default();
        shapes(program).into_iter().for_each(|shape| plan.want(shape));
        let generator = KeyGenerator::new(&self.secret, ring);
        let parts = generator.parts(&plan, &mut self.randomness).expect("keys");
        let parts = parts.map(|part| Part::expand(ring, part.expect("a key"), 1).expect("a key of the ring"));
        Keys::of_parts(parts).expect("keys of the ring")
    }

    fn encrypt(&mut self, program: &Program, inputs: &[Vec<[f64; 2]>]) -> Vec<Ciphertext> {
        let encrypt = |(input, numbers): (&cloakwork_circuit::ckks::Input, &Vec<[f64; 2]>)| {
            let numbers: Vec<Complex> = numbers.iter().map(|[re, im]| Complex::new(*re, *im)).collect();
            self.secret.encrypt(self.ring, &numbers, input.vector.level, &mut self.randomness).expect("encryption")
        };
        program.inputs().iter().zip(inputs).map(encrypt).collect()
    }

    /// The largest error of any number.
    fn error(&self, outputs: &[Ciphertext], expected: &[Vec<[f64; 2]>]) -> f64 {
        assert_eq!(outputs.len(), expected.len());
        let errors = outputs.iter().zip(expected).flat_map(|(output, expected)| {
            let got = self.secret.decrypt(self.ring, output).expect("decryption");
            assert_eq!(got.len(), expected.len());
            let error = |(got, [re, im]): (Complex, &[f64; 2])| (got - Complex::new(*re, *im)).magnitude();
            got.into_iter().zip(expected).map(error).collect::<Vec<_>>()
        });
        errors.fold(0.0, f64::max)
    }
}

fn seeds(count: usize) -> impl Strategy<Value = Vec<Seed>> {
    prop::collection::vec((any::<u8>(), any::<[u16; 3]>(), any::<u64>()), 1..count)
}

/// Runs a random program with the keys that the program names, and checks its result.
fn holds(random: &RandomVectors) -> Result<(), TestCaseError> {
    let program = &random.program;
    let has_bootstraps = program.cost().bootstraps > 0;
    let mut client = Client::new(program.set());
    let keys = client.keys(program);
    let inputs = random.numbers();
    let run = run(program, client.encrypt(program, &inputs), &keys, &client.matrices, 1, || true);
    let run = run.map_err(|error| TestCaseError::fail(error.to_string()))?;
    let error = client.error(&run.outputs, &evaluate(&random.message, &inputs));
    // Numbers of few slots are exact to 13 bits after a bootstrap, and sums over many slots
    // accumulate errors.
    let bound = if has_bootstraps { 2_f64.powi(-7) } else { 2_f64.powi(-18) };
    prop_assert!(error < bound, "off by 2^{:.1}", error.log2());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn encrypted_programs_agree_with_their_evaluation_in_the_clear(
        set in 0..2_usize,
        slots_log2 in prop_oneof![Just(3_u32), Just(6), Just(9)],
        levels in prop::collection::vec(2..15_u32, 1..4),
        seeds in seeds(20),
    ) {
        holds(&RandomVectors::new(SETS[set], slots_log2, &levels, &seeds))?;
    }
}

fn rotate(argument: u32, steps: i32) -> Operation {
    Operation { kind: operation::Kind::Rotate.into(), arguments: vec![argument], steps, ..Default::default() }
}

fn plain(kind: operation::Kind, arguments: &[u32]) -> Operation {
    Operation { kind: kind.into(), arguments: arguments.to_vec(), ..Default::default() }
}

fn input(slots_log2: u32, level: u32) -> wire::program::Input {
    let (name, r#type) = ("x".to_owned(), wire::Type::Vector.into());
    wire::program::Input { name, r#type, slots_log2, level, ..Default::default() }
}

fn program(set: &str, slots_log2: u32, level: u32, operations: Vec<Operation>) -> (wire::Program, Program) {
    let inputs = vec![input(slots_log2, level)];
    let outputs = vec![operations.len() as u32];
    let message = wire::Program { parameter_set: set.to_owned(), inputs, operations, outputs, ..Default::default() };
    let program = Program::decode(&message.encode_to_vec(), &LIMITS).expect("a program");
    (message, program)
}

fn bootstrap_of(argument: u32, shape: BootstrapShape) -> Operation {
    let size = match shape.size {
        KeySize::Small => Size::Small,
        KeySize::Medium => Size::Medium,
        KeySize::Large => Size::Large,
    };
    let kind = match shape.kind {
        BootstrapKind::Regular => WireKind::Unspecified,
        BootstrapKind::Lossy => WireKind::Lossy,
    };
    let (stages, size, kind) = (shape.stages as u32, size.into(), kind.into());
    let bootstrap = Some(operation::Bootstrap { stages, size, kind });
    Operation { bootstrap, ..plain(operation::Kind::Bootstrap, &[argument]) }
}

const SIZES: [KeySize; 3] = [KeySize::Small, KeySize::Medium, KeySize::Large];
const KINDS: [BootstrapKind; 2] = [BootstrapKind::Regular, BootstrapKind::Lossy];

#[test]
fn parts_that_are_missing_or_there_twice_are_named() {
    let ring = ring(set("TOY_CKKS_54_60"));
    let client = Client::new(ring.set());
    let mut randomness = Randomness::insecure_for_tests(12);
    let mut plan = KeyPlan::default();
    let shape = BootstrapShape { slots_log2: 2, stages: 1, size: KeySize::Medium, kind: BootstrapKind::Regular };
    plan.bootstrap(ring, shape).expect("a bootstrap of the ring");
    let generator = KeyGenerator::new(&client.secret, ring);
    let parts = generator.parts(&plan, &mut randomness).expect("keys");
    let parts: Vec<Part> =
        parts.map(|part| Part::expand(ring, part.expect("a key"), 1).expect("a key of the ring")).collect();
    let but = |purpose: Option<Purpose>| parts.iter().filter(move |part| Some(part.purpose()) != purpose).cloned();
    let keys = Keys::of_parts(but(None)).expect("all of them");
    assert!(keys.bootstrap().is_ok());
    for part in &parts {
        let twice = Keys::of_parts(but(None).chain([part.clone()])).err();
        assert_eq!(twice, Some(CkksError::DoubleKey { what: part.purpose().to_string() }));
    }
    for missing in [Purpose::ToSparse, Purpose::ToDense] {
        let refused = Keys::of_parts(but(Some(missing))).err();
        assert_eq!(refused, Some(CkksError::MissingKey { what: missing.to_string() }));
    }
    // The plan determines which of the other keys a program takes. A program without its keys is
    // refused where it uses them.
    let others = but(None).filter(|part| !matches!(part.purpose(), Purpose::ToSparse | Purpose::ToDense));
    let keys = Keys::of_parts(others).expect("keys without bootstraps");
    assert!(matches!(keys.bootstrap().err(), Some(CkksError::MissingKey { .. })));
}

/// Products down to level 0, a bootstrap, and more products.
#[test]
fn a_bootstrap_restores_the_levels_of_a_vector_without_any() {
    use operation::Kind::{Add, Multiply};
    for name in SETS {
        let shape = BootstrapShape { slots_log2: 9, stages: 3, size: KeySize::Medium, kind: BootstrapKind::Regular };
        let operations = vec![
            plain(Multiply, &[0, 0]),
            rotate(1, 5),
            plain(Multiply, &[1, 2]),
            bootstrap_of(3, shape),
            plain(Multiply, &[4, 4]),
            plain(Add, &[5, 4]),
        ];
        let (message, program) = program(name, 9, 2, operations);
        assert_eq!(program.vector(program.inputs().len() + 2).level, 0);
        let mut client = Client::new(set(name));
        let keys = client.keys(&program);
        let inputs =
            vec![(0..512).map(|at| [f64::from(at * 37 % 101) / 101.0, f64::from(at * 17 % 89) / -178.0]).collect()];
        let encrypted = client.encrypt(&program, &inputs);
        let done = run(&program, encrypted.clone(), &keys, &client.matrices, 2, || true).expect("a result");
        for name in ["multiply", "bootstrap.matrices", "bootstrap.raise", "bootstrap.remainders", "bootstrap.to_values"]
        {
            assert!(done.times.0.contains_key(name), "{name}: {:?}", done.times);
        }
        let error = client.error(&done.outputs, &evaluate(&message, &inputs));
        assert!(error < 2_f64.powi(-14), "{name}: off by 2^{:.1}", error.log2());
        let given_up = run(&program, encrypted, &keys, &client.matrices, 1, || false);
        assert_eq!(given_up.err(), Some(RowError::GivenUp));
    }
}

/// A cancelled program stops without waiting for the end of a bootstrap.
#[test]
fn a_program_is_given_up_at_any_step_and_in_the_middle_of_a_bootstrap() {
    let shape = BootstrapShape { slots_log2: 9, stages: 3, size: KeySize::Medium, kind: BootstrapKind::Regular };
    let operations = vec![bootstrap_of(0, shape), plain(operation::Kind::Multiply, &[1, 1])];
    let (_, program) = program(SETS[0], 9, 0, operations);
    let mut client = Client::new(program.set());
    let keys = client.keys(&program);
    let encrypted = client.encrypt(&program, &[vec![[0.5, 0.0]; 512]]);
    let ends_at = |last: usize| {
        let asked = AtomicUsize::new(0);
        let goes_on = || asked.fetch_add(1, Ordering::Relaxed) + 1 < last;
        let result = run(&program, encrypted.clone(), &keys, &client.matrices, 2, goes_on);
        (result.map(|run| run.times), asked.load(Ordering::Relaxed))
    };
    let (times, asked) = ends_at(usize::MAX);
    // The check runs before both steps, after the matrices, and within the bootstrap. The bootstrap
    // raises the modulus, applies three matrices, computes the remainders with three doublings, and
    // applies three matrices.
    assert_eq!(asked, 2 + 1 + (1 + 3 + 4 + 3));
    let counted = times.expect("a result").0;
    assert!(counted.len() == 6 && counted.values().all(|(count, _)| *count == 1), "each step once: {counted:?}");
    for last in 1..=asked {
        assert_eq!(ends_at(last), (Err(RowError::GivenUp), last));
    }
}

/// Bootstraps of every kind and size, of a full vector and of a sparse one, with and without a
/// spare level. Each case bootstraps single vectors and both of two.
#[test]
fn bootstraps_of_all_kinds_preserve_their_inputs() {
    for name in SETS {
        let mut client = Client::new(set(name));
        for (slots_log2, stages, spare) in [(9, 3, 1), (6, 2, 0)] {
            for (size, kind) in SIZES.into_iter().flat_map(|size| KINDS.map(|kind| (size, kind))) {
                let shape = BootstrapShape { slots_log2, stages, size, kind };
                let both = Operation {
                    kind: operation::Kind::BootstrapBoth.into(),
                    arguments: vec![2, 1],
                    ..bootstrap_of(0, shape)
                };
                let operations = vec![plain(operation::Kind::Negate, &[0]), both, bootstrap_of(0, shape)];
                let level = shape.level_in() as u32 + spare;
                let inputs = [level, level + 1].map(|level| input(slots_log2, level)).to_vec();
                let (parameter_set, outputs) = (name.to_owned(), vec![3, 4, 5]);
                let message = wire::Program { parameter_set, inputs, operations, outputs, ..Default::default() };
                let program = Program::decode(&message.encode_to_vec(), &LIMITS).expect("a program");
                let inputs = [37, 53].map(|step| {
                    (0..1 << slots_log2).map(|at| [f64::from(at * step % 101) / 128.0, 0.0]).collect::<Vec<_>>()
                });
                let keys = client.keys(&program);
                let encrypted = client.encrypt(&program, &inputs);
                let done = run(&program, encrypted, &keys, &client.matrices, 2, || true).expect("a result");
                let outputs = done.outputs;
                let error = client.error(&outputs, &evaluate(&message, &inputs));
                assert!(error < 2_f64.powi(-12), "{name} {shape:?}: off by 2^{:.1}", error.log2());
                assert_eq!(outputs[2].level(), shape.level_out(set(name)));
                assert_eq!(outputs[0].level(), shape.level_out(set(name)) + spare as usize - 1);
            }
        }
    }
}

#[test]
fn inputs_that_differ_from_the_plan_are_refused() {
    let (_, program) = program(SETS[0], 4, 3, vec![plain(operation::Kind::Negate, &[0])]);
    let mut client = Client::new(set(SETS[0]));
    let keys = client.keys(&program);
    let good = client.encrypt(&program, &[vec![[0.5, 0.0]; 16]]);
    let mut low = good[0].at_level(2).expect("a level below");
    let refused = |input: &Ciphertext| {
        let outcome = run(&program, vec![input.clone()], &keys, &client.matrices, 1, || true);
        assert!(matches!(outcome, Err(RowError::OffPlan { .. })), "{:?}", outcome.err());
    };
    refused(&low);
    low = good[0].clone();
    low.scale *= 1.001;
    refused(&low);
    low = good[0].clone();
    low.slots_log2 = 5;
    refused(&low);
    let none = run(&program, Vec::new(), &keys, &client.matrices, 1, || true).err();
    assert_eq!(none, Some(RowError::Inputs { expected: 1, got: 0 }));
    assert!(run(&program, good, &keys, &client.matrices, 1, || true).is_ok());
}

/// A plan names the keys that `cloakwork-ckks` declares for a bootstrap. A test of that crate
/// compares the declaration with the keys that a bootstrap uses.
#[test]
fn plans_name_the_keys_that_bootstraps_take() {
    for name in SETS {
        let set = set(name);
        for slots_log2 in 1..=9 {
            for stages in 1..=5.min(slots_log2 as usize) {
                for (size, kind) in SIZES.into_iter().flat_map(|size| KINDS.map(|kind| (size, kind))) {
                    let shape = BootstrapShape { slots_log2, stages, size, kind };
                    let (_, program) = program(name, slots_log2, 5, vec![bootstrap_of(0, shape)]);
                    let mut plan = KeyPlan::default();
                    plan.bootstrap(ring(set), shape).expect("a bootstrap");
                    assert_eq!(program.outputs()[0].vector.level, shape.level_out(set), "{name} {shape:?}");
                    assert_eq!(shapes(&program), plan.shapes().collect(), "{name} {shape:?}");
                }
            }
        }
    }
}

#[test]
fn plans_name_the_keys_that_matrices_take() {
    let set = set(SETS[0]);
    for offsets in
        [vec![0], vec![1], vec![0, 1, 2, 3, 4, 5, 6, 7], vec![0, 4, 28], vec![3, 9, 17, 31], vec![30, 31, 0, 1, 2]]
    {
        let operation = Operation {
            numbers: vec![0.5; 32 * offsets.len()],
            offsets: offsets.clone(),
            ..plain(operation::Kind::Matrix, &[0])
        };
        let (_, program) = program(SETS[0], 5, 2, vec![operation]);
        let diagonals = offsets.iter().map(|offset| (*offset as usize, vec![Complex::from(0.5); 32]));
        let matrix = EncodedMatrix::new(
            &Evaluator::new(ring(set), 2),
            &Diagonals::new(32, diagonals),
            Way::Apart { more: 0 },
            2,
            ring(set).scale(),
        )
        .expect("a matrix");
        let rotations = matrix.rotations();
        let key = |steps| KeyShape { purpose: Purpose::Move { power: rotation_power(ring(set), steps) }, level: 2 };
        assert_eq!(shapes(&program), rotations.map(key).collect(), "{offsets:?}");
    }
}

/// For each key need of the program, the key shape of its first purpose.
fn shapes(program: &Program) -> BTreeSet<KeyShape> {
    let shape = |need: &KeyNeed| KeyShape { purpose: need.purpose.purposes(program.set())[0], level: need.level };
    program.keys().iter().map(shape).collect()
}
