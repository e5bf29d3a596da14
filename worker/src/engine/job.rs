//! A job in the engine, and its rows in progress.

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
use cloakwork_trace::TraceContext;
use tokio::sync::oneshot;

use super::{
    GroupId, JobFailure,
    plan::Plan,
    row::Row,
    slots::{NO_SLOT, Need, Slots},
    tables::Table,
};
use crate::{inputs::Rows, key_cache::KeyLease, latency::Stopwatch, outputs::OutputList};

/// A job as it is submitted to the engine.
pub(crate) struct EngineJob {
    /// Id of the job in the engine.
    pub(crate) id: u64,
    pub(crate) group: GroupId,
    /// Lease that keeps the key resident.
    pub(crate) key: KeyLease,
    /// Lease on the key of the set's companion, if that key is resident.
    pub(crate) companion: Option<KeyLease>,
    pub(crate) plan: Arc<Plan>,
    /// Rows of each input of the program.
    pub(crate) inputs: Vec<Box<dyn Rows>>,
    pub(crate) rows: usize,
    pub(crate) priority: i32,
    pub(crate) deadline: Option<Instant>,
    pub(crate) status: Arc<JobStatus>,
    pub(crate) stopwatch: Stopwatch,
    /// The span of the computation, if the job is traced.
    pub(crate) trace: Option<TraceContext>,
    /// Spans of waves that the job took part in, if the job is traced.
    pub(crate) waves: Vec<TraceContext>,
    pub(crate) done: Option<oneshot::Sender<Result<Finished, JobFailure>>>,
}

/// Outcome of a job that has computed all rows.
pub(crate) struct Finished {
    pub(crate) outputs: Vec<OutputList>,
    pub(crate) stopwatch: Stopwatch,
    pub(crate) waves: Vec<TraceContext>,
}

/// Progress of a job, readable from any thread.
#[derive(Default)]
pub(crate) struct JobStatus {
    stage: AtomicU8,
    progress: AtomicU64,
    rows_done: AtomicU64,
}

impl JobStatus {
    /// Enters a stage, numbered as in the protocol.
    pub(crate) fn enter(&self, stage: cloakwork_proto::v1::LeaseStage) {
        self.stage.store(stage as i32 as u8, Ordering::Relaxed);
        self.advance();
    }

    pub(crate) fn is_in(&self, stage: cloakwork_proto::v1::LeaseStage) -> bool {
        self.stage.load(Ordering::Relaxed) == stage as i32 as u8
    }

    /// Counts a step of progress.
    pub(crate) fn advance(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    fn row_done(&self) {
        self.rows_done.fetch_add(1, Ordering::Relaxed);
    }

    /// Stage, progress and number of rows done.
    pub(crate) fn read(&self) -> (i32, u64, u64) {
        let stage = i32::from(self.stage.load(Ordering::Relaxed));
        (stage, self.progress.load(Ordering::Relaxed), self.rows_done.load(Ordering::Relaxed))
    }
}

/// Identifies a lane by its job, row in progress and node.
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
    /// Slot need of each row.
    pub(super) need: Need,
    /// Maximum distance in nodes between a row's first open node and a node that may begin.
    window: usize,
    /// Index of the next row to begin.
    next_row: usize,
    rows_done: usize,
    rows: Vec<Option<Row>>,
    free_rows: Vec<u32>,
    /// Rows with ready nodes, in the order of their turns.
    turns: VecDeque<u32>,
    /// Number of ready nodes of all rows.
    ready: usize,
    pub(super) lanes_in_flight: usize,
    /// Number of the group's wave that last contained lanes of the job. Initially the number of the
    /// group's last wave.
    pub(super) served: u64,
    pub(super) cancelled: bool,
}

impl Job {
    pub(super) fn new(job: EngineJob, tables: Vec<Arc<Table>>, need: Need, window: usize, served: u64) -> Self {
        let graph = &job.plan.graph;
        let list = |blocks: &Vec<Output>| OutputList::new(graph.set, job.rows * blocks.len());
        let outputs = graph.outputs.iter().map(list).collect();
        Self {
            outputs,
            tables,
            need,
            window,
            next_row: 0,
            rows_done: 0,
            rows: Vec::new(),
            free_rows: Vec::new(),
            turns: VecDeque::new(),
            ready: 0,
            lanes_in_flight: 0,
            served,
            cancelled: false,
            job,
        }
    }

    /// Number of nodes that could be computed now.
    pub(super) fn ready(&self) -> usize {
        self.ready
    }

    /// Number of rows that have not begun.
    pub(super) fn rows_waiting(&self) -> usize {
        if self.cancelled { 0 } else { self.job.rows - self.next_row }
    }

    /// Number of rows that have begun and not ended.
    pub(super) fn rows_under_way(&self) -> usize {
        self.rows.len() - self.free_rows.len()
    }

    /// Whether any row has begun and not ended.
    pub(super) fn is_under_way(&self) -> bool {
        self.rows_under_way() > 0
    }

    pub(super) fn is_done(&self) -> bool {
        self.rows_done == self.job.rows
    }

