//! The order of a graph's nodes: nodes that start the longest chain of bootstraps come first.
//!
//! A device that computes the first nodes that are ready then delays no long chain, and computes no
//! value long before it is needed.

use std::cmp::Reverse;

use crate::{Graph, ValueId};

/// Sorts the nodes by the longest chain of bootstraps that starts at each. Nodes with equal chains
/// keep their order.
pub(super) fn by_urgency(graph: Graph) -> Graph {
    let ways = ways(&graph);
    let mut order: Vec<usize> = (0..graph.nodes.len()).collect();
    order.sort_by_key(|&index| Reverse(ways[index]));
    let mut numbers: Vec<ValueId> = (0..graph.values()).collect();
    let mut next = graph.input_blocks();
    for &index in &order {
        for value in graph.results(index) {
            numbers[value] = next;
            next += 1;
        }
    }
    let Graph { set, inputs, tables, nodes, mut outputs } = graph;
    let mut nodes: Vec<_> = nodes.into_iter().map(Some).collect();
    let renumbered = order.into_iter().filter_map(|index| {
        let mut node = nodes[index].take()?;
        node.first_value = numbers[node.first_value];
        node.terms.iter_mut().for_each(|term| term.value = numbers[term.value]);
        Some(node)
    });
    let nodes = renumbered.collect();
    outputs.iter_mut().flatten().for_each(|output| output.value = numbers[output.value]);
    Graph { set, inputs, tables, nodes, outputs }
}

/// For each node: the length of the longest chain of bootstraps that starts at it, itself included.
fn ways(graph: &Graph) -> Vec<u32> {
    let mut behind = vec![0; graph.values()];
    let mut ways = vec![0; graph.nodes.len()];
    for (index, node) in graph.nodes.iter().enumerate().rev() {
        let longest = graph.results(index).map(|value| behind[value]).max().unwrap_or(0);
        ways[index] = longest + u32::from(node.table.is_some());
        for term in &node.terms {
            behind[term.value] = ways[index].max(behind[term.value]);
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use cloakwork_params::table::by_name;
    use proptest::prelude::*;

    use super::*;
    use crate::{Node, Output, Table, Term};

    proptest! {
        /// The sorted graph returns the same values. Arguments come before their uses, and urgent
        /// nodes before others.
        #[test]
        fn urgent_nodes_come_first(nodes in prop::collection::vec((prop::collection::vec(any::<u16>(), 1..4), any::<bool>()), 1..40)) {
            let set = by_name("TOY_MESSAGE_2_CARRY_2").expect("a set");
            let node = |(index, (terms, is_lookup)): (usize, &(Vec<u16>, bool))| Node {
                terms: terms.iter().map(|seed| Term { value: usize::from(*seed) % (index + 1), factor: 1 }).collect(),
                // Identifies the node after sorting.
                constant: index as u64,
                table: is_lookup.then_some(0),
                first_value: index + 1,
                may_be_noisier: false,
            };
            let outputs = vec![(1..=nodes.len()).map(|value| Output { value, degree: 0, noise_level: 0 }).collect()];
            let nodes: Vec<Node> = nodes.iter().enumerate().map(node).collect();
            let tables = vec![Table::Functions(vec![vec![0; 16]])];
            let graph = Graph { set, inputs: vec![1], tables, nodes, outputs };
            let ordered = by_urgency(graph.clone());
            prop_assert!(ways(&ordered).is_sorted_by(|before, after| before >= after));
            let original = |value: usize| value.checked_sub(1).map(|node| ordered.nodes[node].constant as usize + 1).unwrap_or(0);
            for (index, node) in ordered.nodes.iter().enumerate() {
                prop_assert_eq!(node.first_value, index + 1);
                prop_assert!(node.terms.iter().all(|term| term.value <= index));
                let terms: Vec<usize> = node.terms.iter().map(|term| original(term.value)).collect();
                let before: Vec<usize> = graph.nodes[node.constant as usize].terms.iter().map(|term| term.value).collect();
                prop_assert_eq!(terms, before);
            }
            let outputs: Vec<usize> = ordered.outputs[0].iter().map(|output| original(output.value)).collect();
            prop_assert_eq!(outputs, (1..=graph.nodes.len()).collect::<Vec<_>>());
        }
    }
}
