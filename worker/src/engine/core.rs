//! The engine's thread.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, TryRecvError},
    },
    time::{Duration, Instant},
};

use cloakwork_device::{Device, DeviceError, DeviceInfo, Ticket, WorkStats};
use cloakwork_params::ParameterSet;
use cloakwork_proto::v1::{LeaseStage, WaveCut};

use super::{
    Command, GroupId, JobFailure,
    flavours::{WaveKey, WaveKeys},
    group::Group,
    job::{EngineJob, Finished, LaneId},
    memory::Memory,
    tables::TableError,
    width::{point, preferred},
};
use crate::{
    latency::WaveShare,
    metrics::EndedWave,
    observer::{LINKS_MAX, Observer},
    pulse::Pulse,
};

/// State that the thread owns.
pub(super) struct Core {
    device: Arc<dyn Device>,
    inbox: Receiver<Command>,
    woken: Arc<AtomicBool>,
    pulse: Arc<Pulse>,
    arena_bytes: u64,
    idle_group_time: Duration,
    info: DeviceInfo,
    groups: BTreeMap<GroupId, Group>,
    /// The group of each job.
    jobs: HashMap<u64, GroupId>,
    flights: Vec<Flight>,
    wave_keys: WaveKeys,
    observer: Observer,
    draining: bool,
}

/// A wave on the device.
struct Flight {
    ticket: Ticket,
    group: GroupId,
    lanes: Vec<LaneId>,
    width: usize,
    preferred: usize,
    cut: WaveCut,
    is_companion: bool,
}

/// Maximum size of an arena that stays without jobs. GPUs do not free memory of an arena before the
/// arena ends.
pub(super) const IDLE_ARENA_BYTES_MAX: u64 = 64 << 20;
/// Number of waves on a device without room: one in computation and the next.
const QUEUED_WAVES: usize = 2;
/// Time for which the thread polls while a wave is on a device that leaves the host free. For
/// longer waves, a late wake-up adds little.
const POLL_TIME: Duration = Duration::from_millis(2);

impl Core {
    pub(super) fn new(
        device: Arc<dyn Device>,
        inbox: Receiver<Command>,
        woken: Arc<AtomicBool>,
        pulse: Arc<Pulse>,
        arena_bytes: u64,
        idle_group_time: Duration,
        observer: Observer,
    ) -> Self {
        let info = device.describe();
        Self {
            device,
            inbox,
            woken,
            pulse,
            arena_bytes,
            idle_group_time,
            info,
            groups: BTreeMap::new(),
            jobs: HashMap::new(),
            flights: Vec::new(),
            wave_keys: WaveKeys::default(),
            observer,
            draining: false,
        }
    }

    pub(super) fn run(&mut self) {
        while let Some(command) = self.next_command() {
            let mut next = Some(command);
            while let Some(command) = next {
                match command {
                    Command::Job(job) => self.add(*job),
                    Command::Cancel(id) => self.remove(id),
                    Command::Drain => self.draining = true,
                    Command::Wake => self.woken.store(false, Ordering::Release),
                    Command::Close => return self.drop_idle_groups(),
                }
                next = self.inbox.try_recv().ok();
            }
            let (idle, landed) = (self.flights.is_empty(), self.collect());
            self.fill();
            if idle || landed {
                self.pulse.beat(!self.flights.is_empty());
            }
        }
    }

    /// Waits for a command. Returns nothing once all senders are gone.
    fn next_command(&mut self) -> Option<Command> {
        let began = Instant::now();
        while self.info.capabilities.leaves_host_free && !self.flights.is_empty() && began.elapsed() < POLL_TIME {
            match self.inbox.try_recv() {
                Err(TryRecvError::Empty) => std::thread::yield_now(),
                received => return received.ok(),
            }
        }
        if self.jobs.is_empty() && !self.groups.is_empty() {
            match self.inbox.recv_timeout(self.idle_group_time) {
                Err(RecvTimeoutError::Timeout) => self.drop_idle_groups(),
                received => return received.ok(),
            }
        }
        self.inbox.recv().ok()
    }

