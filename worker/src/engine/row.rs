//! A row under way: which of its nodes could be computed now, and where its values are.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{
    plan::{Plan, needed},
    slots::{NO_SLOT, Slots},
};

/// A row under way.
pub(super) struct Row {
    /// Place among the job's rows.
    pub(super) index: usize,
    /// Slot by value.
    slots: Box<[u32]>,
    /// Uses to come, by value.
    uses: Box<[u32]>,
    /// Results to wait for, by node; [`COMPUTED`] at the end.
    waits: Box<[u32]>,
    /// Nodes that could be computed now, the most urgent one on top.
    ready: BinaryHeap<Reverse<u32>>,
    /// All nodes before it are computed. None that is as far behind it as the window is wide may begin.
    first: usize,
    window: usize,
}

/// In place of the results that a node waits for.
const COMPUTED: u32 = u32::MAX;

impl Row {
    /// One that has slots for its inputs, in their order.
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

    /// Slots of its inputs.
    pub(super) fn inputs(&self, plan: &Plan) -> &[u32] {
        &self.slots[..plan.graph.input_blocks()]
    }

    /// Slot of a value that is there.
    pub(super) fn slot(&self, value: usize) -> u32 {
        self.slots[value]
    }

    /// Nodes that could be computed now.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Has no node been computed yet?
    pub(super) fn is_untouched(&self) -> bool {
        !self.waits.contains(&COMPUTED)
    }

    /// Has every node been computed?
    pub(super) fn is_done(&self) -> bool {
        self.first == self.waits.len()
    }

    /// The most urgent node that could be computed now; its results get slots, which `out` is told.
    pub(super) fn begin(&mut self, plan: &Plan, slots: &mut Slots, out: &mut Vec<u32>) -> Option<u32> {
        let Reverse(node) = self.ready.pop()?;
        for value in plan.graph.results(node as usize) {
            self.slots[value] = slots.take();
            out.push(self.slots[value]);
        }
        Some(node)
    }

    /// A node that had begun was not computed after all, and could be now.
    pub(super) fn put_back(&mut self, plan: &Plan, node: u32, slots: &mut Slots) {
        plan.graph.results(node as usize).for_each(|value| slots.give_back(&mut self.slots[value]));
        self.ready.push(Reverse(node));
    }

    /// A node has been computed: whoever waited for it becomes ready, and what nobody needs any more is freed.
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

    /// Gives all slots back.
    pub(super) fn free(&mut self, slots: &mut Slots) {
        self.slots.iter_mut().for_each(|slot| slots.give_back(slot));
    }

    /// The window has moved, and ended at `end` before: what waits for nothing there is ready.
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
