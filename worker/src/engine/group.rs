//! Jobs that share waves, and the order of their lanes.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use cloakwork_device::{Arena, Device, DeviceError, NO_TABLE, Wave};
use cloakwork_params::ParameterSet;

use super::{
    job::{EngineJob, Job, LaneId},
    memory::{Memory, Reserved},
    plan::Plan,
    slots::{Need, Slots},
    tables::{Table, TableError, Tables},
    width::WidthLimit,
};
use crate::key_cache::KeyLease;

/// The live jobs of one group, key and set.
pub(super) struct Group {
    pub(super) set: &'static ParameterSet,
    pub(super) arena: Arena,
    /// Bytes of a slot, charged to the memory that all groups share.
    slot_bytes: u64,
    pub(super) slots: Slots,
    pub(super) jobs: BTreeMap<u64, Job>,
    tables: Tables,
    /// Time of the group's last wave, or of its creation.
    pub(super) served: Instant,
    pub(super) width_limit: WidthLimit,
    /// Whether rows found no memory, and none has become free since.
    pub(super) waits_for_memory: bool,
    /// Time since which no row could begin for lack of memory, although no row of the group is in
    /// progress.
    short_since: Option<Instant>,
    /// Number of waves so far.
    waves: u64,
}

/// Number of lanes that a job gets before the turn of the next job of equal importance.
const LANES_PER_TURN: usize = 8;
/// Maximum number of rows that begin together.
const ROWS_PER_BATCH: usize = 16;
/// Longest wait for memory of other groups. After this time, the jobs fail and may be retried
/// elsewhere.
pub(super) const OTHER_GROUPS_MEMORY_TIMEOUT: Duration = Duration::from_secs(5);
/// The slots divided by this number are kept for jobs with no row in progress, because rows of
/// other jobs may take hours.
const IDLE_JOBS_SHARE_DIVISOR: u32 = 8;

impl Group {
    /// A group whose arena would occupy `arena_bytes` if all its slots were in use.
    pub(super) fn new(set: &'static ParameterSet, arena: Arena, arena_bytes: u64, now: Instant) -> Self {
        Self {
            set,
            arena,
            slot_bytes: (arena_bytes / u64::from(arena.slots.max(1))).max(1),
            slots: Slots::default(),
            jobs: BTreeMap::new(),
            tables: Tables::default(),
            served: now,
            width_limit: WidthLimit::default(),
            waits_for_memory: false,
            short_since: None,
            waves: 0,
        }
    }

    /// Loads the tables of a job.
    pub(super) fn tables(&mut self, job: &EngineJob, device: &Arc<dyn Device>) -> Result<Vec<Arc<Table>>, TableError> {
        self.tables.get(device, self.set, &job.plan.graph.tables)
    }

    pub(super) fn add(&mut self, job: EngineJob, tables: Vec<Arc<Table>>, need: Need, window: usize) {
        self.jobs.insert(job.id, Job::new(job, tables, need, window, self.waves));
    }

    /// Slot need of a row of a plan, and the row's window in nodes, for waves of `lanes` lanes.
    pub(super) fn need(&self, plan: &Plan, lanes: usize) -> (Need, usize) {
        let all = self.arena.slots;
        let account = u32::try_from(plan.row_bytes().div_ceil(self.slot_bytes)).unwrap_or(u32::MAX);
        let whole = plan.whole();
        let is_small = Memory::is_small(all.into(), whole.slots.saturating_add(account).into());
        let window = if is_small { whole } else { plan.window(lanes, all.saturating_sub(account)) };
        (Need { slots: window.slots.saturating_add(account), is_small }, window.nodes)
    }

    /// Removes a job and the tables that only this job used. The tables of the last job stay for
    /// the next one. The width limit and the wait for memory begin anew then.
    pub(super) fn remove(&mut self, id: u64) {
        self.jobs.remove(&id);
        if self.jobs.is_empty() {
            self.width_limit = WidthLimit::default();
            self.short_since = None;
        } else {
            self.tables.drop_unused();
        }
    }

