//! What can be known of a graph before a row passes through it.

use cloakwork_circuit::{Graph, Node, Output, Table, Term, ValueId};

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
    /// The widest first.
    windows: Vec<Window>,
}

/// How far a row may be ahead of its first node that is not computed, and what that takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) nodes: usize,
    /// Slots that a row may need at most. Counts as one where it needs none.
    pub(super) slots: u32,
}

/// What keeps account of a value in a row: its slot, its uses, and what its node waits for.
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

    /// The window that holds the whole row.
    pub(super) fn whole(&self) -> Window {
        self.windows[0]
    }

    /// The narrowest window that has so many nodes in it, or all of them, or else the widest that takes no more slots than
    /// there are.
    pub(super) fn window(&self, lanes: usize, slots: u32) -> Window {
        let fits = |window: &&Window| window.slots <= slots;
        let wide = self.windows.iter().rev().find(|window| window.nodes >= lanes).unwrap_or(&self.windows[0]);
        let window = Some(wide).filter(fits).or_else(|| self.windows.iter().find(fits));
        *window.unwrap_or(&self.windows[self.windows.len() - 1])
    }

    /// Bytes that keep account of a row.
    pub(super) fn row_bytes(&self) -> u64 {
        (self.uses.len() * VALUE_BYTES) as u64
    }

    /// Windows of all nodes, and of ever fewer down to one.
    ///
    /// A row holds what was computed before its first open node and is needed from there on, and beyond that at most what
    /// the nodes in its window return.
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

    /// By node: values from before it that it or a later one needs, that are returned, or that are inputs nobody needs. The
    /// latter two are there to the end.
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

    /// Bytes that it takes up, roughly.
    pub(crate) fn bytes(&self) -> usize {
        let terms: usize = self.graph.nodes.iter().map(|node| node.terms.len()).sum();
        let functions =
            |table: &Table| if let Table::Functions(functions) = table { functions.concat().len() } else { 0 };
        let entries: usize = self.graph.tables.iter().map(functions).sum();
        let outputs: usize = self.graph.outputs.iter().map(Vec::len).sum();
        // Of a term: itself, and its node among the users of its value.
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
