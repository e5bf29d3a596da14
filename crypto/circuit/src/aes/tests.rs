use cloakwork_params::{Encoding, ParameterSet, table::SETS};
use proptest::prelude::*;

use super::*;
use crate::{Goal, Graph};

fn sets() -> impl Iterator<Item = &'static ParameterSet> {
    SETS.iter().filter(|set| matches!(set.encoding, Encoding::Shortint { message_modulus: 4, carry_modulus: 4, .. }))
}

fn digits_of(number: u128) -> impl Iterator<Item = i64> {
    (0..64).map(move |place| (number >> (2 * place) & 3) as i64)
}

/// The graph for a key and blocks, each encrypted (`None`) or in the clear.
fn graph(set: &'static ParameterSet, goal: Goal, key: Option<u128>, blocks: &[Option<u128>]) -> Graph {
    let mut draft = Draft::new(set, goal);
    let mut inputs = Vec::new();
    let mut number = |draft: &mut Draft, clear: Option<u128>| -> Digits {
        match clear {
            Some(number) => digits_of(number).map(Cell::constant).collect(),
            None => {
                inputs.push(64);
                (0..64).map(|_| draft.input(3, 1)).collect()
            }
        }
    };
    let key = number(&mut draft, key);
    let blocks: Vec<Digits> = blocks.iter().map(|block| number(&mut draft, *block)).collect();
    let outputs: Vec<Digits> = blocks.iter().map(|block| encrypt(&mut draft, &key, block)).collect();
    draft.finish(inputs, &outputs)
}

fn run(graph: &Graph, inputs: &[u128]) -> Vec<u128> {
    let step = graph.set.plaintext_step();
    let phases: Vec<u64> =
        inputs.iter().flat_map(|number| digits_of(*number)).map(|digit| digit as u64 * step).collect();
    let outputs = graph.evaluate(&phases).expect("every phase has an entry");
    let number = |digits: &[u64]| digits.iter().rev().fold(0, |number, digit| (number << 2) | u128::from(digit / step));
    outputs.chunks(64).map(number).collect()
}

/// FIPS 197, appendix B and C.1: key, block, result.
const VECTORS: [[u128; 3]; 2] = [
    [
        0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3c,
        0x3243_f6a8_885a_308d_3131_98a2_e037_0734,
        0x3925_841d_02dc_09fb_dc11_8597_196a_0b32,
    ],
    [
        0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f,
        0x0011_2233_4455_6677_8899_aabb_ccdd_eeff,
        0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a,
    ],
];

#[test]
fn the_standards_examples() {
    for set in sets() {
        for goal in [Goal::Work, Goal::Depth] {
            let encrypted = graph(set, goal, None, &[None]);
            for [key, block, expected] in VECTORS {
                assert_eq!(run(&encrypted, &[key, block]), [expected], "{goal:?}, {}", set.name);
                let clear = graph(set, goal, Some(key), &[Some(block)]);
                assert_eq!((run(&clear, &[]), clear.pbs_count()), (vec![expected], 0), "{goal:?}, {}", set.name);
            }
        }
    }
}

#[test]
fn every_byte_is_substituted() {
    let set = sets().next().expect("a set");
    let mut draft = Draft::new(set, Goal::Work);
    let input: Digits = (0..4).map(|_| draft.input(3, 1)).collect();
    let byte = bytes(&mut draft, &input);
    let substituted = Substitution::new().of(&mut draft, &byte[0]);
    let output = digits(&mut draft, &[substituted]);
    let graph = draft.finish(vec![4], &[output]);
    assert_eq!((graph.pbs_count(), graph.depth()), (4 + 40 + 8, 1 + 5 + 1));
    let step = set.plaintext_step();
    for byte in 0..=u8::MAX {
        let phases: Vec<u64> = (0..4).map(|place| u64::from(byte >> (2 * place) & 3) * step).collect();
        let outputs = graph.evaluate(&phases).expect("it runs");
        let got = outputs.iter().rev().fold(0, |number, digit| (number << 2) | (digit / step));
        assert_eq!(got, u64::from(field::tests::substitute(byte)), "{byte:#04x}");
    }
}

#[test]
fn blocks_under_one_key_expand_it_once() {
    let set = sets().next().expect("a set");
    let count = |blocks: &[Option<u128>]| graph(set, Goal::Work, None, blocks).pbs_count();
    let (number, substitution) = (64, 40);
    let key = number + 40 * substitution;
    // Ten rounds of 16 substitutions, and the result's bits.
    let block = 160 * substitution + 128;
    assert_eq!(count(&[None]), key + number + block);
    assert_eq!(count(&[None, None]), key + 2 * (number + block));
    // Counter blocks differ in one byte in the first round and in four in the second. Where a byte
    // is 0, the first substitutions are those of the key.
    assert!(count(&[Some(0), Some(1)]) <= key + 2 * block - (15 + 12 + 4) * substitution);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn both_goals_compute_the_same(key: u128, block: u128, counter: u128) {
        let set = sets().next().expect("a set");
        let results = [Goal::Work, Goal::Depth]
            .map(|goal| run(&graph(set, goal, None, &[None, Some(counter)]), &[key, block]));
        prop_assert_eq!(&results[0], &results[1]);
        let alone = run(&graph(set, Goal::Work, Some(key), &[None]), &[counter]);
        prop_assert_eq!(&results[0][1..], &alone[..]);
    }
}
