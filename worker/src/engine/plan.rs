//! What can be known of a graph before a row passes through it.

use cloakwork_circuit::{Graph, Node, Table, Term, ValueId};

/// A graph, and who waits for whom in it.
pub(crate) struct Plan {
    pub(crate) graph: Graph,
    /// Bootstraps that must follow one another.
    pub(crate) depth: u32,
    /// By value: the nodes that use it, each once.
    pub(super) users: Vec<Vec<u32>>,
    /// By value: how often it is needed, by nodes and as output.
    pub(super) uses: Vec<u32>,
    /// By node: results of other nodes that it needs.
    pub(super) waits: Vec<u32>,
}

impl Plan {
    pub(crate) fn new(graph: Graph) -> Self {
        let (inputs, values) = (graph.input_blocks(), graph.values());
        let mut plan = Self {
            depth: graph.depth(),
            users: vec![Vec::new(); values],
            uses: vec![0; values],
            waits: vec![0; graph.nodes.len()],
            graph,
        };
        for (index, node) in plan.graph.nodes.iter().enumerate() {
            let mut needed: Vec<ValueId> = node.terms.iter().map(|term| term.value).collect();
            needed.sort_unstable();
            needed.dedup();
            for value in needed {
                plan.users[value].push(index as u32);
                plan.uses[value] += 1;
                plan.waits[index] += u32::from(value >= inputs);
            }
        }
        for output in plan.graph.outputs.iter().flatten() {
            plan.uses[output.value] += 1;
        }
        plan
    }

    /// Bytes that it takes up, roughly.
    pub(crate) fn bytes(&self) -> usize {
        let terms: usize = self.graph.nodes.iter().map(|node| node.terms.len()).sum();
        let functions =
            |table: &Table| if let Table::Functions(functions) = table { functions.concat().len() } else { 0 };
        let entries: usize = self.graph.tables.iter().map(functions).sum();
        // Of a term: itself, and its node among the users of its value.
        size_of::<Self>()
            + self.graph.nodes.len() * (size_of::<Node>() + size_of::<u32>())
            + terms * (size_of::<Term>() + size_of::<u32>())
            + self.uses.len() * (size_of::<Vec<u32>>() + size_of::<u32>())
            + entries * size_of::<i64>()
    }

    /// Slots that a row may need at most. Counts as one where it needs none.
    pub(crate) fn slots(&self) -> u32 {
        self.uses.len().max(1) as u32
    }
}
