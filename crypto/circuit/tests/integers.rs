//! Random programs of integers compute the same before and after lowering.

use cloakwork_circuit::{
    Goal, Graph, LIMITS, Program, ProgramError, Type,
    wire::{self, operation::Kind},
};
use cloakwork_tests_programs::{RandomProgram, Seed, mask};
use proptest::prelude::*;
use prost::Message as _;

const SETS: [&str; 3] = [
    "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128",
    "V1_8_PARAM_GPU_MULTI_BIT_GROUP_2_MESSAGE_2_CARRY_2_KS_PBS_GAUSSIAN_2M128",
    "TOY_MESSAGE_2_CARRY_2",
];

/// Runs a program's graph on numbers.
fn run(graph: &Graph, program: &RandomProgram, inputs: &[u64]) -> Vec<u64> {
    let step = graph.set.plaintext_step();
    let digits = |(value, ty): (&u64, &Type)| {
        let value = value & mask(*ty);
        (0..ty.blocks()).map(move |place| (value >> (2 * place) & 3) * step).collect::<Vec<_>>()
    };
    let phases: Vec<u64> = inputs.iter().zip(&program.types[..program.inputs]).flat_map(digits).collect();
    let outputs = graph.evaluate(&phases).expect("every phase has an entry");
    let mut blocks = graph.outputs.iter().flatten().zip(outputs);
    let number = |ty: &Type| {
        let digits = blocks.by_ref().take(ty.blocks()).enumerate();
        digits.fold(0, |number, (place, (output, phase))| {
            assert!(phase % step == 0 && phase / step <= u64::from(output.degree), "no more than its degree");
            number | ((phase / step) << (2 * place))
        })
    };
    program.types.iter().map(number).collect()
}

