//! Stored programs remain valid for ever, and compute what they computed when they were stored.
//! Their outputs keep their shapes, because a client refuses a result of another shape than the one
//! that its own version plans.

use std::{collections::BTreeSet, fs};

use cloakwork_circuit::{
    Goal, LIMITS, Program, ckks,
    wire::{self, operation::Kind},
};
use cloakwork_tests_programs::{
    RandomVectors,
    golden::{Golden, INTEGERS, VECTORS, path, stored},
};
use prost::Message as _;

#[test]
fn stored_programs_compute_what_they_did() {
    for golden in stored(INTEGERS) {
        let program = Program::decode(&golden.program, &LIMITS).expect("what was a program is one");
        assert_eq!(degrees(&program), golden.shapes, "{}", golden.name);
        for goal in [Goal::Work, Goal::Depth] {
            let outputs = program.lower(goal).evaluate(&golden.inputs).expect("it runs");
            assert_eq!(outputs, golden.outputs, "{} for {goal:?}", golden.name);
        }
    }
}

#[test]
fn results_of_stored_programs_on_vectors_have_the_shapes_that_they_had() {
    let mut kinds = BTreeSet::new();
    for golden in stored(VECTORS) {
        let program = ckks::Program::decode(&golden.program, &ckks::LIMITS).expect("what was a program is one");
        assert_eq!(vectors(&program), golden.shapes, "{}", golden.name);
        let message = wire::Program::decode(&golden.program[..]).expect("a message");
        kinds.extend(message.operations.iter().map(|operation| operation.kind));
    }
    let arithmetic = [Kind::Constant, Kind::Negate, Kind::Add, Kind::Subtract, Kind::Multiply, Kind::Sum];
    let of_vectors = (Kind::Rotate as i32..256).filter_map(|number| Kind::try_from(number).ok());
    for kind in arithmetic.into_iter().chain(of_vectors) {
        assert!(kinds.contains(&kind.into()), "no stored program on vectors has {}", kind.as_str_name());
    }
}

/// With `CLOAKWORK_UPDATE_GOLDEN=1`, stores the programs that are missing. Stored programs stay
/// unchanged.
#[test]
fn every_operation_has_a_stored_program() {
    for (file, all) in [(INTEGERS, all()), (VECTORS, all_on_vectors())] {
        let mut stored = stored(file);
        let known: BTreeSet<String> = stored.iter().map(|golden| golden.name.clone()).collect();
        let missing: Vec<Golden> = all.into_iter().filter(|golden| !known.contains(&golden.name)).collect();
        if std::env::var_os("CLOAKWORK_UPDATE_GOLDEN").is_some() {
            stored.extend(missing);
            let text: String = stored.iter().map(Golden::line).collect();
            fs::write(path(file), text).expect("the file can be written");
            continue;
        }
        let missing: Vec<String> = missing.into_iter().map(|golden| golden.name).collect();
        assert!(missing.is_empty(), "CLOAKWORK_UPDATE_GOLDEN=1 stores {missing:?}");
    }
}

/// For each output, the greatest value of each of its blocks.
fn degrees(program: &Program) -> String {
    let text = |degrees: Vec<u32>| degrees.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    program.output_degrees().map(text).collect::<Vec<_>>().join(";")
}

/// For each output, the log2 of the number of slots, the level, and all bits of the scale.
fn vectors(program: &ckks::Program) -> String {
    let text = |output: &ckks::Output| {
        let ckks::Vector { slots_log2, level, scale } = output.vector;
        format!("{slots_log2}:{level}:{:x}", scale.to_bits())
    };
    program.outputs().iter().map(text).collect::<Vec<_>>().join(";")
}

const SHORTINT: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";
const BOOLEAN: &str = "DEFAULT_PARAMETERS";

/// A program for each operation, with its current results.
fn all() -> Vec<Golden> {
    let kinds = (1..256).filter_map(|number| Kind::try_from(number).ok());
    kinds.flat_map(|kind| [integers(kind), gates(kind)]).flatten().chain([arrays()]).collect()
}

