//! A row in progress: its ready nodes, and the slots of its values.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{
    plan::{Plan, needed},
    slots::{NO_SLOT, Slots},
};

/// A row in progress.
pub(super) struct Row {
    /// Index among the job's rows.
    pub(super) index: usize,
    /// Slot of each value.
    slots: Box<[u32]>,
    /// Remaining uses of each value.
    uses: Box<[u32]>,
    /// Number of results that each node waits for, or [`COMPUTED`].
    waits: Box<[u32]>,
    /// Nodes that could be computed now, the lowest index on top.
    ready: BinaryHeap<Reverse<u32>>,
    /// All nodes before this one are computed. A node at a distance of `window` or more from it may
    /// not begin.
    first: usize,
    window: usize,
}

/// Wait count of a node that is computed.
const COMPUTED: u32 = u32::MAX;

impl Row {
    /// A row whose inputs have slots, in their order.
    pub(super) fn new(index: usize, plan: &Plan, window: usize, slots: &mut Slots) -> Self {
        let mut row = Self {
            index,
            slots: vec![NO_SLOT; plan.uses.len()].into(),
            uses: plan.uses.clone().into(),
            waits: plan.waits.clone().into(),
            ready: BinaryHeap::new(),
            first: 0,
            window,
        };
        row.slots[..plan.graph.input_blocks()].fill_with(|| slots.take());
        row.open(0);
        row
    }

    /// Slots of the inputs.
    pub(super) fn inputs(&self, plan: &Plan) -> &[u32] {
        &self.slots[..plan.graph.input_blocks()]
    }

    /// Slot of a value that the row holds.
    pub(super) fn slot(&self, value: usize) -> u32 {
        self.slots[value]
    }

    /// Number of nodes that could be computed now.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Whether no node has been computed yet.
    pub(super) fn is_untouched(&self) -> bool {
        !self.waits.contains(&COMPUTED)
    }

    /// Whether every node has been computed.
    pub(super) fn is_done(&self) -> bool {
        self.first == self.waits.len()
    }

    /// Begins the ready node with the lowest index. Allocates slots for its results and appends
    /// them to `out`.
    pub(super) fn begin(&mut self, plan: &Plan, slots: &mut Slots, out: &mut Vec<u32>) -> Option<u32> {
        let Reverse(node) = self.ready.pop()?;
        for value in plan.graph.results(node as usize) {
            self.slots[value] = slots.take();
            out.push(self.slots[value]);
        }
        Some(node)
    }

    /// Makes a node ready again that had begun but was not computed.
    pub(super) fn put_back(&mut self, plan: &Plan, node: u32, slots: &mut Slots) {
        plan.graph.results(node as usize).for_each(|value| slots.give_back(&mut self.slots[value]));
        self.ready.push(Reverse(node));
    }

    /// Records that a node has been computed. Nodes that waited only for its results become ready,
    /// and values without further uses are freed.
    pub(super) fn computed(&mut self, plan: &Plan, node: u32, slots: &mut Slots) {
        let end = self.first + self.window;
        for value in plan.graph.results(node as usize) {
            for &user in &plan.users[value] {
                self.waits[user as usize] -= 1;
                if self.waits[user as usize] == 0 && (user as usize) < end {
                    self.ready.push(Reverse(user));
                }
            }
            if self.uses[value] == 0 {
                slots.give_back(&mut self.slots[value]);
            }
        }
        for value in needed(&plan.graph.nodes[node as usize]) {
            self.uses[value] -= 1;
            if self.uses[value] == 0 {
                slots.give_back(&mut self.slots[value]);
            }
        }
        self.waits[node as usize] = COMPUTED;
        while self.waits.get(self.first) == Some(&COMPUTED) {
            self.first += 1;
        }
        self.open(end);
    }

    /// Frees all slots.
    pub(super) fn free(&mut self, slots: &mut Slots) {
        self.slots.iter_mut().for_each(|slot| slots.give_back(slot));
    }

    /// Makes nodes ready that the moved window now contains and that wait for nothing. The window
    /// previously ended at `end`.
    fn open(&mut self, end: usize) {
        let nodes = self.waits.len();
        for node in end.min(nodes)..(self.first + self.window).min(nodes) {
            if self.waits[node] == 0 {
                self.ready.push(Reverse(node as u32));
            }
        }
    }
}

#[cfg(test)]
mod tests;