    fn add(&mut self, job: EngineJob) {
        let (id, name, set) = (job.id, job.group.clone(), job.plan.graph.set);
        let lanes = 2 * self.info.width_max;
        let group = match self.group(&name, set) {
            Ok(group) => group,
            Err(error) => return fail(job, device_failure(&error)),
        };
        let (need, window) = group.need(&job.plan, lanes);
        if need.slots > group.arena.slots {
            let message = format!(
                "a row of the program needs room for {} ciphertexts; the worker has room for {}",
                need.slots, group.arena.slots
            );
            fail(job, JobFailure::lasting("PROGRAM_TOO_LARGE", message));
            return self.tidy();
        }
        let device = self.device.clone();
        let Some(group) = self.groups.get_mut(&name) else { return };
        match group.tables(&job, &device) {
            Ok(tables) => {
                group.add(job, tables, need, window);
                self.jobs.insert(id, name);
                self.finish_if_done(id);
            }
            Err(error) => {
                fail(
                    job,
                    match error {
                        TableError::Lut(error) => JobFailure::lasting("PROGRAM_INVALID", error),
                        TableError::Device(error) => device_failure(&error),
                    },
                );
                self.tidy();
            }
        }
    }

    fn group(&mut self, name: &GroupId, set: &'static ParameterSet) -> Result<&Group, DeviceError> {
        if !self.groups.contains_key(name) {
            self.drop_idle_groups();
            let arena = self.device.create_arena(set, self.arena_bytes)?;
            self.groups.insert(name.clone(), Group::new(set, arena, self.arena_bytes, Instant::now()));
        }
        self.groups.get(name).ok_or(DeviceError::UnknownHandle { what: "arena" })
    }

    /// Collects finished waves. Returns whether there were any.
    fn collect(&mut self) -> bool {
        let before = self.flights.len();
        let mut index = 0;
        while index < self.flights.len() {
            match self.device.wait(self.flights[index].ticket, Instant::now()) {
                Err(DeviceError::NotDone(_)) => index += 1,
                result => {
                    let flight = self.flights.swap_remove(index);
                    self.info = self.device.describe();
                    self.land(flight, result, false);
                    self.try_again();
                }
            }
        }
        self.flights.len() < before
    }

    /// Submits waves while the device can use them.
    fn fill(&mut self) {
        self.give_companions_back();
        loop {
            self.admit();
            let room = self.device.has_room();
            if !room && self.flights.len() >= QUEUED_WAVES {
                return;
            }
            let Some(name) = self.choose(room) else { return };
            if !self.launch(&name, room) {
                return;
            }
        }
    }

    /// Releases companion leases for which a key that jobs need waits. Groups with a wave under a
    /// companion's key keep their leases.
    fn give_companions_back(&mut self) {
        for (name, group) in &mut self.groups {
            if !self.flights.iter().any(|flight| flight.is_companion && flight.group == *name) {
                group.give_companions_back();
            }
        }
    }

    fn admit(&mut self) {
        let count = self.groups.len().max(1) as u32;
        let mut memory = Memory::new(self.arena_bytes, self.groups.values().map(Group::reserved));
        let mut groups: Vec<&mut Group> = self.groups.values_mut().collect();
        groups.sort_by_key(|group| group.served);
        let mut failed = Vec::new();
        for group in groups {
            group.forget(self.device.as_ref());
            let wanted = 2 * preferred(&self.info, group.set);
            let share = (group.arena.slots / count).max(1);
            failed.extend(group.admit(wanted, share, &mut memory, self.device.as_ref()));
        }
        let (now, others_under_way) = (Instant::now(), self.groups.values().any(Group::is_under_way));
        for (id, error) in failed {
            let is_short = matches!(error, DeviceError::OutOfMemory { .. });
            let group = self.jobs.get(&id).and_then(|name| self.groups.get_mut(name));
            if !group.is_some_and(|group| is_short && group.wait_for_memory(others_under_way, now)) {
                self.fail(id, device_failure(&error));
            }
        }
        let done: Vec<u64> = self
            .groups
            .values()
            .flat_map(|group| group.jobs.iter())
            .filter(|(_, job)| job.is_done())
            .map(|(id, _)| *id)
            .collect();
        done.into_iter().for_each(|id| self.finish_if_done(id));
    }

    /// Chooses the group that has waited longest. While the device is busy, no group starts as long
    /// as all would better wait for more lanes. Once any group has a full or urgent wave, groups
    /// that waited longer go first, with partial waves as well. Otherwise a group whose waves are
    /// always full would starve the groups whose waves never are.
    fn choose(&self, room: bool) -> Option<GroupId> {
        let now = Instant::now();
        let worth =
            |group: &Group| room || group.ready() >= self.width(group) || group.urgent(now, self.horizon(group));
        let waiting: Vec<_> = self.groups.iter().filter(|(_, group)| group.ready() > 0).collect();
        if !waiting.iter().any(|(_, group)| worth(group)) {
            return None;
        }
        waiting.into_iter().min_by_key(|(_, group)| group.served).map(|(name, _)| name.clone())
    }