    /// Upper bound of the device's memory behind the arena, in bytes.
    pub(super) fn arena_bytes(&self) -> u64 {
        self.slots.ever_taken() * self.slot_bytes
    }

    /// Number of lanes that could be computed now.
    pub(super) fn ready(&self) -> usize {
        self.jobs.values().map(Job::ready).sum()
    }

    /// Whether a job with ready lanes has a deadline nearer than `horizon`.
    pub(super) fn urgent(&self, now: Instant, horizon: Duration) -> bool {
        self.jobs.values().any(|job| job.ready() > 0 && is_urgent(job, now, horizon))
    }

    /// Bytes that the rows in progress may need in total.
    pub(super) fn reserved(&self) -> Reserved {
        let Reserved { small, large } = self.slots.reserved;
        Reserved { small: small * self.slot_bytes, large: large * self.slot_bytes }
    }

    /// Releases the leases on companion keys, if a key that jobs need waits for room.
    pub(super) fn give_companions_back(&mut self) {
        let wanted = |lease: &mut KeyLease| lease.is_wanted_back();
        self.jobs.values_mut().for_each(|job| drop(job.job.companion.take_if(wanted)));
    }

    /// Whether a row of any job is in progress.
    pub(super) fn is_under_way(&self) -> bool {
        self.jobs.values().any(Job::is_under_way)
    }

    /// Decides whether rows that found no memory wait, and returns that decision. Rows in progress
    /// of the own group give their memory back. Other groups keep theirs until they have no jobs
    /// left, which may be soon or take hours, so waiting for them is limited.
    pub(super) fn wait_for_memory(&mut self, others_under_way: bool, now: Instant) -> bool {
        self.waits_for_memory = if self.is_under_way() {
            self.short_since = None;
            true
        } else {
            let short_since = *self.short_since.get_or_insert(now);
            others_under_way && now < short_since + OTHER_GROUPS_MEMORY_TIMEOUT
        };
        self.waits_for_memory
    }

    /// Takes back the last row of a job that has computed nothing yet, if the group has several
    /// rows in progress. No lane of the row is in flight.
    pub(super) fn take_row_back(&mut self) -> bool {
        let is_alone = self.jobs.values().map(Job::rows_under_way).sum::<usize>() < 2;
        let taken = !is_alone && self.jobs.values_mut().rev().any(|job| job.take_last_row_back(&mut self.slots));
        self.waits_for_memory |= taken;
        taken
    }

    /// Discards the contents of free slots on the device.
    pub(super) fn forget(&mut self, device: &dyn Device) {
        device.discard(self.arena, self.slots.forget());
    }

