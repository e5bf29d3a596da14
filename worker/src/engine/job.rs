//! A job in the engine, and its rows under way.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Instant,
};

use cloakwork_circuit::Output;
use cloakwork_device::{Arena, Device, DeviceError};
use tokio::sync::oneshot;

use super::{
    GroupId, JobFailure,
    memory::{Memory, Reserved},
    plan::Plan,
    tables::Table,
};
use crate::{inputs::Rows, key_cache::KeyLease, latency::Stopwatch, outputs::OutputList};

/// What the engine is asked to do.
pub(crate) struct EngineJob {
    /// The engine's name for it.
    pub(crate) id: u64,
    pub(crate) group: GroupId,
    /// Keeps the key resident.
    pub(crate) key: KeyLease,
    pub(crate) plan: Arc<Plan>,
    /// One for each input of the program.
    pub(crate) inputs: Vec<Box<dyn Rows>>,
    pub(crate) rows: usize,
    pub(crate) priority: i32,
    pub(crate) deadline: Option<Instant>,
    pub(crate) status: Arc<JobStatus>,
    pub(crate) stopwatch: Stopwatch,
    pub(crate) done: Option<oneshot::Sender<Result<Finished, JobFailure>>>,
}

/// A job that has run to its end.
pub(crate) struct Finished {
    pub(crate) outputs: Vec<OutputList>,
    pub(crate) stopwatch: Stopwatch,
}

/// How far a job has come, for whoever asks.
#[derive(Default)]
pub(crate) struct JobStatus {
    stage: AtomicU8,
    progress: AtomicU64,
    rows_done: AtomicU64,
}

impl JobStatus {
    /// Enters a stage, as numbered in the protocol.
    pub(crate) fn enter(&self, stage: cloakwork_proto::v1::LeaseStage) {
        self.stage.store(stage as i32 as u8, Ordering::Relaxed);
        self.advance();
    }

    pub(crate) fn is_in(&self, stage: cloakwork_proto::v1::LeaseStage) -> bool {
        self.stage.load(Ordering::Relaxed) == stage as i32 as u8
    }

    /// Something was achieved.
    pub(crate) fn advance(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    fn row_done(&self) {
        self.rows_done.fetch_add(1, Ordering::Relaxed);
    }

    /// Stage, progress and rows done.
    pub(crate) fn read(&self) -> (i32, u64, u64) {
        let stage = i32::from(self.stage.load(Ordering::Relaxed));
        (stage, self.progress.load(Ordering::Relaxed), self.rows_done.load(Ordering::Relaxed))
    }
}

/// A lane by name: a row under way and a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaneId {
    pub(super) job: u64,
    pub(super) row: u32,
    pub(super) node: u32,
}

/// A job and its rows.
pub(super) struct Job {
    pub(super) job: EngineJob,
    pub(super) tables: Vec<Arc<Table>>,
    pub(super) outputs: Vec<OutputList>,
    /// Next row to begin.
    pub(super) next_row: usize,
    rows_done: usize,
    rows: Vec<Option<Row>>,
    free_rows: Vec<u32>,
    /// Nodes that could be computed now: row and node.
    pub(super) ready: VecDeque<(u32, u32)>,
    pub(super) lanes_in_flight: usize,
    /// Number of the group's wave that it last had lanes in, or that was the last when it came.
    pub(super) served: u64,
    pub(super) cancelled: bool,
}

/// A row under way.
struct Row {
    index: usize,
    /// Slot by value.
    slots: Box<[u32]>,
    /// Uses to come, by value.
    uses: Box<[u32]>,
    /// Results to wait for, by node.
    waits: Box<[u32]>,
    nodes_left: usize,
}

const NO_SLOT: u32 = u32::MAX;