    fn width(&self, group: &Group) -> usize {
        preferred(&self.info, group.set).min(group.width_limit.most())
    }

    /// Time within which a deadline counts as near: four waves.
    fn horizon(&self, group: &Group) -> Duration {
        let width = self.width(group);
        4 * point(&self.info, group.set, width).map_or(Duration::from_millis(100), |point| point.time)
    }

    /// Submits a wave of a group. Returns false if memory for any wave is available only after a
    /// wave in flight has ended.
    fn launch(&mut self, name: &GroupId, room: bool) -> bool {
        let now = Instant::now();
        let Some(group) = self.groups.get(name) else { return true };
        let (width, horizon) = (self.width(group), self.horizon(group));
        let urgent = group.urgent(now, horizon);
        let others = self.groups.iter().any(|(other, group)| other != name && group.ready() > 0);
        let preferred = preferred(&self.info, group.set);
        let Some(group) = self.groups.get_mut(name) else { return true };
        let (wave, lanes) = group.gather(width, now, horizon);
        let bootstraps = wave.width();
        let cut = if bootstraps >= width {
            WaveCut::Full
        } else if !room && urgent {
            WaveCut::Deadline
        } else if self.draining {
            WaveCut::Drain
        } else if others {
            WaveCut::OtherKey
        } else {
            WaveCut::Idle
        };
        for lane in &lanes {
            if let Some(job) = group.jobs.get(&lane.job) {
                job.job.status.enter(LeaseStage::Computing);
            }
        }
        let wave_key = self.wave_keys.choose(&self.info, group, &lanes, bootstraps);
        let Some(WaveKey { key, is_companion }) = wave_key else { return true };
        let (ticket, group_name) = (Ticket(0), name.clone());
        let flight = Flight { ticket, group: group_name, lanes, width: bootstraps, preferred, cut, is_companion };
        match self.device.submit(key, group.arena, wave) {
            Ok(ticket) => self.flights.push(Flight { ticket, ..flight }),
            Err(error) => {
                let is_short = matches!(error, DeviceError::OutOfMemory { .. }) && bootstraps <= 1;
                let jobs: Vec<u64> = flight.lanes.iter().map(|lane| lane.job).collect();
                self.land(flight, Err(error.clone()), is_short);
                if is_short && !self.flights.is_empty() {
                    return false;
                }
                // Rows that have only begun may occupy memory that the results of other rows need.
                let others_make_way = is_short && self.groups.get_mut(name).is_some_and(Group::take_row_back);
                if is_short && !others_make_way {
                    jobs.into_iter().for_each(|id| self.fail(id, device_failure(&error)));
                }
            }
        }
        true
    }

    /// Handles the end of a wave. A wave that found no memory is retried if it can be split, or if
    /// it `waits` for memory of another wave.
    fn land(&mut self, flight: Flight, result: Result<WorkStats, DeviceError>, waits: bool) {
        let mut own: BTreeMap<u64, u32> = BTreeMap::new();
        for lane in &flight.lanes {
            *own.entry(lane.job).or_default() += 1;
        }
        let mut failed: Vec<(u64, JobFailure)> = Vec::new();
        if let Some(group) = self.groups.get_mut(&flight.group) {
            match result {
                Ok(stats) => {
                    group.width_limit.went_well(flight.width);
                    let Flight { width, preferred, cut, .. } = flight;
                    let wave = EndedWave { set: group.set, width, preferred, cut, stats };
                    let traces = own.keys().filter_map(|id| group.jobs.get(id)?.job.trace);
                    let traced = self.observer.wave(&wave, &self.info.name, traces.take(LINKS_MAX).collect());
                    for (id, lanes) in count_bootstraps(group, &flight.lanes) {
                        let Some(job) = group.jobs.get_mut(&id) else { continue };
                        job.job.stopwatch.wave(WaveShare {
                            stats,
                            width: flight.width as u32,
                            own_width: lanes,
                            preferred: flight.preferred as u32,
                            cut: flight.cut,
                            is_companion: flight.is_companion,
                        });
                        job.job.status.advance();
                        if job.job.trace.is_some() && job.job.waves.len() < LINKS_MAX {
                            job.job.waves.extend(traced);
                        }
                    }
                    for lane in flight.lanes {
                        let Some(job) = group.jobs.get_mut(&lane.job) else { continue };
                        let computed = job.computed(lane, &mut group.slots, self.device.as_ref(), group.arena);
                        if let Err(error) = computed {
                            failed.push((lane.job, device_failure(&error)));
                        }
                    }
                }
                Err(error) => {
                    let splits = matches!(error, DeviceError::OutOfMemory { .. }) && (flight.width > 1 || waits);
                    // A wave that only waits for memory of other waves was not too wide, so the
                    // width limit stays.
                    if splits && flight.width > 1 {
                        group.width_limit.was_short(flight.width);
                    }
                    // Slots are returned in reverse order, so that the earliest are taken first
                    // next time: the others may have no memory.
                    for lane in flight.lanes.into_iter().rev() {
                        if let Some(job) = group.jobs.get_mut(&lane.job) {
                            job.put_back(lane, &mut group.slots);
                        }
                    }
                    if !splits {
                        failed.extend(own.keys().map(|id| (*id, device_failure(&error))));
                    }
                }
            }
        }
        for id in own.keys() {
            if let Some(job) = self.job(*id).filter(|job| job.lanes_in_flight == 0) {
                // Other jobs may fill the next waves, which does not mean that this job stalls.
                job.job.status.enter(LeaseStage::Waiting);
            }
        }
        failed.into_iter().for_each(|(id, failure)| self.fail(id, failure));
        for id in own.into_keys() {
            self.finish_if_done(id);
            self.free_if_cancelled(id);
        }
    }

