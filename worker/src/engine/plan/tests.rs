use cloakwork_circuit::{Goal, LIMITS, Program, wire};
use prost::Message as _;

use super::*;

/// A plan of one operation on two integers.
fn plan(kind: wire::operation::Kind, bits: u32) -> Plan {
    let input = |name: &str| wire::program::Input {
        name: name.to_owned(),
        r#type: wire::Type::Uint.into(),
        bits,
        ..Default::default()
    };
    let operation = wire::Operation { kind: kind.into(), arguments: vec![0, 1], ..Default::default() };
    let message = wire::Program {
        parameter_set: "TOY_MESSAGE_2_CARRY_2".to_owned(),
        inputs: vec![input("x"), input("y")],
        operations: vec![operation],
        outputs: vec![2],
        ..Default::default()
    };
    let program = Program::decode(&message.encode_to_vec(), &LIMITS).expect("a program");
    Plan::new(program.lower(Goal::Work))
}

#[test]
fn a_narrow_window_of_a_deep_program_takes_few_slots() {
    let plan = plan(wire::operation::Kind::Aes128Encrypt, 128);
    let whole = plan.whole();
    assert_eq!((whole.nodes, whole.slots <= plan.uses.len() as u32), (plan.graph.nodes.len(), true));
    assert!(plan.windows.is_sorted_by_key(|window| std::cmp::Reverse(window.nodes)));
    assert!(plan.windows.is_sorted_by_key(|window| std::cmp::Reverse(window.slots)));
    assert_eq!(plan.windows.last().map(|window| window.nodes), Some(1));
    let window = plan.window(256, 1 << 16);
    assert!((256..512).contains(&window.nodes) && 5 * window.slots < whole.slots, "{window:?} of {whole:?}");
}

#[test]
fn the_window_depends_on_lanes_and_free_slots() {
    let plan = plan(wire::operation::Kind::Divide, 64);
    let whole = plan.whole();
    assert_eq!(plan.window(usize::MAX, whole.slots), whole, "all of it, where waves are as wide");
    let narrow = plan.window(64, whole.slots);
    assert!((64..128).contains(&narrow.nodes), "as wide as waves need: {narrow:?}");
    let tight = plan.window(64, narrow.slots - 1);
    assert!(tight.nodes < 64 && tight.slots < narrow.slots, "the widest that fits: {tight:?}");
    let none = plan.window(64, 1);
    assert_eq!((none.nodes, none.slots > 1), (1, true), "nothing does");
}

#[test]
fn a_program_without_nodes_needs_slots_for_its_inputs() {
    let message = wire::Program {
        parameter_set: "TOY_MESSAGE_2_CARRY_2".to_owned(),
        inputs: vec![wire::program::Input { r#type: wire::Type::Uint.into(), bits: 8, ..Default::default() }],
        outputs: vec![0],
        ..Default::default()
    };
    let program = Program::decode(&message.encode_to_vec(), &LIMITS).expect("a program");
    assert_eq!(Plan::new(program.lower(Goal::Work)).whole().slots, 4);
}
