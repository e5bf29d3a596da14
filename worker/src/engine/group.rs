//! Jobs that share waves, and which of their lanes come first.

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
    /// What a slot takes of the memory that all groups share.
    slot_bytes: u64,
    pub(super) slots: Slots,
    pub(super) jobs: BTreeMap<u64, Job>,
    tables: Tables,
    /// When it last had a wave, or came.
    pub(super) served: Instant,
    pub(super) width_limit: WidthLimit,
    /// Rows found no memory, and none has come free since.
    pub(super) waits_for_memory: bool,
    /// Since when no row of it has begun for want of memory, though none is under way.
    short_since: Option<Instant>,
    /// Waves so far.
    waves: u64,
}

/// Lanes that one of several equal jobs gets before the next one's turn.
const STEP: usize = 8;
/// Rows that begin together.
const ROWS_AT_ONCE: usize = 16;
/// How long rows wait for memory of other groups, before their jobs go elsewhere.
pub(super) const OTHERS_PATIENCE: Duration = Duration::from_secs(5);
/// The part of the slots that is kept for jobs with no row under way: rows of others may take hours.
const KEPT: u32 = 8;

impl Group {
    /// One whose arena would take up `arena_bytes` if all of it were in use.
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

    /// The tables of a job, made ready.
    pub(super) fn tables(&mut self, job: &EngineJob, device: &Arc<dyn Device>) -> Result<Vec<Arc<Table>>, TableError> {
        self.tables.get(device, self.set, &job.plan.graph.tables)
    }

    pub(super) fn add(&mut self, job: EngineJob, tables: Vec<Arc<Table>>, need: Need, window: usize) {
        self.jobs.insert(job.id, Job::new(job, tables, need, window, self.waves));
    }

    /// What a row of a plan needs, and how many nodes ahead of its first open one it may be, where waves take so many lanes.
    pub(super) fn need(&self, plan: &Plan, lanes: usize) -> (Need, usize) {
        let all = self.arena.slots;
        let account = u32::try_from(plan.row_bytes().div_ceil(self.slot_bytes)).unwrap_or(u32::MAX);
        let whole = plan.whole();
        let is_small = Memory::is_small(all.into(), whole.slots.saturating_add(account).into());
        let window = if is_small { whole } else { plan.window(lanes, all.saturating_sub(account)) };
        (Need { slots: window.slots.saturating_add(account), is_small }, window.nodes)
    }

    /// Lanes that could be computed now.
    pub(super) fn ready(&self) -> usize {
        self.jobs.values().map(Job::ready).sum()
    }

    /// Is a deadline nearer than `horizon`?
    pub(super) fn urgent(&self, now: Instant, horizon: Duration) -> bool {
        self.jobs.values().any(|job| job.ready() > 0 && is_urgent(job, now, horizon))
    }

    /// What its rows under way may come to need.
    pub(super) fn reserved(&self) -> Reserved {
        let Reserved { small, large } = self.slots.reserved;
        Reserved { small: small * self.slot_bytes, large: large * self.slot_bytes }
    }

    /// Lets the companion's key go, where a key that jobs need waits for room.
    pub(super) fn give_companions_back(&mut self) {
        let wanted = |lease: &mut KeyLease| lease.is_wanted_back();
        self.jobs.values_mut().for_each(|job| drop(job.job.companion.take_if(wanted)));
    }

    /// Has any of its jobs a row that has begun and not ended?
    pub(super) fn is_under_way(&self) -> bool {
        self.jobs.values().any(Job::is_under_way)
    }

    /// Has rows that found no memory wait for some, or says that they had better not. The group's own rows under way give theirs
    /// back. Others keep theirs until their group has no jobs left, which may be soon or hours away: not for long.
    pub(super) fn wait_for_memory(&mut self, others_under_way: bool, now: Instant) -> bool {
        self.waits_for_memory = if self.is_under_way() {
            self.short_since = None;
            true
        } else {
            let short_since = *self.short_since.get_or_insert(now);
            others_under_way && now < short_since + OTHERS_PATIENCE
        };
        self.waits_for_memory
    }

    /// Has a row of several begin again later that has not come further than its inputs. None of its lanes is in flight.
    pub(super) fn take_row_back(&mut self) -> bool {
        let is_alone = self.jobs.values().map(Job::rows_under_way).sum::<usize>() < 2;
        let taken = !is_alone && self.jobs.values_mut().rev().any(|job| job.take_last_row_back(&mut self.slots));
        self.waits_for_memory |= taken;
        taken
    }

    /// Gives up what slots hold that nobody uses any more.
    pub(super) fn forget(&mut self, device: &dyn Device) {
        device.discard(self.arena, self.slots.forget());
    }

    /// Begins rows, the most important first, until there are lanes for two waves, no slots are left of `share`, or no
    /// memory. Returns jobs whose rows could not begin; they are as if none had been tried.
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
            let mut most = ROWS_AT_ONCE;
            while job.ready() < wanted && ready < 4 * wanted && job.rows_waiting() > 0 {
                // A group that has nothing under way gets a row even where its share is less.
                let reserved = self.slots.reserved.all();
                let limit = if reserved == 0 { share.max(each) } else { share };
                let free = memory.rows(row_bytes, is_small);
                let room =
                    |limit: u32| free.min((u64::from(limit).saturating_sub(reserved) / u64::from(each)) as usize);
                let mut count = most.min(job.rows_waiting()).min(room(limit - limit / KEPT));
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
                    // There may be memory for fewer.
                    Err(DeviceError::OutOfMemory { .. }) if count > 1 => most = count / 2,
                    Err(error) => {
                        failed.push((id, error));
                        // Nobody else finds any either, before rows that are under way have ended.
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

    /// Takes lanes for a wave of up to `width` bootstraps.
    pub(super) fn gather(&mut self, width: usize, now: Instant, horizon: Duration) -> (Wave, Vec<LaneId>) {
        let (mut wave, mut lanes, mut bootstraps) = (Wave::default(), Vec::new(), 0);
        let mut outputs = Vec::new();
        // Lanes without a table cost next to nothing; they only must not be without end.
        let full = |bootstraps: usize, lanes: &Vec<LaneId>| bootstraps >= width || lanes.len() >= 4 * width;
        for class in self.order(now, horizon) {
            let mut left = true;
            while left && !full(bootstraps, &lanes) {
                left = false;
                for &id in &class {
                    let Some(job) = self.jobs.get_mut(&id) else { continue };
                    for _ in 0..STEP {
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

    /// Jobs in classes of equal importance: by priority, and within one those first whose deadline is near. In a class,
    /// whoever was served longest ago comes first. A new job comes behind those that wait, and before those that were
    /// served after it came, so that neither many small jobs nor few large ones keep the others waiting.
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