fn seeds(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Seed>> {
    // Numbers with few digits other than 0 lead to a special kind of program.
    let value = prop_oneof![any::<u64>(), 0..4_u64, (0..64).prop_map(|place| 1_u64 << place)];
    prop::collection::vec((any::<u8>(), any::<[u16; 3]>(), value), count)
}

proptest! {
    #[test]
    fn lowering_keeps_the_meaning(
        set in 0..SETS.len(),
        inputs in prop::collection::vec((any::<u8>(), 0..=5u32), 1..5),
        seeds in seeds(0..60),
        values in prop::collection::vec(prop_oneof![any::<u64>(), Just(0), Just(u64::MAX), 0u64..4], 5),
    ) {
        let made = RandomProgram::new(SETS[set], &inputs, &seeds);
        let program = made.program();
        let expected = made.run(&values);
        for goal in [Goal::Work, Goal::Depth] {
            let graph = program.lower(goal);
            prop_assert!(graph.pbs_count() <= program.bootstraps_max());
            let mut degrees = graph.outputs.iter().flatten().zip(program.output_degrees().flatten());
            prop_assert!(degrees.all(|(output, bound)| output.degree <= bound));
            prop_assert_eq!(run(&graph, &made, &values), expected.clone(), "{:?}", goal);
        }
    }

    #[test]
    fn broken_programs_do_not_panic(
        inputs in prop::collection::vec((any::<u8>(), 0..=5u32), 1..5),
        seeds in seeds(0..20),
        at in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let mut bytes = RandomProgram::new(SETS[0], &inputs, &seeds).message.encode_to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(program) = Program::decode(&bytes, &LIMITS) {
            let graph = program.lower(Goal::Depth);
            prop_assert_eq!(graph.outputs.len(), program.output_types().len());
        }
    }
}

/// The cost of divisions comes closest to the estimate. The test divides numbers of all lengths,
/// under the sets that bear least and most noise.
#[test]
fn the_estimate_bounds_the_cost_of_divisions() {
    let lengths = [2, 4, 8, 64, 80].map(|bits| (bits, [0, 1, 5])).into_iter();
    let lengths = lengths.flat_map(|(bits, levels)| levels.map(|level| (bits, level))).chain([(256, 5)]);
    for (set, (bits, level)) in SETS.iter().flat_map(|set| lengths.clone().map(move |length| (set, length))) {
        for ty in [wire::Type::Uint, wire::Type::Int] {
            let input = |name: &str| wire::program::Input {
                name: name.into(),
                r#type: ty.into(),
                bits,
                fresh: level == 0,
                noise_level_max: level,
                ..Default::default()
            };
            let arguments = vec![0, 1];
            let operation = wire::Operation { kind: Kind::Remainder.into(), arguments, ..Default::default() };
            let message = wire::Program {
                parameter_set: (*set).to_owned(),
                inputs: vec![input("x"), input("y")],
                operations: vec![operation],
                outputs: vec![2],
                ..Default::default()
            };
            let program = Program::decode(&message.encode_to_vec(), &LIMITS).expect("within the limits");
            for goal in [Goal::Work, Goal::Depth] {
                let (got, said) = (program.lower(goal).pbs_count(), program.bootstraps_max());
                assert!(got <= said, "{got} of {said}: {ty:?} of {bits} bits, noise {level}, {goal:?}, {set}");
            }
        }
    }
}

/// The lowerings of the cipher and of the largest table are unlike any other, so their costs are
/// tested as well.
#[test]
fn the_estimate_bounds_the_cost_of_ciphers_and_tables() {
    let input = |name: &str, bits| wire::program::Input {
        name: name.into(),
        r#type: wire::Type::Uint.into(),
        bits,
        ..Default::default()
    };
    let constant = |value: u8| wire::Operation {
        kind: Kind::Constant.into(),
        r#type: wire::Type::Uint.into(),
        bits: 8,
        value: vec![value],
        ..Default::default()
    };
    // Keys 0 to 255, each with a different result.
    let keys = (0..=u8::MAX).flat_map(|key| [constant(key), constant(key.wrapping_mul(151))]);
    let lookup = |arguments: Vec<u32>| wire::Operation { kind: Kind::Match.into(), arguments, ..Default::default() };
    let table: Vec<_> = keys.chain([lookup([0].into_iter().chain(1..=512).chain([2]).collect())]).collect();
    let cipher = wire::Operation { kind: Kind::Aes128Encrypt.into(), arguments: vec![0, 1], ..Default::default() };
    for set in SETS {
        for (inputs, operations) in
            [(vec![input("key", 128), input("block", 128)], vec![cipher.clone()]), (vec![input("x", 8)], table.clone())]
        {
            let outputs = vec![(inputs.len() + operations.len() - 1) as u32];
            let message =
                wire::Program { parameter_set: set.to_owned(), inputs, operations, outputs, ..Default::default() };
            let program = Program::decode(&message.encode_to_vec(), &LIMITS).expect("within the limits");
            for goal in [Goal::Work, Goal::Depth] {
                let (got, said) = (program.lower(goal).pbs_count(), program.bootstraps_max());
                assert!(got > 0 && got <= said, "{got} of {said}: {goal:?}, {set}");
            }
        }
    }
}

/// The limit on bootstraps applies to the estimate, which is computed from types alone.
#[test]
fn programs_with_too_many_bootstraps_are_refused() {
    let bits = 256;
    let input = |name: &str| wire::program::Input {
        name: name.into(),
        r#type: wire::Type::Uint.into(),
        bits,
        ..Default::default()
    };
    let operation = |kind: Kind| wire::Operation { kind: kind.into(), arguments: vec![0, 1], ..Default::default() };
    let message = wire::Program {
        parameter_set: SETS[0].to_owned(),
        inputs: vec![input("x"), input("y")],
        operations: vec![operation(Kind::Multiply); 3],
        outputs: vec![2, 3, 4],
        ..Default::default()
    };
    assert!(Program::decode(&message.encode_to_vec(), &LIMITS).is_ok());
    let many = wire::Program { operations: vec![operation(Kind::Multiply); 4], ..message };
    let refused = Program::decode(&many.encode_to_vec(), &LIMITS).expect_err("too much");
    assert!(matches!(refused, ProgramError::TooManyBootstraps { .. }), "{refused}");
}

/// Constants take no bootstraps, but take up memory.
#[test]
fn constants_are_counted() {
    let constant = wire::Operation {
        kind: Kind::Constant.into(),
        r#type: wire::Type::Uint.into(),
        bits: 256,
        ..Default::default()
    };
    let message = wire::Program {
        parameter_set: SETS[0].to_owned(),
        operations: vec![constant; LIMITS.operations],
        outputs: vec![0],
        ..Default::default()
    };
    let refused = Program::decode(&message.encode_to_vec(), &LIMITS).expect_err("too much");
    assert!(matches!(refused, ProgramError::TooManyBootstraps { .. }), "{refused}");
}

/// Digits that are always 0 in products with numbers such as 2^16 take no bootstraps. The noise of
/// outputs stays within the set's limit.
#[test]
fn digits_of_products_that_are_always_zero_are_known() {
    let input = |name: &str| wire::program::Input {
        name: name.into(),
        r#type: wire::Type::Uint.into(),
        bits: 64,
        ..Default::default()
    };
    let operation = |kind: Kind, arguments: &[u32]| wire::Operation {
        kind: kind.into(),
        arguments: arguments.to_vec(),
        ..Default::default()
    };
    let constant = |value: u64| wire::Operation {
        r#type: wire::Type::Uint.into(),
        bits: 64,
        value: value.to_le_bytes().to_vec(),
        ..operation(Kind::Constant, &[])
    };
    for (value, most) in [(0, 0), (1 << 16, 160), (1 << 62, 10), (1, 160)] {
        for goal in [Goal::Work, Goal::Depth] {
            let message = wire::Program {
                parameter_set: SETS[0].to_owned(),
                inputs: vec![input("x"), input("y")],
                operations: vec![operation(Kind::Add, &[0, 1]), constant(value), operation(Kind::Multiply, &[2, 3])],
                outputs: vec![4],
                ..Default::default()
            };
            let graph = Program::decode(&message.encode_to_vec(), &LIMITS).expect("a program").lower(goal);
            assert!(graph.pbs_count() <= most, "{value}: {} for {goal:?}", graph.pbs_count());
            assert!(graph.outputs[0].iter().all(|output| output.noise_level <= 5));
        }
    }
}

/// A selected boolean is a boolean, and can be the condition of the next selection.
#[test]
fn a_chosen_boolean_is_a_condition() {
    let input = |ty: Type| {
        let (r#type, bits) = ty.wire();
        wire::program::Input { r#type: r#type.into(), bits, ..Default::default() }
    };
    let operation = |kind: Kind, arguments: &[u32]| wire::Operation {
        kind: kind.into(),
        arguments: arguments.to_vec(),
        ..Default::default()
    };
    let (r#type, value) = (wire::Type::Uint.into(), vec![1]);
    let one = wire::Operation { r#type, bits: 8, value, ..operation(Kind::Constant, &[]) };
    let message = wire::Program {
        parameter_set: SETS[0].to_owned(),
        inputs: [Type::Uint(8), Type::Bool, Type::Bool].map(input).to_vec(),
        operations: vec![one, operation(Kind::Match, &[0, 3, 1, 2]), operation(Kind::Mux, &[4, 0, 3])],
        outputs: vec![4, 5],
        ..Default::default()
    };
    let program = Program::decode(&message.encode_to_vec(), &LIMITS).expect("a program");
    let step = program.set().plaintext_step();
    for goal in [Goal::Work, Goal::Depth] {
        let graph = program.lower(goal);
        assert_eq!(graph.outputs[0][0].degree, 1);
        for (k, yes, no) in [(1, 1, 0), (1, 0, 1), (2, 1, 0), (2, 0, 1)] {
            let chosen = if k == 1 { yes } else { no };
            let phases = [k, 0, 0, 0, yes, no].map(|digit| digit * step);
            let expected = [chosen, if chosen == 1 { k } else { 1 }, 0, 0, 0].map(|digit| digit * step);
            assert_eq!(graph.evaluate(&phases).expect("it runs"), expected, "{k} {yes} {no}");
        }
    }
}

/// The figures of docs/gpu.md: bootstraps of a program, and those that stay under the set's own key
/// because their results enter sums without room for a companion's noise.
#[test]
fn products_and_divisions_keep_few_bootstraps_under_the_sets_own_key() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gpu.md");
    let page = std::fs::read_to_string(page).expect("docs/gpu.md");
    let mut rows = String::new();
    for (name, kind) in
        [("add", Kind::Add), ("multiply", Kind::Multiply), ("divide", Kind::Divide), ("remainder", Kind::Remainder)]
    {
        let input = |name: &str| wire::program::Input {
            name: name.into(),
            r#type: wire::Type::Uint.into(),
            bits: 64,
            noise_level_max: 1,
            ..Default::default()
        };
        let message = wire::Program {
            parameter_set: SETS[0].to_owned(),
            inputs: vec![input("x"), input("y")],
            operations: vec![wire::Operation { kind: kind.into(), arguments: vec![0, 1], ..Default::default() }],
            outputs: vec![2],
            ..Default::default()
        };
        let program = Program::decode(&message.encode_to_vec(), &LIMITS).expect("within the limits");
        let graph = program.lower(Goal::Work);
        let tables = || graph.nodes.iter().filter(|node| node.table.is_some());
        let own = tables().filter(|node| !node.may_be_noisier).count();
        rows += &format!("| u64 {name} | {} | {own} |\n", tables().count());
    }
    assert!(page.contains(&rows), "docs/gpu.md lacks the rows\n{rows}");
}
