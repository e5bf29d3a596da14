//! Arrays: their effect on programs, and refusals of invalid arrays.

use cloakwork_circuit::{
    Goal, LIMITS, Program, ProgramError, RowType, Type,
    wire::{self, operation::Kind},
};
use prost::Message as _;

const SET: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";

fn input(name: &str, bits: u32, length: u32) -> wire::program::Input {
    let (name, r#type) = (name.to_owned(), wire::Type::Uint.into());
    wire::program::Input { name, r#type, bits, length, ..Default::default() }
}

fn operation(kind: Kind, arguments: &[u32]) -> wire::Operation {
    wire::Operation { kind: kind.into(), arguments: arguments.to_vec(), ..Default::default() }
}

fn decode(message: &wire::Program) -> Result<Program, ProgramError> {
    Program::decode(&message.encode_to_vec(), &LIMITS)
}

/// An array of three and one more input, with a sum and a comparison. The first outputs are the
/// array in reverse.
fn message(inputs: Vec<wire::program::Input>, output_lengths: &[u32]) -> wire::Program {
    wire::Program {
        parameter_set: SET.to_owned(),
        inputs,
        operations: vec![operation(Kind::Sum, &[0, 1, 2, 3]), operation(Kind::IsOneOf, &[3, 0, 1, 2])],
        outputs: vec![2, 1, 0, 4, 5],
        output_lengths: output_lengths.to_vec(),
    }
}

#[test]
fn an_array_is_its_elements() {
    let array = decode(&message(vec![input("xs", 8, 3), input("y", 8, 0)], &[3, 0, 0])).expect("a program");
    let names = ["x0", "x1", "x2", "y"];
    let single = decode(&message(names.map(|name| input(name, 8, 0)).to_vec(), &[])).expect("a program");
    let of = |ty, length| RowType { ty, length };
    assert_eq!(
        array.inputs().iter().map(|input| input.row).collect::<Vec<_>>(),
        [of(Type::Uint(8), Some(3)), of(Type::Uint(8), None)]
    );
    assert_eq!(
        array.output_types().collect::<Vec<_>>(),
        [of(Type::Uint(8), Some(3)), of(Type::Uint(8), None), of(Type::Bool, None)]
    );
    assert_eq!(array.bootstraps_max(), single.bootstraps_max());
    for goal in [Goal::Work, Goal::Depth] {
        let (array, single) = (array.lower(goal), single.lower(goal));
        assert_eq!((&array.inputs[..], &single.inputs[..]), (&[12, 4][..], &[4, 4, 4, 4][..]));
        assert_eq!(array.outputs.iter().map(Vec::len).collect::<Vec<_>>(), [12, 4, 1]);
        assert_eq!((&array.nodes, &array.tables), (&single.nodes, &single.tables));
        assert_eq!(array.outputs.concat(), single.outputs.concat());
    }
}

#[test]
fn arrays_of_blocks_and_of_bits() {
    let bits = wire::program::Input { r#type: wire::Type::Bool.into(), length: 4, ..Default::default() };
    let gates = wire::Program {
        parameter_set: "DEFAULT_PARAMETERS".to_owned(),
        inputs: vec![bits],
        operations: vec![operation(Kind::And, &[0, 1]), operation(Kind::Or, &[2, 3])],
        outputs: vec![4, 5],
        output_lengths: vec![2],
    };
    let graph = decode(&gates).expect("a program").lower(Goal::Work);
    assert_eq!((&graph.inputs[..], graph.outputs.len(), graph.outputs[0].len()), (&[4][..], 1, 2));
    let block = |degree_max| wire::program::Input {
        r#type: wire::Type::Block.into(),
        length: 2,
        degree_max,
        ..Default::default()
    };
    let blocks = wire::Program {
        parameter_set: SET.to_owned(),
        inputs: vec![block(0), block(15)],
        outputs: vec![3, 0],
        ..Default::default()
    };
    let graph = decode(&blocks).expect("a program").lower(Goal::Work);
    assert_eq!(graph.outputs.concat().iter().map(|output| output.degree).collect::<Vec<_>>(), [15, 3]);
}

#[test]
fn refusals_say_what_would_be_right() {
    let inputs = || vec![input("xs", 8, 3), input("y", 8, 0)];
    for (message, words) in [
        (message(inputs(), &[3]), "the outputs' lengths say 3 values to return: there are 5"),
        (message(inputs(), &[3, u32::MAX]), "the outputs' lengths say 4294967298 values to return: there are 5"),
        (message(inputs(), &[0, 4]), "output 1 is an array of u8 and bool: its elements must have one type"),
        (
            message(vec![input("xs", 8, 3)], &[]),
            "operation 0 (KIND_SUM): argument 3 does not exist here: 3 values come before it",
        ),
        (
            message(vec![input("xs", 8, u32::MAX); 1024], &[]),
            "4398046510085 blocks of inputs and outputs: a program may have 16384",
        ),
        (message(vec![input("xs", 256, 256)], &[]), "33408 blocks of inputs and outputs: a program may have 16384"),
    ] {
        assert_eq!(decode(&message).expect_err("it is wrong").to_string(), words);
    }
}