    /// Begins rows, the most important first. Stops when there are lanes for two waves, or when the
    /// slots of `share` or the memory are used up. Returns the jobs whose rows failed to begin;
    /// their state is as before the attempt.
    pub(super) fn admit(
        &mut self,
        wanted: usize,
        share: u32,
        memory: &mut Memory,
        device: &dyn Device,
    ) -> Vec<(u64, DeviceError)> {
        let mut failed = Vec::new();
        if self.waits_for_memory {
            return failed;
        }
        let mut ready = self.ready();
        let now = Instant::now();
        for id in self.order(now, Duration::ZERO).into_iter().flatten() {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            let Need { slots: each, is_small } = job.need;
            let row_bytes = u64::from(each) * self.slot_bytes;
            let mut most = ROWS_PER_BATCH;
            while job.ready() < wanted && ready < 4 * wanted && job.rows_waiting() > 0 {
                // A group without rows in progress gets one row even if its share is smaller than
                // the row.
                let reserved = self.slots.reserved.all();
                let limit = if reserved == 0 { share.max(each) } else { share };
                let free = memory.rows(row_bytes, is_small);
                let room =
                    |limit: u32| free.min((u64::from(limit).saturating_sub(reserved) / u64::from(each)) as usize);
                let mut count = most.min(job.rows_waiting()).min(room(limit - limit / IDLE_JOBS_SHARE_DIVISOR));
                if count == 0 && !job.is_under_way() {
                    count = room(limit).min(1);
                }
                if count == 0 {
                    if reserved == 0 {
                        memory.keep_for(row_bytes);
                    }
                    break;
                }
                self.slots.reserve(job.need, count);
                let before = job.ready();
                match job.begin_rows(count, &mut self.slots, device, self.arena) {
                    Ok(()) => {
                        memory.take(row_bytes, is_small, count);
                        self.short_since = None;
                        ready += job.ready() - before;
                    }
                    // There may be memory for fewer rows.
                    Err(DeviceError::OutOfMemory { .. }) if count > 1 => most = count / 2,
                    Err(error) => {
                        failed.push((id, error));
                        // Other jobs of the group will find no memory either until rows in progress
                        // have ended.
                        if self.is_under_way() {
                            return failed;
                        }
                        break;
                    }
                }
            }
        }
        failed
    }

    /// Gathers lanes for a wave of up to `width` bootstraps.
    pub(super) fn gather(&mut self, width: usize, now: Instant, horizon: Duration) -> (Wave, Vec<LaneId>) {
        let (mut wave, mut lanes, mut bootstraps) = (Wave::default(), Vec::new(), 0);
        let mut outputs = Vec::new();
        // Lanes without a table cost almost nothing, but their number needs a bound as well.
        let full = |bootstraps: usize, lanes: &Vec<LaneId>| bootstraps >= width || lanes.len() >= 4 * width;
        for class in self.order(now, horizon) {
            let mut left = true;
            while left && !full(bootstraps, &lanes) {
                left = false;
                for &id in &class {
                    let Some(job) = self.jobs.get_mut(&id) else { continue };
                    for _ in 0..LANES_PER_TURN {
                        if full(bootstraps, &lanes) {
                            break;
                        }
                        outputs.clear();
                        let Some(lane) = job.begin_lane(&mut self.slots, &mut outputs) else { break };
                        left = true;
                        let spec = &job.job.plan.graph.nodes[lane.node as usize];
                        let table = spec.table.map_or(NO_TABLE, |table| wave.table(job.tables[table].slot));
                        bootstraps += usize::from(table != NO_TABLE);
                        wave.push(job.terms(lane), spec.constant, table, &outputs);
                        job.served = self.waves + 1;
                        lanes.push(lane);
                    }
                }
            }
        }
        self.waves += 1;
        self.served = now;
        (wave, lanes)
    }

    /// Jobs in classes of equal importance: by priority, then by near deadline. Within a class, the
    /// least recently served job is first. A new job ranks behind the jobs that already wait, and
    /// before jobs that are served after its arrival. Neither many small jobs nor few large jobs
    /// can starve the others.
    fn order(&self, now: Instant, horizon: Duration) -> Vec<Vec<u64>> {
        let mut classes: BTreeMap<(Reverse<i32>, bool), Vec<u64>> = BTreeMap::new();
        for (&id, job) in self.jobs.iter().filter(|(_, job)| job.ready() > 0 || job.rows_waiting() > 0) {
            let relaxed = !is_urgent(job, now, horizon);
            classes.entry((Reverse(job.job.priority), relaxed)).or_default().push(id);
        }
        let mut classes: Vec<_> = classes.into_values().collect();
        for class in &mut classes {
            class.sort_unstable_by_key(|id| (self.jobs.get(id).map(|job| job.served), *id));
        }
        classes
    }
}

fn is_urgent(job: &Job, now: Instant, horizon: Duration) -> bool {
    job.job.deadline.is_some_and(|deadline| deadline <= now + horizon)
}