    /// Begins `count` rows with reserved slots from `slots`. If the inputs cannot be written, no
    /// row has begun and the slots are returned.
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
            let row = Row::new(index, &plan, self.window, slots);
            let mut taken = row.inputs(&plan);
            for (list, blocks) in by_input.iter_mut().zip(inputs) {
                let (own, rest) = taken.split_at(*blocks);
                list.extend(own);
                taken = rest;
            }
            let place = self.free_rows.pop().unwrap_or_else(|| {
                self.rows.push(None);
                self.rows.len() as u32 - 1
            });
            self.rows[place as usize] = Some(row);
            begun.push(place);
        }
        self.next_row += count;
        for ((input, blocks), places) in self.job.inputs.iter().zip(inputs).zip(&by_input) {
            let written = input.write(first * blocks..(first + count) * blocks, device, arena, places);
            if let Err(error) = written {
                self.take_back(first, begun, slots);
                return Err(error);
            }
        }
        for place in begun {
            self.count(place, 0);
            self.settle(place, slots, device, arena)?;
        }
        Ok(())
    }

    /// Takes back the row that began last, if none of its nodes is computed. None of its lanes is
    /// in flight.
    pub(super) fn take_last_row_back(&mut self, slots: &mut Slots) -> bool {
        let is_last = |row: &Row| row.index + 1 == self.next_row && row.is_untouched();
        let Some(place) = self.rows.iter().position(|row| row.as_ref().is_some_and(is_last)) else { return false };
        let place = place as u32;
        self.ready -= self.rows[place as usize].as_ref().map_or(0, Row::ready);
        self.turns.retain(|turn| *turn != place);
        self.take_back(self.next_row - 1, vec![place], slots);
        true
    }

    /// Undoes the beginning of the rows from `first` on.
    fn take_back(&mut self, first: usize, begun: Vec<u32>, slots: &mut Slots) {
        // Slots are returned in reverse order, so that the earliest are taken first next time: the
        // others may have no memory.
        for place in begun.into_iter().rev() {
            if let Some(mut row) = self.rows[place as usize].take() {
                row.free(slots);
                slots.unreserve(self.need);
            }
            self.free_rows.push(place);
        }
        self.next_row = first;
    }

    /// Begins the next ready node, with rows taking turns. Appends the slots of its results to
    /// `out`.
    pub(super) fn begin_lane(&mut self, slots: &mut Slots, out: &mut Vec<u32>) -> Option<LaneId> {
        let place = self.turns.pop_front()?;
        let row = self.rows[place as usize].as_mut()?;
        let node = row.begin(&self.job.plan, slots, out)?;
        if row.ready() > 0 {
            self.turns.push_back(place);
        }
        self.ready -= 1;
        self.lanes_in_flight += 1;
        Some(LaneId { job: self.job.id, row: place, node })
    }

    /// Returns a lane that was not computed.
    pub(super) fn put_back(&mut self, lane: LaneId, slots: &mut Slots) {
        self.lanes_in_flight -= 1;
        let Some(row) = &mut self.rows[lane.row as usize] else { return };
        let before = row.ready();
        row.put_back(&self.job.plan, lane.node, slots);
        self.count(lane.row, before);
    }

    /// Terms of a lane, by slot.
    pub(super) fn terms(&self, lane: LaneId) -> impl Iterator<Item = cloakwork_device::Term> + '_ {
        let row = self.rows[lane.row as usize].as_ref();
        let terms = &self.job.plan.graph.nodes[lane.node as usize].terms;
        terms.iter().map(move |term| cloakwork_device::Term {
            slot: row.map_or(NO_SLOT, |row| row.slot(term.value)),
            factor: term.factor,
        })
    }

    /// Records that a lane has been computed.
    pub(super) fn computed(
        &mut self,
        lane: LaneId,
        slots: &mut Slots,
        device: &dyn Device,
        arena: Arena,
    ) -> Result<(), DeviceError> {
        self.lanes_in_flight -= 1;
        let Some(row) = &mut self.rows[lane.row as usize] else { return Ok(()) };
        let before = row.ready();
        row.computed(&self.job.plan, lane.node, slots);
        self.count(lane.row, before);
        self.settle(lane.row, slots, device, arena)
    }

    /// Updates the ready count of a row that had `before` ready nodes.
    fn count(&mut self, place: u32, before: usize) {
        let now = self.rows[place as usize].as_ref().map_or(0, Row::ready);
        if self.cancelled || now == before {
            return;
        }
        if before == 0 {
            self.turns.push_back(place);
        }
        self.ready += now - before;
    }

    /// Cancels the job, so that no more of its lanes begin.
    pub(super) fn cancel(&mut self) {
        self.cancelled = true;
        self.turns.clear();
        self.ready = 0;
    }

    /// Frees all rows of the job. Allowed only when none of its lanes is in flight.
    pub(super) fn free(&mut self, slots: &mut Slots) {
        for mut row in self.rows.iter_mut().filter_map(Option::take) {
            row.free(slots);
            slots.unreserve(self.need);
        }
    }

    /// Stores the outputs of a row that has computed all nodes, and frees the row.
    fn settle(&mut self, place: u32, slots: &mut Slots, device: &dyn Device, arena: Arena) -> Result<(), DeviceError> {
        let Some(mut row) = self.rows[place as usize].take_if(|row| row.is_done()) else { return Ok(()) };
        let stored = if self.cancelled { Ok(()) } else { self.store(&row, device, arena) };
        row.free(slots);
        slots.unreserve(self.need);
        self.free_rows.push(place);
        self.rows_done += 1;
        self.job.status.row_done();
        stored
    }

    fn store(&mut self, row: &Row, device: &dyn Device, arena: Arena) -> Result<(), DeviceError> {
        for (list, blocks) in self.outputs.iter_mut().zip(&self.job.plan.graph.outputs) {
            // One call for all blocks: each call to a GPU waits for the copy's end.
            let slots: Vec<u32> = blocks.iter().map(|block| row.slot(block.value)).collect();
            list.read(row.index * blocks.len(), device, arena, &slots)?;
        }
        Ok(())
    }
}