impl Job {
    pub(super) fn new(job: EngineJob, tables: Vec<Arc<Table>>, served: u64) -> Self {
        let graph = &job.plan.graph;
        let list = |blocks: &Vec<Output>| OutputList::new(graph.set, job.rows * blocks.len());
        let outputs = graph.outputs.iter().map(list).collect();
        Self {
            outputs,
            tables,
            next_row: 0,
            rows_done: 0,
            rows: Vec::new(),
            free_rows: Vec::new(),
            ready: VecDeque::new(),
            lanes_in_flight: 0,
            served,
            cancelled: false,
            job,
        }
    }

    /// Rows that have not begun.
    pub(super) fn rows_waiting(&self) -> usize {
        if self.cancelled { 0 } else { self.job.rows - self.next_row }
    }

    /// Has a row begun and not ended?
    pub(super) fn is_under_way(&self) -> bool {
        self.rows.len() > self.free_rows.len()
    }

    pub(super) fn is_done(&self) -> bool {
        self.rows_done == self.job.rows
    }

    /// Begins `count` rows with slots from `slots`.
    pub(super) fn begin_rows(
        &mut self,
        count: usize,
        slots: &mut Slots,
        device: &dyn Device,
        arena: Arena,
    ) -> Result<(), DeviceError> {
        let plan = self.job.plan.clone();
        let first = self.next_row;
        let inputs = &plan.graph.inputs;
        let mut by_input: Vec<Vec<u32>> = inputs.iter().map(|blocks| Vec::with_capacity(count * blocks)).collect();
        let mut begun = Vec::with_capacity(count);
        for index in first..first + count {
            let mut row = Row {
                index,
                slots: vec![NO_SLOT; plan.uses.len()].into(),
                uses: plan.uses.clone().into(),
                waits: plan.waits.clone().into(),
                nodes_left: plan.graph.nodes.len(),
            };
            let mut taken = row.slots.iter_mut();
            for (list, blocks) in by_input.iter_mut().zip(inputs) {
                for slot in taken.by_ref().take(*blocks) {
                    *slot = slots.take();
                    list.push(*slot);
                }
            }
            let place = self.free_rows.pop().unwrap_or_else(|| {
                self.rows.push(None);
                self.rows.len() as u32 - 1
            });
            self.rows[place as usize] = Some(row);
            begun.push(place);
        }
        self.next_row += count;
        for ((input, blocks), slots) in self.job.inputs.iter().zip(inputs).zip(&by_input) {
            input.write(first * blocks..(first + count) * blocks, device, arena, slots)?;
        }
        let at_once = |node: &u32| plan.waits[*node as usize] == 0;
        for &place in &begun {
            self.ready.extend((0..plan.graph.nodes.len() as u32).filter(at_once).map(|node| (place, node)));
        }
        for place in begun {
            self.settle(place, slots, device, arena)?;
        }
        Ok(())
    }

    /// Slots of a node's results, taken now.
    pub(super) fn take_results(&mut self, row: u32, node: u32, slots: &mut Slots, out: &mut Vec<u32>) {
        let results = self.job.plan.graph.results(node as usize);
        let Some(row) = &mut self.rows[row as usize] else { return };
        for value in results {
            row.slots[value] = slots.take();
            out.push(row.slots[value]);
        }
    }

    /// Gives the slots of results that were not computed after all back, and has the node computed again.
    pub(super) fn put_back(&mut self, row: u32, node: u32, slots: &mut Slots) {
        self.lanes_in_flight -= 1;
        let results = self.job.plan.graph.results(node as usize);
        if let Some(row) = &mut self.rows[row as usize] {
            results.for_each(|value| slots.give_back(&mut row.slots[value]));
        }
        self.ready.push_front((row, node));
    }

