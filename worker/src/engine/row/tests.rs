use std::collections::HashSet;

use cloakwork_circuit::{Graph, Node, Output, Table, Term};
use cloakwork_params::table::by_name;
use proptest::prelude::*;

use super::*;

/// A graph from seeds. For each node, `nodes` has seeds of its terms and the number of its lookup's
/// results, or 0 without a lookup. `outputs` has seeds of the outputs.
fn graph(inputs: usize, nodes: &[(Vec<u16>, usize)], outputs: &[u16]) -> Graph {
    let table = |count: usize| Table::Functions(vec![vec![0; 16 / count]; count]);
    let mut values = inputs;
    let node = |(terms, results): &(Vec<u16>, usize)| {
        let term = |seed: &u16| Term { value: usize::from(*seed) % values, factor: 1 };
        let terms = terms.iter().map(term).collect();
        let first_value = values;
        values += results.max(&1);
        Node { terms, constant: 0, table: results.checked_sub(1), first_value, may_be_noisier: false }
    };
    let nodes = nodes.iter().map(node).collect();
    let output = |seed: &u16| Output { value: usize::from(*seed) % values, degree: 3, noise_level: 1 };
    Graph {
        set: by_name("TOY_MESSAGE_2_CARRY_2").expect("a set"),
        inputs: vec![inputs],
        tables: vec![table(1), table(2)],
        nodes,
        outputs: vec![outputs.iter().map(output).collect()],
    }
}

proptest! {
    /// In any order of completion, a row computes all of its nodes, and each only after its
    /// operands. The row never holds more slots than its window allows.
    #[test]
    fn a_row_stays_within_its_window(
        inputs in 1..5_usize,
        nodes in prop::collection::vec((prop::collection::vec(any::<u16>(), 0..4), 0..3_usize), 0..60),
        outputs in prop::collection::vec(any::<u16>(), 1..5),
        width in 1..70_usize,
        choices in prop::collection::vec((any::<bool>(), any::<u16>()), 400),
    ) {
        let plan = Plan::new(graph(inputs, &nodes, &outputs));
        let window = plan.window(width, u32::MAX);
        prop_assert!(window.nodes >= width.min(nodes.len()));
        let mut slots = Slots::default();
        let mut row = Row::new(0, &plan, window.nodes, &mut slots);
        let (mut flying, mut computed) = (Vec::new(), HashSet::new());
        let mut choices = choices.into_iter().cycle();
        let mut put_back = 0;
        while !row.is_done() {
            let (begins, which) = choices.next().expect("without end");
            if begins && row.ready() > 0 || flying.is_empty() {
                let mut results = Vec::new();
                let node = row.begin(&plan, &mut slots, &mut results).expect("a row that is not done goes on");
                prop_assert_eq!(results.len(), plan.graph.results(node as usize).len());
                for value in needed(&plan.graph.nodes[node as usize]) {
                    prop_assert!(row.slot(value) != NO_SLOT && !results.contains(&row.slot(value)));
                    let is_there = |node: &u32| plan.graph.results(*node as usize).contains(&value);
                    prop_assert!(value < inputs || computed.iter().any(is_there));
                }
                flying.push(node);
            } else {
                let node = flying.swap_remove(usize::from(which) % flying.len());
                if which % 8 == 0 && put_back < 20 {
                    put_back += 1;
                    row.put_back(&plan, node, &mut slots);
                } else {
                    row.computed(&plan, node, &mut slots);
                    prop_assert!(computed.insert(node));
                }
            }
            let held: HashSet<u32> = row.slots.iter().copied().filter(|slot| *slot != NO_SLOT).collect();
            prop_assert!(held.len() <= window.slots as usize, "{} of {window:?}", held.len());
            prop_assert_eq!(held.len(), row.slots.iter().filter(|slot| **slot != NO_SLOT).count(), "a slot of two values");
        }
        prop_assert_eq!(computed.len(), nodes.len());
        for output in plan.graph.outputs.iter().flatten() {
            prop_assert!(row.slot(output.value) != NO_SLOT);
        }
        let most = slots.taken();
        row.free(&mut slots);
        prop_assert_eq!(slots.taken(), 0, "of {}", most);
    }
}

#[test]
fn the_most_urgent_node_begins_first() {
    // Four nodes that need the input only, and one node after the second of them.
    let nodes = [(vec![0], 1), (vec![0], 1), (vec![0], 1), (vec![2], 1), (vec![0], 1)];
    let plan = Plan::new(graph(1, &nodes, &[4, 5]));
    let mut slots = Slots::default();
    let mut row = Row::new(0, &plan, 4, &mut slots);
    let mut begin = |row: &mut Row| row.begin(&plan, &mut slots, &mut Vec::new());
    assert_eq!([begin(&mut row), begin(&mut row), begin(&mut row), begin(&mut row)], [Some(0), Some(1), Some(2), None]);
    row.computed(&plan, 1, &mut slots);
    assert_eq!(row.ready(), 1, "the last one is behind the window");
    row.computed(&plan, 0, &mut slots);
    assert_eq!(row.ready(), 2);
}
