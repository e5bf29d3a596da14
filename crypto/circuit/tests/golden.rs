//! Stored programs remain valid for ever, and compute what they computed when they were stored.

use std::{collections::BTreeSet, fs};

use cloakwork_circuit::{
    Goal, LIMITS, Program,
    wire::{self, operation::Kind},
};
use cloakwork_tests_programs::golden::{Golden, file, stored};
use prost::Message as _;

#[test]
fn stored_programs_compute_what_they_did() {
    for golden in stored() {
        let program = Program::decode(&golden.program, &LIMITS).expect("what was a program is one");
        for goal in [Goal::Work, Goal::Depth] {
            let outputs = program.lower(goal).evaluate(&golden.inputs).expect("it runs");
            assert_eq!(outputs, golden.outputs, "{} for {goal:?}", golden.name);
        }
    }
}

/// With `CLOAKWORK_UPDATE_GOLDEN=1`, stores a program for each operation that has none. Stored
/// programs stay unchanged.
#[test]
fn every_operation_has_a_stored_program() {
    let mut stored = stored();
    let known: BTreeSet<String> = stored.iter().map(|golden| golden.name.clone()).collect();
    let missing: Vec<Golden> = all().into_iter().filter(|golden| !known.contains(&golden.name)).collect();
    if std::env::var_os("CLOAKWORK_UPDATE_GOLDEN").is_some() {
        stored.extend(missing);
        let text: String = stored.iter().map(Golden::line).collect();
        return fs::write(file(), text).expect("the file can be written");
    }
    let missing: Vec<String> = missing.into_iter().map(|golden| golden.name).collect();
    assert!(missing.is_empty(), "CLOAKWORK_UPDATE_GOLDEN=1 stores {missing:?}");
}

const SHORTINT: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";
const BOOLEAN: &str = "DEFAULT_PARAMETERS";

/// A program for each operation, with its current results.
fn all() -> Vec<Golden> {
    let kinds = (1..256).filter_map(|number| Kind::try_from(number).ok());
    kinds.flat_map(|kind| [integers(kind), gates(kind)]).flatten().chain([arrays()]).collect()
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
    let graph = Program::decode(&program, &LIMITS).expect("a program").lower(Goal::Work);
    let inputs: Vec<u64> = (0..graph.input_blocks()).map(|place| [2, 1, 3, 0][place % 4] << 59).collect();
    let outputs = graph.evaluate(&inputs).expect("it runs");
    Golden { name: format!("arrays:{SHORTINT}"), program, inputs, outputs }
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
    Some(Golden { name: format!("{}:{set}", kind.as_str_name()), program: bytes, inputs: phases, outputs })
}