/// Programs of random operations on vectors, with the current shapes of their results.
fn all_on_vectors() -> Vec<Golden> {
    let sets = ["TOY_CKKS_45_60_50", "TOY_CKKS_54_60", "CKKS_45_60_50_H4096", "CKKS_54_60_H4096"];
    let program = |set: &str, number: u64| {
        // With few slots, their total is small enough to be a part of a program.
        let slots_log2 = if number < 6 { 3 } else { 1 };
        let RandomVectors { message, program, .. } = RandomVectors::numbered(number, set, slots_log2, 12);
        Golden {
            name: format!("{number}:{set}"),
            program: message.encode_to_vec(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            shapes: vectors(&program),
        }
    };
    sets.iter().flat_map(|set| (0..9).map(|number| program(set, number))).collect()
}

/// A program that returns an array in reverse, and its sum.
fn arrays() -> Golden {
    let (name, bits, length) = ("xs".to_owned(), 8, 3);
    let input = wire::program::Input { name, r#type: wire::Type::Uint.into(), bits, length, ..Default::default() };
    let sum = wire::Operation { kind: Kind::Sum.into(), arguments: vec![0, 1, 2], ..Default::default() };
    let message = wire::Program {
        parameter_set: SHORTINT.to_owned(),
        inputs: vec![input],
        operations: vec![sum],
        outputs: vec![2, 1, 0, 3],
        output_lengths: vec![3, 0],
    };
    let program = message.encode_to_vec();
    let decoded = Program::decode(&program, &LIMITS).expect("a program");
    let graph = decoded.lower(Goal::Work);
    let inputs: Vec<u64> = (0..graph.input_blocks()).map(|place| [2, 1, 3, 0][place % 4] << 59).collect();
    let outputs = graph.evaluate(&inputs).expect("it runs");
    Golden { name: format!("arrays:{SHORTINT}"), program, inputs, outputs, shapes: degrees(&decoded) }
}

fn integers(kind: Kind) -> Option<Golden> {
    let (unsigned, signed) = (wire::Type::Uint, wire::Type::Int);
    let input = |name: &str, ty: wire::Type, bits| wire::program::Input {
        name: name.to_owned(),
        r#type: ty.into(),
        bits,
        ..Default::default()
    };
    let (ty, count) = match kind {
        Kind::Lookup | Kind::LookupBivariate | Kind::LookupMany => (wire::Type::Block, 2),
        Kind::Mux => (unsigned, 3),
        Kind::Match => (unsigned, 6),
        Kind::Absolute | Kind::Divide => (signed, 2),
        _ => (unsigned, 2),
    };
    let bits = match kind {
        Kind::Aes128Encrypt => 128,
        _ if ty == wire::Type::Block => 0,
        _ => 8,
    };
    let names = ["x", "y", "z", "u", "v", "w"];
    let mut inputs: Vec<_> = names[..count.max(2)].iter().map(|name| input(name, ty, bits)).collect();
    if kind == Kind::Mux {
        inputs.pop();
        inputs.insert(0, input("c", wire::Type::Bool, 0));
    }
    let table = |step: u32| wire::Table { entries: (0..4).map(|x| (x * step + 1) % 4).collect() };
    let tables = match kind {
        Kind::Lookup => vec![table(3)],
        Kind::LookupBivariate => vec![wire::Table { entries: (0..16).map(|both| both * 7 % 4).collect() }],
        Kind::LookupMany => vec![table(1), table(3)],
        _ => Vec::new(),
    };
    // Try each number of arguments until the operation accepts it.
    (0..=inputs.len() as u32).find_map(|arguments| {
        let is_stated = matches!(kind, Kind::Constant | Kind::Cast);
        let operation = wire::Operation {
            kind: kind.into(),
            arguments: (0..arguments).collect(),
            tables: tables.clone(),
            r#type: if is_stated { signed.into() } else { 0 },
            bits: if is_stated { 12 } else { 0 },
            value: if kind == Kind::Constant { vec![0xa7, 0x0c] } else { Vec::new() },
            ..Default::default()
        };
        let results = tables.len().max(1) as u32;
        let first = inputs.len() as u32;
        golden(SHORTINT, kind, inputs.clone(), operation, first..first + results)
    })
}

fn gates(kind: Kind) -> Option<Golden> {
    let input = |name: &&str| wire::program::Input {
        name: (*name).to_owned(),
        r#type: wire::Type::Bool.into(),
        ..Default::default()
    };
    let inputs: Vec<_> = ["x", "y", "z"].iter().map(input).collect();
    (1..=3).find_map(|arguments| {
        let operation =
            wire::Operation { kind: kind.into(), arguments: (0..arguments).collect(), ..Default::default() };
        golden(BOOLEAN, kind, inputs.clone(), operation, 3..4)
    })
}

/// The program of one operation, if that operation is valid.
fn golden(
    set: &str,
    kind: Kind,
    inputs: Vec<wire::program::Input>,
    operation: wire::Operation,
    outputs: std::ops::Range<u32>,
) -> Option<Golden> {
    let message = wire::Program {
        parameter_set: set.to_owned(),
        inputs,
        operations: vec![operation],
        outputs: outputs.collect(),
        ..Default::default()
    };
    let bytes = message.encode_to_vec();
    let program = Program::decode(&bytes, &LIMITS).ok()?;
    let graph = program.lower(Goal::Work);
    let is_bit = |index: usize| message.inputs[index].r#type() == wire::Type::Bool;
    let blocks = graph.inputs.iter().enumerate().flat_map(|(index, blocks)| vec![index; *blocks]);
    let phase = |(place, index): (usize, usize)| match (set == BOOLEAN, is_bit(index)) {
        // 1/8 of the torus for true, -1/8 for false.
        (true, _) => {
            if place.is_multiple_of(2) {
                1 << 61
            } else {
                (1_u64 << 61).wrapping_neg()
            }
        }
        (false, true) => 1 << 59,
        (false, false) => [2, 1, 3, 0][place % 4] << 59,
    };
    let phases: Vec<u64> = blocks.enumerate().map(phase).collect();
    let outputs = graph.evaluate(&phases).ok()?;
    let name = format!("{}:{set}", kind.as_str_name());
    Some(Golden { name, program: bytes, inputs: phases, outputs, shapes: degrees(&program) })
}
