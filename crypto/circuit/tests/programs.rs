//! Invalid programs are refused with a reason, and valid programs compute the same after lowering.

use cloakwork_circuit::{
    Goal, Graph, LIMITS, Program, ProgramError, RowType, Type,
    wire::{self, operation::Kind},
};
use cloakwork_params::Encoding;
use proptest::prelude::*;
use prost::Message as _;

const SHORTINT: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";
const LARGE: &str = "V1_8_PARAM_MESSAGE_3_CARRY_3_KS_PBS_TUNIFORM_2M128";
const BOOLEAN: &str = "DEFAULT_PARAMETERS";

fn inputs(count: usize, ty: wire::Type) -> Vec<wire::program::Input> {
    let input = |index| wire::program::Input { name: format!("x{index}"), r#type: ty.into(), ..Default::default() };
    (0..count).map(input).collect()
}

fn operation(kind: Kind, arguments: &[u32], tables: &[&[u32]]) -> wire::Operation {
    let tables = tables.iter().map(|entries| wire::Table { entries: entries.to_vec() }).collect();
    wire::Operation { kind: kind.into(), arguments: arguments.to_vec(), tables, ..Default::default() }
}

fn blocks(operations: Vec<wire::Operation>, outputs: &[u32]) -> wire::Program {
    let inputs = inputs(2, wire::Type::Block);
    wire::Program {
        parameter_set: SHORTINT.into(),
        inputs,
        operations,
        outputs: outputs.to_vec(),
        ..Default::default()
    }
}

fn decode(program: &wire::Program) -> Result<Program, ProgramError> {
    Program::decode(&program.encode_to_vec(), &LIMITS)
}

fn refusal(program: &wire::Program) -> String {
    decode(program).expect_err("the program is wrong").to_string()
}

#[test]
fn a_program_is_named_by_its_bytes() {
    let program = blocks(vec![operation(Kind::Lookup, &[0], &[&[3, 2, 1]])], &[2]);
    let decoded = decode(&program).expect("the program is right");
    assert_eq!(decoded.id().0, *blake3::hash(&program.encode_to_vec()).as_bytes());
    assert_eq!(decoded.output_types().collect::<Vec<_>>(), [RowType { ty: Type::Block, length: None }]);
    let graph = decoded.lower(Goal::Work);
    assert_eq!((graph.pbs_count(), graph.depth()), (1, 1));
    assert_eq!((graph.outputs[0][0].degree, graph.outputs[0][0].noise_level), (3, 1));
}

#[test]
fn refusals_say_where_and_what() {
    let lookup = |arguments: &[u32], tables: &[&[u32]]| blocks(vec![operation(Kind::Lookup, arguments, tables)], &[2]);
    for (program, words) in [
        (lookup(&[0], &[]), "operation 0 (KIND_LOOKUP): 0 tables: it takes 1 to 1"),
        (lookup(&[0, 1], &[&[1]]), "operation 0 (KIND_LOOKUP): 2 arguments: it takes 1"),
        (lookup(&[2], &[&[1]]), "operation 0 (KIND_LOOKUP): argument 2 does not exist here: 2 values come before it"),
        (lookup(&[0], &[&[16]]), "operation 0 (KIND_LOOKUP): table 0 holds 16: blocks hold 0 to 15"),
        (lookup(&[0], &[&[0; 17]]), "operation 0 (KIND_LOOKUP): table 0 has 17 entries: at most 16"),
        (blocks(vec![], &[]), "the program has no outputs"),
        (blocks(vec![], &[2]), "output 0 is value 2, but there are 2 values"),
        (
            blocks(vec![operation(Kind::And, &[0, 1], &[])], &[2]),
            "operation 0 (KIND_AND): it takes integers and booleans, not blocks",
        ),
        (
            blocks(vec![operation(Kind::Unspecified, &[], &[])], &[0]),
            "operation 0 (KIND_UNSPECIFIED): this version knows no such operation",
        ),
        (
            wire::Program { parameter_set: "no such set".into(), ..blocks(vec![], &[0]) },
            "no parameter set is called 'no such set'",
        ),
        (
            wire::Program { parameter_set: LARGE.into(), inputs: inputs(1, wire::Type::Bool), ..blocks(vec![], &[0]) },
            "input 0 ('x0'): values of type bool: only sets of two message and two carry bits have them, not this one",
        ),
    ] {
        assert_eq!(refusal(&program), words);
    }
}

#[test]
fn degrees_and_noise_are_checked() {
    let bivariate = operation(Kind::LookupBivariate, &[2, 3], &[&[1]]);
    let wide = operation(Kind::Lookup, &[0], &[&[15]]);
    let narrow = operation(Kind::Lookup, &[1], &[&[3]]);
    let ok = blocks(vec![narrow.clone(), narrow.clone(), bivariate.clone()], &[4]);
    assert!(decode(&ok).is_ok());
    let left = refusal(&blocks(vec![wide.clone(), narrow.clone(), bivariate.clone()], &[4]));
    assert_eq!(
        left,
        "operation 2 (KIND_LOOKUP_BIVARIATE): both arguments together can reach 63: a block holds 0 to 15"
    );
    let right = refusal(&blocks(vec![narrow, wide.clone(), bivariate], &[4]));
    assert_eq!(right, "operation 2 (KIND_LOOKUP_BIVARIATE): the second argument can be 15: it must stay below 4");
    let many = operation(Kind::LookupMany, &[2], &[&[1], &[2], &[3]]);
    let many = refusal(&blocks(vec![wide, many], &[3]));
    assert_eq!(many, "operation 1 (KIND_LOOKUP_MANY): its argument can be 15: with 3 tables it must stay below 5");

    let mut noisy = blocks(vec![operation(Kind::LookupBivariate, &[0, 1], &[&[1]])], &[2]);
    noisy.inputs[0].noise_level_max = 2;
    let noisy = refusal(&noisy);
    assert!(noisy.ends_with("both arguments together have a noise level of 9: the set bears 5"), "{noisy}");
}

#[test]
fn limits_hold() {
    let many = blocks(vec![operation(Kind::Lookup, &[0], &[&[1]]); LIMITS.operations + 1], &[0]);
    assert_eq!(refusal(&many), "16385 operations: a program may have 16384");
    let long = vec![0; LIMITS.bytes + 1];
    let error = Program::decode(&long, &LIMITS).expect_err("too long");
    assert_eq!(error, ProgramError::TooMany { what: "bytes", max: 1 << 20, got: (1 << 20) + 1 });
}

/// Runs a graph on clear inputs.
fn run_graph(graph: &Graph, inputs: &[u64]) -> Vec<u64> {
    let step = graph.set.plaintext_step();
    let is_boolean = graph.set.encoding == Encoding::Boolean;
    let encode = |value: &u64| match is_boolean {
        true => {
            if *value == 1 {
                step
            } else {
                step.wrapping_neg()
            }
        }
        false => value * step,
    };
    let decode = |phase: u64| match is_boolean {
        true => u64::from(phase < 1 << 63),
        false => phase / step,
    };
    let inputs: Vec<u64> = inputs.iter().map(encode).collect();
    graph.evaluate(&inputs).expect("every phase has an entry").into_iter().map(decode).collect()
}

/// Runs a program on clear inputs, operation by operation.
fn run_program(program: &wire::Program, inputs: &[u64]) -> Vec<u64> {
    let mut values = inputs.to_vec();
    for operation in &program.operations {
        let argument = |index: usize| values[operation.arguments[index] as usize];
        let look_up =
            |table: &wire::Table, at: u64| table.entries.get(at as usize).map_or(0, |entry| u64::from(*entry));
        let bit = |value: bool| vec![u64::from(value)];
        let results = match operation.kind() {
            Kind::Lookup => vec![look_up(&operation.tables[0], argument(0))],
            Kind::LookupBivariate => vec![look_up(&operation.tables[0], argument(0) * 4 + argument(1))],
            Kind::LookupMany => operation.tables.iter().map(|table| look_up(table, argument(0))).collect(),
            Kind::Not => bit(argument(0) == 0),
            Kind::And => bit(argument(0) + argument(1) == 2),
            Kind::Nand => bit(argument(0) + argument(1) < 2),
            Kind::Nor => bit(argument(0) + argument(1) == 0),
            Kind::Or => bit(argument(0) + argument(1) > 0),
            Kind::Xnor => bit(argument(0) == argument(1)),
            Kind::Xor => bit(argument(0) != argument(1)),
            Kind::Mux => vec![if argument(0) == 1 { argument(1) } else { argument(2) }],
            other => unreachable!("{other:?} is never generated"),
        };
        values.extend(results);
    }
    program.outputs.iter().map(|&output| values[output as usize]).collect()
}

/// Builds a valid program out of random numbers.
fn any_program(ty: wire::Type, seeds: &[(u8, [u32; 3], Vec<u32>)]) -> wire::Program {
    let boolean = ty == wire::Type::Bool;
    let mut values = 3u32;
    let mut operations = Vec::new();
    for (choice, arguments, entries) in seeds {
        let arguments = arguments.map(|argument| argument % values);
        // Entries below 4 keep every later operation possible.
        let entries: Vec<u32> = entries.iter().map(|entry| entry % 4).collect();
        let (kind, arity, tables) = match (boolean, choice % 8) {
            (true, 7) => (Kind::Mux, 3, vec![]),
            (true, 6) => (Kind::Not, 1, vec![]),
            (true, other) => {
                let gates = [Kind::And, Kind::Nand, Kind::Nor, Kind::Or, Kind::Xnor, Kind::Xor];
                (gates[other as usize], 2, vec![])
            }
            (false, 0..=2) => (Kind::Lookup, 1, vec![entries]),
            (false, 3..=5) => (Kind::LookupBivariate, 2, vec![entries]),
            (false, _) => (Kind::LookupMany, 1, vec![entries[..2].to_vec(), entries[2..6].to_vec()]),
        };
        values += tables.len().max(1) as u32;
        let tables: Vec<&[u32]> = tables.iter().map(Vec::as_slice).collect();
        operations.push(operation(kind, &arguments[..arity], &tables));
    }
    let parameter_set = if boolean { BOOLEAN } else { SHORTINT }.into();
    wire::Program {
        parameter_set,
        inputs: inputs(3, ty),
        operations,
        outputs: (0..values).collect(),
        ..Default::default()
    }
}

proptest! {
    #[test]
    fn lowering_keeps_the_meaning(
        boolean: bool,
        seeds in prop::collection::vec((any::<u8>(), any::<[u32; 3]>(), prop::collection::vec(any::<u32>(), 16)), 0..20),
        values in any::<[u64; 3]>(),
    ) {
        let ty = if boolean { wire::Type::Bool } else { wire::Type::Block };
        let program = any_program(ty, &seeds);
        let values = values.map(|value| value % if boolean { 2 } else { 4 });
        let graph = decode(&program).expect("right by construction").lower(Goal::Work);
        prop_assert_eq!(run_graph(&graph, &values), run_program(&program, &values));
        let degrees = graph.outputs.iter().flatten().map(|output| u64::from(output.degree));
        let bounds = decode(&program).expect("right by construction").output_degrees().flatten().collect::<Vec<_>>();
        for ((degree, bound), value) in degrees.zip(bounds).zip(run_program(&program, &values)) {
            prop_assert!(value <= degree && degree <= u64::from(bound));
        }
    }

    #[test]
    fn garbage_is_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Program::decode(&bytes, &LIMITS);
    }

    #[test]
    fn broken_programs_do_not_panic(
        seeds in prop::collection::vec((any::<u8>(), any::<[u32; 3]>(), prop::collection::vec(any::<u32>(), 16)), 1..8),
        at in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let mut bytes = any_program(wire::Type::Block, &seeds).encode_to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(program) = Program::decode(&bytes, &LIMITS) {
            let graph = program.lower(Goal::Work);
            prop_assert_eq!(graph.outputs.len(), program.output_types().len());
        }
    }
}
