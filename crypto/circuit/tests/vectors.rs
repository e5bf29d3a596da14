//! Programs on vectors: invalid ones are refused with a reason. In valid ones, levels and scales
//! are aligned, and the numbers are right.

use cloakwork_circuit::{
    ProgramError,
    ckks::{Action, BootstrapKind, BootstrapShape, KeySize, KeyUse, LIMITS, Limits, Program, is_same},
    wire::{
        self, Operation,
        operation::{
            Bootstrap, Kind,
            bootstrap::{Kind as WireKind, Size},
        },
    },
};
use cloakwork_params::ckks::{
    self,
    layout::{KeyShape, Purpose},
};
use cloakwork_tests_programs::{RandomVectors, Seed, evaluate};
use proptest::prelude::*;
use prost::Message as _;

const SET: &str = "TOY_CKKS_45_60_50";
const SETS: [&str; 4] = ["TOY_CKKS_45_60_50", "TOY_CKKS_54_60", "CKKS_45_60_50_H4096", "CKKS_54_60_H4096"];

fn inputs(levels: &[u32]) -> Vec<wire::program::Input> {
    let input = |level: &u32| wire::program::Input {
        name: "x".to_owned(),
        r#type: wire::Type::Vector.into(),
        slots_log2: 3,
        level: *level,
        ..Default::default()
    };
    levels.iter().map(input).collect()
}

fn program(levels: &[u32], operations: Vec<Operation>) -> wire::Program {
    let last = (levels.len() + operations.len()) as u32 - 1;
    wire::Program {
        parameter_set: SET.to_owned(),
        inputs: inputs(levels),
        operations,
        outputs: vec![last],
        ..Default::default()
    }
}

fn operation(kind: Kind, arguments: &[u32]) -> Operation {
    Operation { kind: kind.into(), arguments: arguments.to_vec(), ..Default::default() }
}