    /// Terms of a node by slot.
    pub(super) fn terms(&self, row: u32, node: u32) -> impl Iterator<Item = cloakwork_device::Term> + '_ {
        let row = self.rows[row as usize].as_ref();
        let terms = &self.job.plan.graph.nodes[node as usize].terms;
        terms.iter().map(move |term| cloakwork_device::Term {
            slot: row.map_or(NO_SLOT, |row| row.slots[term.value]),
            factor: term.factor,
        })
    }

    /// A node has been computed: whoever waited for it becomes ready, and what nobody needs any more is freed.
    pub(super) fn computed(
        &mut self,
        place: u32,
        node: u32,
        slots: &mut Slots,
        device: &dyn Device,
        arena: Arena,
    ) -> Result<(), DeviceError> {
        self.lanes_in_flight -= 1;
        let plan = self.job.plan.clone();
        let Some(row) = &mut self.rows[place as usize] else { return Ok(()) };
        for value in plan.graph.results(node as usize) {
            for &user in &plan.users[value] {
                row.waits[user as usize] -= 1;
                if row.waits[user as usize] == 0 {
                    self.ready.push_back((place, user));
                }
            }
            if row.uses[value] == 0 {
                slots.give_back(&mut row.slots[value]);
            }
        }
        let mut used: Vec<usize> = plan.graph.nodes[node as usize].terms.iter().map(|term| term.value).collect();
        used.sort_unstable();
        used.dedup();
        for value in used {
            row.uses[value] -= 1;
            if row.uses[value] == 0 {
                slots.give_back(&mut row.slots[value]);
            }
        }
        row.nodes_left -= 1;
        self.settle(place, slots, device, arena)
    }

    /// Gives everything back that the job holds. Only when none of its lanes is in flight.
    pub(super) fn free(&mut self, slots: &mut Slots, arena: Arena) {
        self.ready.clear();
        for row in self.rows.iter_mut().filter_map(Option::take) {
            let Row { slots: mut taken, .. } = row;
            taken.iter_mut().for_each(|slot| slots.give_back(slot));
            slots.unreserve(self.job.plan.slots(), arena);
        }
    }

    /// Stores the outputs of a row that has run to its end.
    fn settle(&mut self, place: u32, slots: &mut Slots, device: &dyn Device, arena: Arena) -> Result<(), DeviceError> {
        if self.rows[place as usize].as_ref().is_none_or(|row| row.nodes_left > 0) {
            return Ok(());
        }
        let Some(mut row) = self.rows[place as usize].take() else { return Ok(()) };
        if !self.cancelled {
            for (list, blocks) in self.outputs.iter_mut().zip(&self.job.plan.graph.outputs) {
                for (place, block) in blocks.iter().enumerate() {
                    list.read(row.index * blocks.len() + place, device, arena, row.slots[block.value])?;
                }
            }
        }
        row.slots.iter_mut().for_each(|slot| slots.give_back(slot));
        slots.unreserve(self.job.plan.slots(), arena);
        self.free_rows.push(place);
        self.rows_done += 1;
        self.job.status.row_done();
        Ok(())
    }
}

/// The slots of an arena, and how many are spoken for.
#[derive(Default)]
pub(super) struct Slots {
    free: Vec<u32>,
    /// Free ones whose contents have been forgotten: the first so many.
    forgotten: usize,
    next: u32,
    /// Slots that the rows under way may come to need. Never more than the arena has, so that taking never fails.
    pub(super) reserved: Reserved,
}

impl Slots {
    /// Speaks for rows of `each` slots.
    pub(super) fn reserve(&mut self, each: u32, count: usize, arena: Arena) {
        *self.class(each, arena) += u64::from(each) * count as u64;
    }

    fn unreserve(&mut self, each: u32, arena: Arena) {
        *self.class(each, arena) -= u64::from(each);
    }

    fn class(&mut self, each: u32, arena: Arena) -> &mut u64 {
        match Memory::is_small(arena.slots.into(), each.into()) {
            true => &mut self.reserved.small,
            false => &mut self.reserved.large,
        }
    }

    fn take(&mut self) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        self.forgotten = self.forgotten.min(self.free.len());
        slot
    }

    fn give_back(&mut self, slot: &mut u32) {
        if *slot != NO_SLOT {
            self.free.push(std::mem::replace(slot, NO_SLOT));
        }
    }

    /// Free slots that may still hold something. They are taken to be forgotten now.
    pub(super) fn forget(&mut self) -> &[u32] {
        let forgotten = std::mem::replace(&mut self.forgotten, self.free.len());
        &self.free[forgotten..]
    }
}