    /// Lets all groups retry after slots or memory have become free.
    fn try_again(&mut self) {
        self.groups.values_mut().for_each(|group| group.waits_for_memory = false);
    }

    /// Delivers the outputs after the last row has ended.
    fn finish_if_done(&mut self, id: u64) {
        let Some(job) = self.job(id).filter(|job| job.is_done() && !job.cancelled) else { return };
        let (outputs, waves) = (std::mem::take(&mut job.outputs), std::mem::take(&mut job.job.waves));
        let finished = Finished { outputs, stopwatch: job.job.stopwatch.clone(), waves };
        if let Some(done) = job.job.done.take() {
            let _ = done.send(Ok(finished));
        }
        self.remove(id);
    }

    fn fail(&mut self, id: u64, failure: JobFailure) {
        if let Some(done) = self.job(id).and_then(|job| job.job.done.take()) {
            let _ = done.send(Err(failure));
        }
        self.remove(id);
    }

    /// Removes a job immediately, or after its last lane has landed.
    fn remove(&mut self, id: u64) {
        if let Some(job) = self.job(id) {
            job.cancel();
            self.free_if_cancelled(id);
        }
    }

    fn free_if_cancelled(&mut self, id: u64) {
        let Some(name) = self.jobs.get(&id).cloned() else { return };
        let Some(group) = self.groups.get_mut(&name) else { return };
        let Some(job) = group.jobs.get_mut(&id).filter(|job| job.cancelled) else { return };
        if job.lanes_in_flight == 0 {
            job.free(&mut group.slots);
            group.remove(id);
            self.jobs.remove(&id);
            self.tidy();
            self.try_again();
        }
    }

    /// Removes groups without jobs, except a last group whose arena is small. This group stays for
    /// its next job.
    fn tidy(&mut self) {
        let is_small = |group: &Group| group.arena_bytes() <= IDLE_ARENA_BYTES_MAX;
        if !self.jobs.is_empty() || !self.groups.values().all(is_small) {
            self.drop_idle_groups();
        }
    }

    fn drop_idle_groups(&mut self) {
        for (_, group) in self.groups.extract_if(.., |_, group| group.jobs.is_empty()) {
            self.device.drop_arena(group.arena);
        }
    }

    fn job(&mut self, id: u64) -> Option<&mut super::job::Job> {
        let name = self.jobs.get(&id)?;
        self.groups.get_mut(name)?.jobs.get_mut(&id)
    }
}

/// Number of bootstraps of each job in a wave; 0 for a job that has only lanes without a table.
fn count_bootstraps(group: &Group, lanes: &[LaneId]) -> BTreeMap<u64, u32> {
    let mut counts = BTreeMap::new();
    for lane in lanes {
        let Some(job) = group.jobs.get(&lane.job) else { continue };
        let tabled = job.job.plan.graph.nodes[lane.node as usize].table.is_some();
        *counts.entry(lane.job).or_default() += u32::from(tabled);
    }
    counts
}

fn fail(mut job: EngineJob, failure: JobFailure) {
    if let Some(done) = job.done.take() {
        let _ = done.send(Err(failure));
    }
}

/// Maps a device error to a failure of the affected jobs.
fn device_failure(error: &DeviceError) -> JobFailure {
    match error {
        DeviceError::OutOfMemory { .. } => JobFailure::passing("WORKER_OUT_OF_MEMORY", error),
        _ => JobFailure::passing("DEVICE_FAILED", error),
    }
}