fn with_numbers(kind: Kind, arguments: &[u32], numbers: &[f64]) -> Operation {
    Operation { numbers: numbers.to_vec(), r#type: wire::Type::Vector.into(), ..operation(kind, arguments) }
}

fn bootstrap(argument: u32, stages: u32) -> Operation {
    let bootstrap = Some(Bootstrap { stages, size: Size::Medium.into(), ..Default::default() });
    Operation { bootstrap, ..operation(Kind::Bootstrap, &[argument]) }
}

fn lossy(operation: Operation) -> Operation {
    let bootstrap = operation.bootstrap.map(|bootstrap| Bootstrap { kind: WireKind::Lossy.into(), ..bootstrap });
    Operation { bootstrap, ..operation }
}

fn with_size(operation: Operation, size: Size) -> Operation {
    let bootstrap = operation.bootstrap.map(|bootstrap| Bootstrap { size: size.into(), ..bootstrap });
    Operation { bootstrap, ..operation }
}

fn both(arguments: &[u32], stages: u32) -> Operation {
    Operation { kind: Kind::BootstrapBoth.into(), arguments: arguments.to_vec(), ..bootstrap(0, stages) }
}

fn decode(message: &wire::Program) -> Result<Program, ProgramError> {
    Program::decode(&message.encode_to_vec(), &LIMITS)
}

#[test]
fn refusals_say_where_and_what() {
    let square = |level| program(&[level], vec![operation(Kind::Multiply, &[0, 0])]);
    let one = |operation| program(&[3], vec![operation]);
    let mut boolean = one(operation(Kind::Negate, &[0]));
    boolean.inputs[0].r#type = wire::Type::Bool.into();
    let mut many = one(operation(Kind::Negate, &[0]));
    many.inputs[0].slots_log2 = 10;
    let mut high = one(operation(Kind::Negate, &[0]));
    high.inputs[0].level = 15;
    let mut scaled = one(operation(Kind::Negate, &[0]));
    scaled.inputs[0].scale = f64::NAN;
    let mut other = program(&[3, 3], vec![operation(Kind::Add, &[0, 1])]);
    other.inputs[1].slots_log2 = 4;
    let mut unlike = program(&[3, 3], vec![both(&[0, 1], 1)]);
    unlike.inputs[1].slots_log2 = 4;
    let unknown = Bootstrap { kind: 9, stages: 1, size: Size::Medium.into() };
    let huge = Bootstrap { kind: WireKind::Unspecified.into(), stages: 1, size: 7 };
    let mut clear = one(with_numbers(Kind::Constant, &[], &[1.0]));
    clear.outputs = vec![1];
    let mut large = one(bootstrap(0, 1));
    large.parameter_set = "CKKS_45_60_50_H4096".to_owned();
    large.inputs[0].slots_log2 = 15;
    let mut matrix = with_numbers(Kind::Matrix, &[0], &[0.5; 16]);
    matrix.offsets = vec![1, 1];
    for (program, words) in [
        (
            square(0),
            "operation 0 (KIND_MULTIPLY): it takes a level, and its argument has none left: a bootstrap before it",
        ),
        (one(operation(Kind::Multiply, &[0])), "operation 0 (KIND_MULTIPLY): 1 arguments: it takes 2"),
        (one(operation(Kind::Negate, &[1])), "operation 0 (KIND_NEGATE): argument 1 does not exist here"),
        (one(operation(Kind::And, &[0, 0])), "no operation on vectors"),
        (boolean, "input 0 ('x'): under TOY_CKKS_45_60_50 values are vectors"),
        (many, "2^10 numbers: TOY_CKKS_45_60_50 has vectors of up to 2^9"),
        (high, "level 15: TOY_CKKS_45_60_50 is computed on up to level 14"),
        (scaled, "a scale of NaN"),
        (other, "vectors of 8 and of 16 numbers"),
        (clear, "output 0 is clear"),
        (one(with_numbers(Kind::Polynomial, &[0], &[1.0; 17])), "it takes 5 levels, and its argument has 3"),
        (one(with_numbers(Kind::Polynomial, &[0], &[1.0; 513])), "a degree of 512: at most 511"),
        (one(with_numbers(Kind::Polynomial, &[0], &[])), "no coefficients"),
        (one(with_numbers(Kind::Chebyshev, &[0], &[0.0, f64::INFINITY])), "number 1 is not finite"),
        (one(matrix), "diagonal 1 twice"),
        (one(with_numbers(Kind::Matrix, &[0], &[0.5; 15])), "15 numbers for 0 diagonals"),
        (one(bootstrap(0, 4)), "4 stages: a bootstrap of 8 numbers has 1 to 3"),
        (one(bootstrap(0, 0)), "0 stages"),
        (large, "its matrices take "),
        (one(Operation { bootstrap: None, ..bootstrap(0, 1) }), "it does not say how many keys"),
        (one(Operation { bootstrap: Some(unknown), ..bootstrap(0, 1) }), "a bootstrap of kind 9"),
        (one(Operation { bootstrap: Some(huge), ..bootstrap(0, 1) }), "a key of size 7: there are small, medium"),
        (one(Operation { kind: 999, ..operation(Kind::Negate, &[0]) }), "this version knows no such operation"),
        (
            program(&[1], vec![lossy(bootstrap(0, 2))]),
            "level 1: a lossy bootstrap of 2 stages takes a vector of level 2 or above, and a regular one of any level",
        ),
        (one(both(&[0], 1)), "1 arguments: it takes 2"),
        (
            program(&[3], vec![with_numbers(Kind::Constant, &[], &[1.0]), both(&[0, 1], 1)]),
            "operation 1 (KIND_BOOTSTRAP_BOTH): an argument is clear",
        ),
        (unlike, "vectors of 8 and of 16 numbers"),
        (one(Operation { level: 4, ..operation(Kind::LevelDown, &[0]) }), "only a bootstrap goes up"),
        (
            program(&[3], vec![with_numbers(Kind::Constant, &[], &[1e300]), operation(Kind::Add, &[0, 1])]),
            "operation 1 (KIND_ADD): a clear number of 2^996.6",
        ),
        (
            program(&[3], vec![with_numbers(Kind::Constant, &[], &[1.0; 4]), operation(Kind::Add, &[0, 1])]),
            "4 clear numbers: the vector has 8",
        ),
        (program(&[3], vec![with_numbers(Kind::Constant, &[], &[1.0; 3])]), "3 numbers: expected one for all places"),
    ] {
        let refusal = decode(&program).expect_err(words).to_string();
        assert!(refusal.contains(words), "'{refusal}' does not say '{words}'");
    }
}

#[test]
fn limits_hold() {
    let message = program(&[14], vec![operation(Kind::Multiply, &[0, 0]); 4]);
    let bytes = message.encode_to_vec();
    let program = Program::decode(&bytes, &LIMITS).expect("a program");
    for (limits, what) in [
        (Limits { bytes: bytes.len() - 1, ..LIMITS }, "bytes"),
        (Limits { inputs: 0, ..LIMITS }, "inputs"),
        (Limits { operations: 3, ..LIMITS }, "operations"),
        (Limits { arguments: 7, ..LIMITS }, "arguments"),
        (Limits { outputs: 0, ..LIMITS }, "outputs"),
        (Limits { memory_bytes: program.cost().memory_bytes - 1, ..LIMITS }, "bytes of memory for a row"),
        (Limits { cost: program.cost().work - 1, ..LIMITS }, "millions of multiplications for a row"),
    ] {
        match Program::decode(&bytes, &limits) {
            Err(ProgramError::TooMany { what: refused, .. }) => assert_eq!(refused, what),
            other => panic!("{what}: {other:?}"),
        }
    }
}

/// Three adjacent diagonals take two baby steps and no giant step. Besides the encoded matrix,
/// memory holds their rotations modulo a prime, for as many primes at once as the threads need.
#[test]
fn rotations_take_memory_for_each_prime_that_threads_work_on() {
    for (set, threads_of_prime) in [(SET, 1), ("CKKS_45_60_50_H4096", 16)] {
        let matrix = Operation { offsets: vec![0, 1, 2], ..with_numbers(Kind::Matrix, &[0], &[0.25; 3 * 8]) };
        let mut message = program(&[3], vec![matrix]);
        message.parameter_set = set.to_owned();
        let program = decode(&message).expect("a program");
        let (cost, set) = (program.cost(), program.set());
        let on = |threads: usize| cost.memory_bytes_on(threads);
        // Body and mask, three times, and pieces of the argument and of a product, for each thread.
        let own = 9 * 8 * set.size() as u64;
        let more = |primes: usize| on(primes * threads_of_prime + 1) - on(primes * threads_of_prime);
        assert_eq!((on(1), on(threads_of_prime), more(1), more(2)), (cost.memory_bytes, cost.memory_bytes, own, own));
        let primes = 4 + set.special.len();
        assert_eq!((more(primes - 1), more(primes), on(usize::MAX)), (own, 0, on(primes * threads_of_prime)));
    }
}

/// Planning counts as work, also for steps that no output needs. The plan counts as memory.
#[test]
fn planning_counts_as_work_and_memory() {
    let polynomial = with_numbers(Kind::Polynomial, &[0], &[0.25; 512]);
    let mut operations = vec![Operation { r#type: 0, ..polynomial }; 200];
    operations.push(operation(Kind::Negate, &[0]));
    let message = program(&[14], operations);
    let (bytes, planned) = (message.encode_to_vec().len(), decode(&message).expect("a program"));
    let alone = decode(&program(&[14], vec![operation(Kind::Negate, &[0])])).expect("a program");
    assert_eq!(planned.cost().work - alone.cost().work, bytes as u64 >> 10);
    assert_eq!(planned.outline().planned_bytes, alone.outline().planned_bytes, "steps that are not computed are gone");

    let sum = decode(&program(&[14], vec![operation(Kind::Sum, &[0; 1000])])).expect("a program");
    assert!(sum.outline().planned_bytes >= sum.steps().len() as u64 * 64 && sum.steps().len() >= 999);
}

/// About seventy bootstraps, as documented at the limit: a job is computed to its end while others
/// wait.
#[test]
fn the_cost_limit_is_about_seventy_bootstraps() {
    let mut message = program(&[0], vec![bootstrap(0, 5)]);
    message.parameter_set = "CKKS_45_60_50_H4096".to_owned();
    message.inputs[0].slots_log2 = 15;
    let work = decode(&message).expect("a program").cost().work;
    assert!((25_000..35_000).contains(&work) && (60..80).contains(&(LIMITS.cost / work)), "{work}");
}

/// A sum of a product and a value that is no product. The latter has a level to spare, which aligns
/// the scale.
#[test]
fn operands_are_aligned_to_one_level_and_scale() {
    let operations = vec![operation(Kind::Multiply, &[0, 0]), operation(Kind::Add, &[2, 1])];
    let program = decode(&program(&[9, 9], operations)).expect("a program");
    let actions: Vec<&Action> = program.steps().iter().map(|step| &step.action).collect();
    assert_eq!(actions, [&Action::Multiply(0, 0), &Action::MultiplyNumber(1, 1.0), &Action::Add(2, 3)]);
    assert_eq!(program.outputs()[0].vector.level, 8);
}

#[test]
fn steps_that_no_output_needs_are_dropped() {
    let mut message = program(&[9], vec![bootstrap(0, 2), operation(Kind::Negate, &[0])]);
    message.outputs = vec![2];
    let program = decode(&message).expect("a program");
    assert_eq!(program.steps().len(), 1);
    assert_eq!((program.cost().bootstraps, program.keys().len()), (0, 0));
}

#[test]
fn bootstraps_can_be_repeated() {
    for set in SETS {
        for stages in [2, 3] {
            let mut operations = Vec::new();
            for _ in 0..6 {
                // One of the bootstrap's levels restores the set's own scale. The multiplications
                // use all others.
                operations.push(bootstrap(operations.len() as u32, stages));
                for _ in 0..6 {
                    let last = operations.len() as u32;
                    operations.push(operation(Kind::Multiply, &[last, last]));
                }
            }
            let message = wire::Program { parameter_set: set.to_owned(), ..program(&[1], operations) };
            let program = decode(&message).expect("a program");
            assert_eq!(program.cost().bootstraps, 6);
            let own = 2_f64.powi(program.set().scale_log2 as i32);
            for step in program.steps() {
                assert!((step.vector.scale / own - 1.0).abs() < 0.02, "{set}: {}", step.vector.scale / own);
            }
        }
    }
}

/// Given as many levels as stages, a lossy bootstrap returns more levels than a regular one, and
/// keeps the scale.
#[test]
fn a_lossy_bootstrap_takes_levels_beforehand() {
    for set in SETS {
        for size in [Size::Small, Size::Medium, Size::Large] {
            let of = |level, operation| {
                let operation = with_size(operation, size);
                let message = wire::Program { parameter_set: set.to_owned(), ..program(&[level], vec![operation]) };
                decode(&message).expect("a program")
            };
            let (regular, lowest) = (of(0, bootstrap(0, 3)), of(3, lossy(bootstrap(0, 3))));
            let (regular_out, lossy_out) = (regular.outputs()[0].vector, lowest.outputs()[0].vector);
            assert_eq!(lossy_out.level, regular_out.level + 3, "{set}");
            assert_eq!((lossy_out.scale, lowest.steps().len()), (lowest.inputs()[0].vector.scale, 1));
            let lowered = of(5, lossy(bootstrap(0, 3)));
            assert!(matches!(lowered.steps()[0].action, Action::Lower(0)) && lowered.steps()[0].vector.level == 3);
        }
    }
}

/// Two vectors of real numbers take one bootstrap, and both come back unchanged. The bootstrap
/// doubles them. The plan halves them at a level before the bootstrap, or at a level after it if
/// there is no level before.
#[test]
fn two_vectors_of_real_numbers_take_one_bootstrap() {
    for (levels, operation, kind, lost) in [
        ([1, 4], both(&[0, 1], 2), BootstrapKind::Regular, 0),
        ([4, 4], both(&[0, 1], 2), BootstrapKind::Regular, 0),
        ([0, 4], both(&[0, 1], 2), BootstrapKind::Regular, 1),
        ([0, 0], both(&[1, 0], 2), BootstrapKind::Regular, 1),
        ([3, 4], lossy(both(&[0, 1], 2)), BootstrapKind::Lossy, 0),
        ([2, 4], lossy(both(&[0, 1], 2)), BootstrapKind::Lossy, 1),
    ] {
        let order: Vec<usize> = operation.arguments.iter().map(|argument| *argument as usize).collect();
        let mut message = program(&levels, vec![operation, operation_on_both()]);
        message.outputs = vec![2, 3, 4];
        let program = decode(&message).expect("a program");
        let shape = BootstrapShape { slots_log2: 3, stages: 2, size: KeySize::Medium, kind };
        assert_eq!(program.cost().bootstraps, 1);
        for output in &program.outputs()[..2] {
            assert_eq!(output.vector.level, shape.level_out(program.set()) - lost, "{levels:?} {kind:?}");
        }
        let inputs = [1.0, -0.5].map(|by| (0..8).map(|at| [by * f64::from(at) / 8.0, 0.0]).collect::<Vec<_>>());
        let outputs = program.evaluate(&inputs);
        assert_eq!(outputs[..2], [inputs[order[0]].clone(), inputs[order[1]].clone()]);
        assert_eq!(outputs[2], evaluate(&message, &inputs)[2]);
        let keys: std::collections::BTreeMap<_, _> =
            program.keys().iter().map(|need| (need.purpose, need.level)).collect();
        assert_eq!(keys, shape.keys(program.set()), "it takes the keys of one bootstrap");
    }
}

/// Reads both results of the preceding operation, which follow two inputs.
fn operation_on_both() -> Operation {
    operation(Kind::Subtract, &[3, 2])
}

#[test]
fn keys_are_named_once_with_the_highest_level_and_the_first_operation() {
    let turn = |argument, steps| Operation { steps, ..operation(Kind::Rotate, &[argument]) };
    let operations = vec![
        Operation { level: 2, ..operation(Kind::LevelDown, &[0]) },
        turn(1, 3),
        turn(0, -5),
        operation(Kind::Conjugate, &[0]),
        operation(Kind::Multiply, &[2, 3]),
        operation(Kind::Add, &[4, 5]),
    ];
    let program = decode(&program(&[7], operations)).expect("a program");
    let keys: Vec<_> = program.keys().iter().map(|need| (need.purpose, need.level, need.operation)).collect();
    let rotation = KeyUse::Rotation { steps: 3, slots_log2: 3 };
    assert_eq!(keys, [(KeyUse::Multiplication, 2, 4), (KeyUse::Conjugation, 7, 3), (rotation, 7, 1)]);
    // Five generates the rotations: its third power rotates by three slots, and so does a rotation
    // in the other direction.
    let purposes = rotation.purposes(program.set());
    assert_eq!((purposes.len(), purposes[0]), (2, Purpose::Move { power: 125 }));
}

/// A client makes only one key for each power of X: the key store accepts no second one.
#[test]
fn one_key_meets_all_needs_for_its_power() {
    let turn = |argument, steps| Operation { steps, ..operation(Kind::Rotate, &[argument]) };
    let operations = vec![
        Operation { level: 4, ..operation(Kind::LevelDown, &[0]) },
        Operation { offsets: vec![2], ..with_numbers(Kind::Matrix, &[1], &[0.5; 8]) },
        turn(0, 2),
        turn(0, 3),
        operation(Kind::Sum, &[2, 3, 4]),
    ];
    let program = decode(&program(&[7], operations)).expect("a program");
    let keys: Vec<_> = program.keys().iter().map(|need| (need.purpose, need.level, need.operation)).collect();
    let of_all = KeyUse::Rotation { steps: 2, slots_log2: 9 };
    let of_few = KeyUse::Rotation { steps: 3, slots_log2: 3 };
    assert_eq!(keys, [(of_all, 7, 1), (of_few, 7, 3)]);
}

#[test]
fn the_outline_chooses_keys_or_names_the_missing_one() {
    let turn = Operation { steps: 3, ..operation(Kind::Rotate, &[0]) };
    let program = decode(&program(&[7], vec![turn, operation(Kind::Multiply, &[1, 1])])).expect("a program");
    let turns = program.keys()[1].purpose.purposes(program.set());
    let key = |purpose, level| KeyShape { purpose, level };
    let products = key(Purpose::Relinearization, 9);
    let others = [key(Purpose::ToDense, 20), key(Purpose::Move { power: 5 }, 20)];
    for turn in &turns {
        let keys = [others[0], key(*turn, 7), others[1], products];
        assert_eq!(program.outline().choose_keys(&keys), Ok(vec![1, 3]));
    }
    let both = [key(turns[0], 6), key(turns[1], 8), products];
    assert_eq!(program.outline().choose_keys(&both), Ok(vec![1, 2]));
    let refusal = |keys: &[KeyShape]| program.outline().choose_keys(keys).expect_err("a key is missing").to_string();
    let words = "operation 0 takes a key for turning 8 numbers by 3 up to level 7: ";
    assert_eq!(refusal(&[products]), format!("{words}no key for this purpose was supplied"));
    assert_eq!(refusal(&[products, key(turns[1], 6)]), format!("{words}the supplied key goes up to level 6"));
    assert!(refusal(&others).starts_with("operation 1 takes a key for products up to level 7"));
}

/// The estimated costs of bootstraps of all kinds are in proportion to their measured times.
#[test]
fn costs_of_bootstraps_are_proportional_to_their_times() {
    let work = |slots_log2, operation| {
        let mut message = program(&[5], vec![operation]);
        message.parameter_set = "CKKS_45_60_50_H4096".to_owned();
        message.inputs[0].slots_log2 = slots_log2;
        decode(&message).expect("a program").cost().work as f64
    };
    let known = work(15, bootstrap(0, 5));
    // Seconds on one thread, from docs/ckks.md.
    for (slots_log2, size, stages, kind, seconds) in [
        (15, Size::Small, 3, WireKind::Unspecified, 5.03),
        (15, Size::Small, 4, WireKind::Unspecified, 4.42),
        (15, Size::Small, 5, WireKind::Unspecified, 3.94),
        (15, Size::Medium, 3, WireKind::Unspecified, 3.52),
        (15, Size::Medium, 4, WireKind::Unspecified, 3.10),
        (15, Size::Large, 3, WireKind::Unspecified, 3.37),
        (15, Size::Large, 4, WireKind::Unspecified, 3.10),
        (15, Size::Large, 5, WireKind::Unspecified, 3.16),
        (5, Size::Small, 2, WireKind::Unspecified, 2.14),
        (5, Size::Medium, 2, WireKind::Unspecified, 1.82),
        (10, Size::Small, 3, WireKind::Unspecified, 2.80),
        (10, Size::Medium, 3, WireKind::Unspecified, 2.10),
        (15, Size::Small, 5, WireKind::Lossy, 3.45),
        (15, Size::Medium, 3, WireKind::Lossy, 3.16),
        (15, Size::Medium, 5, WireKind::Lossy, 3.32),
        (15, Size::Large, 5, WireKind::Lossy, 2.60),
    ] {
        let operation = with_size(bootstrap(0, stages), size);
        let operation = if kind == WireKind::Lossy { lossy(operation) } else { operation };
        let ratio = work(slots_log2, operation) / known / (seconds / 3.03);
        assert!((0.67..1.5).contains(&ratio), "2^{slots_log2} numbers, {size:?}, {stages} stages, {kind:?}: {ratio}");
    }
}

/// Checks that the random programs of the tests cover every kind of step.
#[test]
fn random_programs_have_steps_of_every_kind() {
    let mut kinds = std::collections::BTreeSet::new();
    for number in 0..200 {
        let random = RandomVectors::numbered(number, SETS[0], 3, 20);
        kinds.extend(random.program.steps().iter().map(|step| {
            let action = format!("{:?}", step.action);
            action.split('(').next().unwrap_or_default().to_owned()
        }));
    }
    let all = "Add AddClear AddNumber Bootstrap Chebyshev Conjugate Lower Multiply MultiplyClear MultiplyNumber Negate Rotate \
               Subtract TimesI Total Transform";
    assert_eq!(kinds.into_iter().collect::<Vec<_>>().join(" "), all);
}

/// Operations with arbitrary fields.
fn anything() -> impl Strategy<Value = Operation> {
    let kind = prop_oneof![
        any::<i32>(),
        (96..105_i32),
        prop::sample::select(vec![Kind::Constant, Kind::Add, Kind::Subtract, Kind::Multiply, Kind::Sum, Kind::Negate])
            .prop_map(i32::from),
    ];
    let number = prop_oneof![any::<f64>(), -1.0..1.0, Just(0.0)];
    let count = prop_oneof![0..4_usize, Just(8), Just(16)];
    let numbers = count.prop_flat_map(move |count| prop::collection::vec(number.clone(), count));
    let lists = (prop::collection::vec(0..9_u32, 0..4), numbers.clone(), prop_oneof![Just(Vec::new()), numbers]);
    let words = (any::<i32>(), prop::collection::vec(0..9_u32, 0..3), prop_oneof![0..20_u32, any::<u32>()]);
    let bootstrap = prop::option::of((prop_oneof![0..7_u32, any::<u32>()], 0..5_i32, 0..3_i32));
    (kind, lists, words, bootstrap, 0..6_i32).prop_map(|(kind, lists, words, bootstrap, r#type)| {
        let ((arguments, numbers, imaginary), (steps, offsets, level)) = (lists, words);
        let bootstrap = bootstrap.map(|(stages, size, kind)| Bootstrap { stages, size, kind });
        Operation {
            kind,
            arguments,
            numbers,
            imaginary,
            steps,
            offsets,
            level,
            bootstrap,
            r#type,
            ..Default::default()
        }
    })
}

fn seeds() -> impl Strategy<Value = Vec<Seed>> {
    prop::collection::vec((any::<u8>(), any::<[u16; 3]>(), any::<u64>()), 1..40)
}

/// A constant takes memory once, however often it is used, and takes none if it is not used.
#[test]
fn clear_numbers_are_kept_once_and_only_where_a_step_names_them() {
    let numbers: Vec<f64> = (0..8).map(f64::from).collect();
    let mut operations = vec![with_numbers(Kind::Constant, &[], &numbers), with_numbers(Kind::Constant, &[], &numbers)];
    // x - c, fifty times. The program returns one of the results.
    operations.extend((0..50).map(|_| operation(Kind::Subtract, &[0, 1])));
    let planned = decode(&program(&[3], operations.clone())).expect("a program");
    assert_eq!((planned.clear().vectors.len(), planned.steps().len()), (1, 1));
    assert_eq!(planned.evaluate(&[vec![[1.0, 0.0]; 8]])[0][3], [-2.0, 0.0]);
    // All of these results, and a product with the other constant.
    operations.push(operation(Kind::Multiply, &[0, 2]));
    let mut message = program(&[3], operations);
    message.outputs = (3..54).collect();
    let planned = decode(&message).expect("a program");
    assert_eq!(planned.clear().vectors.len(), 2);
    let outputs = planned.evaluate(&[vec![[1.0, 0.0]; 8]]);
    assert_eq!((outputs[0][3], outputs[50][3]), ([-2.0, 0.0], [3.0, 0.0]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn plans_compute_what_programs_say(
        set in 0..2_usize,
        slots_log2 in 3..6_u32,
        levels in prop::collection::vec(0..15_u32, 1..4),
        seeds in seeds(),
    ) {
        let random = RandomVectors::new(SETS[set], slots_log2, &levels, &seeds);
        let inputs = random.numbers();
        let (expected, got) = (evaluate(&random.message, &inputs), random.program.evaluate(&inputs));
        prop_assert_eq!(expected.len(), got.len());
        for (expected, got) in expected.iter().flatten().zip(got.iter().flatten()) {
            prop_assert!((expected[0] - got[0]).hypot(expected[1] - got[1]) < 1e-9, "{expected:?} {got:?}");
        }
    }

    /// Every message is either a valid program or refused.
    #[test]
    fn every_message_is_a_program_or_is_refused(
        inputs in prop::collection::vec((prop_oneof![0..5_u32, any::<u32>()], prop_oneof![0..15_u32, any::<u32>()], prop_oneof![Just(0.0), any::<f64>()]), 0..4),
        operations in prop::collection::vec(anything(), 0..12),
        outputs in prop::collection::vec(0..20_u32, 0..3),
        output_lengths in prop::collection::vec(0..3_u32, 0..2),
    ) {
        let input = |(slots_log2, level, scale)| wire::program::Input { r#type: wire::Type::Vector.into(), slots_log2, level, scale, ..Default::default() };
        let inputs = inputs.into_iter().map(input).collect();
        let message = wire::Program { parameter_set: SETS[2].to_owned(), inputs, operations, outputs, output_lengths };
        // Keep only the valid operations, one after the other. Otherwise an early mistake would
        // hide all later ones.
        let mut right = wire::Program { operations: Vec::new(), output_lengths: Vec::new(), ..message.clone() };
        for operation in message.operations.iter().cloned() {
            right.operations.push(operation);
            // A clear number is no output, but may be an operand.
            let last = (right.inputs.len() + right.operations.len()) as u32 - 1;
            let is_right = [vec![last], vec![0]].into_iter().any(|outputs| {
                right.outputs = outputs;
                decode(&right).is_ok()
            });
            if !is_right {
                right.operations.pop();
            }
        }
        let _ = decode(&message);
    }

    /// No plan contains a step that evaluation would refuse or compute wrongly.
    #[test]
    fn levels_and_scales_of_plans_are_right(
        set in 0..4_usize,
        slots_log2 in 3..6_u32,
        levels in prop::collection::vec(0..15_u32, 1..4),
        seeds in seeds(),
    ) {
        let random = RandomVectors::new(SETS[set], slots_log2, &levels, &seeds);
        let program = &random.program;
        let set = ckks::by_name(SETS[set]).expect("a set");
        let own = 2_f64.powi(set.scale_log2 as i32);
        let mut held: std::collections::HashSet<usize> = (0..program.inputs().len()).collect();
        for (place, step) in program.steps().iter().enumerate() {
            let to = step.vector;
            let from: Vec<_> = step.action.arguments().map(|value| program.vector(value)).collect();
            prop_assert!(step.action.arguments().all(|value| held.contains(&value)), "it is still there");
            let lowest = from.iter().map(|vector| vector.level).min().expect("an argument");
            let prime = set.chain[lowest] as f64;
            prop_assert!((0.8..=1.25).contains(&(to.scale / own)) && to.level <= set.working_level);
            prop_assert!(from.iter().all(|vector| vector.slots_log2 == to.slots_log2));
            match &step.action {
                Action::Add(..) | Action::Subtract(..) => {
                    prop_assert!(is_same(from[0].scale, from[1].scale) && is_same(from[0].scale, to.scale));
                    prop_assert_eq!(to.level, lowest);
                }
                Action::Multiply(..) => {
                    prop_assert!(is_same(to.scale, from[0].scale * from[1].scale / prime));
                    prop_assert_eq!(to.level + 1, lowest);
                }
                Action::MultiplyNumber(..) => prop_assert!(to.level < lowest),
                Action::MultiplyClear(..) | Action::Transform(..) => prop_assert_eq!(to.level + 1, lowest),
                Action::Chebyshev(_, coefficients) => {
                    let bits = usize::BITS - coefficients.len().saturating_sub(1).max(1).leading_zeros();
                    prop_assert_eq!(to.level + bits as usize, lowest);
                }
                Action::Bootstrap(_, kind) => {
                    prop_assert_eq!((from[0].level, to.level), (kind.level_in(), kind.level_out(set)));
                    prop_assert!(is_same(to.scale, from[0].scale));
                }
                Action::Lower(_) => prop_assert!(to.level < lowest && is_same(to.scale, from[0].scale)),
                _ => prop_assert!(to == from[0]),
            }
            held.insert(program.inputs().len() + place);
            step.last_uses.iter().for_each(|value| assert!(held.remove(value), "freed once"));
        }
        prop_assert!(program.outputs().iter().all(|output| held.contains(&output.value)));
        let keys: std::collections::BTreeSet<Purpose> =
            program.keys().iter().map(|need| need.purpose.purposes(set)[0]).collect();
        prop_assert_eq!(keys.len(), program.keys().len(), "each key is named once");
    }
}
