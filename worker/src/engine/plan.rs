//! Properties of a graph that are independent of any row.

use cloakwork_circuit::{Graph, Node, Output, Table, Term, ValueId};

/// A graph and the dependencies of its nodes.
pub(crate) struct Plan {
    pub(crate) graph: Graph,
    /// Length of the longest chain of dependent bootstraps.
    pub(crate) depth: u32,
    /// For each value: the nodes that use the value, each once.
    pub(super) users: Vec<Vec<u32>>,
    /// For each value: number of nodes that use the value, plus its occurrences among the outputs.
    pub(super) uses: Vec<u32>,
    /// For each node: number of distinct values that it needs from other nodes.
    pub(super) waits: Vec<u32>,
    /// Windows in order of decreasing width.
    windows: Vec<Window>,
}

/// How far a node that begins may be ahead of the row's first open node, and the slots that a row
/// then needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) nodes: usize,
    /// Maximum number of slots that a row needs. At least 1, even for a row that needs none.
    pub(super) slots: u32,
}

/// Bookkeeping bytes of a value in a row: its slot, its uses, and the wait count of its node.
const VALUE_BYTES: usize = 3 * size_of::<u32>();

impl Plan {
    pub(crate) fn new(graph: Graph) -> Self {
        let (inputs, values) = (graph.input_blocks(), graph.values());
        let mut plan = Self {
            depth: graph.depth(),
            users: vec![Vec::new(); values],
            uses: vec![0; values],
            waits: vec![0; graph.nodes.len()],
            windows: Vec::new(),
            graph,
        };
        for (index, node) in plan.graph.nodes.iter().enumerate() {
            for value in needed(node) {
                plan.users[value].push(index as u32);
                plan.uses[value] += 1;
                plan.waits[index] += u32::from(value >= inputs);
            }
        }
        for output in plan.graph.outputs.iter().flatten() {
            plan.uses[output.value] += 1;
        }
        plan.windows = plan.windows();
        plan
    }

    /// The window that contains all nodes.
    pub(super) fn whole(&self) -> Window {
        self.windows[0]
    }

    /// The narrowest window with at least `lanes` nodes, or with all nodes if there are fewer. If
    /// its slots exceed `slots`, the widest window that fits.
    pub(super) fn window(&self, lanes: usize, slots: u32) -> Window {
        let fits = |window: &&Window| window.slots <= slots;
        let wide = self.windows.iter().rev().find(|window| window.nodes >= lanes).unwrap_or(&self.windows[0]);
        let window = Some(wide).filter(fits).or_else(|| self.windows.iter().find(fits));
        *window.unwrap_or(&self.windows[self.windows.len() - 1])
    }

    /// Bookkeeping bytes of a row.
    pub(super) fn row_bytes(&self) -> u64 {
        (self.uses.len() * VALUE_BYTES) as u64
    }

    /// Windows of all nodes and of successive halves, down to one node.
    ///
    /// Before its first open node, a row holds computed values that are still needed. Beyond this
    /// node, a row holds at most the results of the nodes in its window.
    fn windows(&self) -> Vec<Window> {
        let nodes = self.graph.nodes.len();
        let held = self.held();
        let mut results = vec![0; nodes + 1];
        for node in 0..nodes {
            results[node + 1] = results[node] + self.graph.results(node).len() as u32;
        }
        let window = |width: usize| {
            let at = |(first, held): (usize, &u32)| held + results[nodes.min(first + width)] - results[first];
            let slots = held.iter().enumerate().map(at).max().unwrap_or(0);
            Window { nodes: width, slots: slots.max(1) }
        };
        let widths = std::iter::successors(Some(nodes.max(1)), |width| Some(width / 2));
        widths.take_while(|width| *width > 0).map(window).collect()
    }

    /// For each node: number of earlier values that a row holds there. These are values that this
    /// or a later node needs, outputs, and inputs that no node needs. Outputs and unused inputs are
    /// held to the end.
    fn held(&self) -> Vec<u32> {
        let nodes = self.graph.nodes.len();
        let mut changes = vec![0; nodes + 2];
        let mut hold = |value: ValueId, from: usize| {
            let is_output = self.uses[value] as usize > self.users[value].len();
            let last = self.users[value].last().filter(|_| !is_output);
            changes[from] += 1;
            changes[last.map_or(nodes, |last| *last as usize) + 1] -= 1;
        };
        (0..self.graph.input_blocks()).for_each(|value| hold(value, 0));
        for node in 0..nodes {
            self.graph.results(node).filter(|&value| self.uses[value] > 0).for_each(|value| hold(value, node + 1));
        }
        let sum = |sum: &mut i32, change: i32| {
            *sum += change;
            Some(*sum as u32)
        };
        changes.into_iter().take(nodes + 1).scan(0, sum).collect()
    }

    /// Approximate bytes that the plan occupies.
    pub(crate) fn bytes(&self) -> usize {
        let terms: usize = self.graph.nodes.iter().map(|node| node.terms.len()).sum();
        let functions =
            |table: &Table| if let Table::Functions(functions) = table { functions.concat().len() } else { 0 };
        let entries: usize = self.graph.tables.iter().map(functions).sum();
        let outputs: usize = self.graph.outputs.iter().map(Vec::len).sum();
        // A term takes its own size and an entry among the users of its value.
        size_of::<Self>()
            + self.graph.nodes.len() * (size_of::<Node>() + size_of::<u32>())
            + terms * (size_of::<Term>() + size_of::<u32>())
            + self.uses.len() * (size_of::<Vec<u32>>() + size_of::<u32>())
            + self.windows.len() * size_of::<Window>()
            + entries * size_of::<i64>()
            + outputs * size_of::<Output>()
            + self.graph.outputs.len() * size_of::<Vec<Output>>()
    }
}

/// The values that a node needs, each once.
pub(super) fn needed(node: &Node) -> Vec<ValueId> {
    let mut needed: Vec<ValueId> = node.terms.iter().map(|term| term.value).collect();
    needed.sort_unstable();
    needed.dedup();
    needed
}

#[cfg(test)]
mod tests;
