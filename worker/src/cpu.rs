//! The CPU as a device: an arena in host memory, and a pool of threads that compute the lanes of
//! waves.
//!
//! A thread that finds no more tasks in one wave continues with the next wave. No wave waits for
//! the end of another.

mod arena;
mod key;
mod pool;
mod processors;
mod run;
mod workspace;

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use cloakwork_device::{
    Arena, Capabilities, Device, DeviceError, DeviceInfo, HostLut, KeySlot, KeySource, LutSlot, Ticket, Waker, Wave,
    Words, WordsMut, WorkStats,
};
use cloakwork_params::{ParameterSet, table::SETS};
use cloakwork_tfhe::{Level, blind_rotation::TILE_MAX, bootstrap::PART_MAX, cache};

use self::{arena::HostArena, key::HostKey, pool::Pool, run::Run, workspace::Workspaces};
use crate::locked::Locked as _;

/// Upper bound of compute threads, above the processor count of any machine.
const THREADS_MAX: usize = 4096;

/// A device that computes on a fixed number of threads.
pub struct CpuDevice {
    pool: Arc<Pool>,
    threads: Vec<JoinHandle<()>>,
    numbers: AtomicU64,
    keys: Mutex<HashMap<u64, Arc<dyn HostKey>>>,
    workspaces: Workspaces,
    luts: Mutex<HashMap<u64, (&'static ParameterSet, run::LoadedLut)>>,
    arenas: Mutex<HashMap<u64, Arc<HostArena>>>,
    tickets: Mutex<HashMap<u64, Arc<Run>>>,
}

impl CpuDevice {
    /// A device with `threads` threads, at least one.
    pub fn new(threads: usize) -> io::Result<Self> {
        if threads > THREADS_MAX {
            let problem = format!("{threads} threads are more than the {THREADS_MAX} that a device may have");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        Self::on(&vec![None; threads.max(1)])
    }

    /// A device like that of [`Self::new`], with each thread pinned to a processor of its own.
    /// Other work on such a processor delays its thread even while other processors are idle.
    /// Pinning therefore suits machines that do nothing else.
    pub fn pinned(threads: usize) -> io::Result<Self> {
        let allowed = processors::allowed()?;
        if threads > allowed.len() {
            let problem = format!("{threads} threads cannot each have one of {} processors", allowed.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let processors: Vec<_> = allowed.into_iter().take(threads.max(1)).map(Some).collect();
        Self::on(&processors)
    }

    /// Starts a thread for each entry, pinned to the entry's processor if there is one.
    fn on(processors: &[Option<usize>]) -> io::Result<Self> {
        Level::chosen().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let mut device = Self {
            pool: Arc::new(Pool::new(processors.len())),
            threads: Vec::with_capacity(processors.len()),
            numbers: AtomicU64::new(1),
            keys: Mutex::default(),
            workspaces: Workspaces::default(),
            luts: Mutex::default(),
            arenas: Mutex::default(),
            tickets: Mutex::default(),
        };
        for (index, &processor) in processors.iter().enumerate() {
            let pool = device.pool.clone();
            let work = move || {
                if let Some(Err(error)) = processor.map(processors::stay_on) {
                    tracing::warn!("thread {index} is not pinned: {error}");
                }
                pool.work();
            };
            // If a thread cannot be started, dropping the device ends the threads that already run.
            device.threads.push(std::thread::Builder::new().name(format!("cpu-{index}")).spawn(work)?);
        }
        Ok(device)
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn arena(&self, arena: Arena) -> Result<Arc<HostArena>, DeviceError> {
        find(&self.arenas, arena.number, "arena")
    }
}

impl Device for CpuDevice {
    fn describe(&self) -> DeviceInfo {
        let units = self.threads.len();
        DeviceInfo {
            kind: "cpu",
            name: format!(
                "cpu, {units} threads, {}, tiles for {} KiB of cache",
                Level::detect().name(),
                cache::second_level_bytes() >> 10
            ),
            sets: SETS.iter().collect(),
            units,
            tile: TILE_MAX,
            width_max: units * PART_MAX,
            // Only the instruction set changes bits, in the last places.
            result_class: format!("cpu {} {}", std::env::consts::ARCH, Level::detect().name()),
            capabilities: Capabilities::default(),
            curve: self.pool.curve(),
        }
    }

    fn load_key(&self, source: &dyn KeySource) -> Result<KeySlot, DeviceError> {
        let key = key::load(source, self.threads.len(), &self.workspaces)?;
        let slot = KeySlot { number: self.number(), bytes: key.bytes() };
        self.keys.locked().insert(slot.number, key);
        Ok(slot)
    }

    fn key_bytes(&self, set: &'static ParameterSet) -> u64 {
        key::bytes(set)
    }

    fn evict_key(&self, key: KeySlot) {
        // The key may free gigabytes, so the lock is released first.
        let freed = self.keys.locked().remove(&key.number);
        drop(freed);
    }

    fn load_lut(&self, set: &'static ParameterSet, lut: HostLut<'_>) -> Result<LutSlot, DeviceError> {
        if !lut.fits(set) {
            return Err(DeviceError::WrongSet { what: "the table", expected: set.name, got: "another set" });
        }
        let slot = LutSlot(self.number());
        self.luts.locked().insert(slot.0, (set, lut.into()));
        Ok(slot)
    }

    fn evict_lut(&self, lut: LutSlot) {
        self.luts.locked().remove(&lut.0);
    }

    fn create_arena(&self, set: &'static ParameterSet, limit_bytes: u64) -> Result<Arena, DeviceError> {
        let host = HostArena::new(set, limit_bytes)?;
        let arena = Arena { number: self.number(), slots: host.len() };
        self.arenas.locked().insert(arena.number, Arc::new(host));
        Ok(arena)
    }

    fn drop_arena(&self, arena: Arena) {
        let freed = self.arenas.locked().remove(&arena.number);
        drop(freed);
    }

    fn write(&self, arena: Arena, slots: &[u32], words: Words<'_>) -> Result<(), DeviceError> {
        self.arena(arena)?.write(slots, words)
    }

    fn read(&self, arena: Arena, slots: &[u32], words: WordsMut<'_>) -> Result<(), DeviceError> {
        self.arena(arena)?.read(slots, words)
    }

    fn discard(&self, arena: Arena, slots: &[u32]) {
        if let Ok(arena) = self.arena(arena) {
            arena.discard(slots);
        }
    }

    fn submit(&self, key: KeySlot, arena: Arena, wave: Wave) -> Result<Ticket, DeviceError> {
        let key = find(&self.keys, key.number, "key")?;
        let arena = self.arena(arena)?;
        let expected = arena.set();
        if key.set().id != expected.id {
            return Err(DeviceError::WrongSet { what: "the key", expected: expected.name, got: key.set().name });
        }
        let mut luts = Vec::with_capacity(wave.tables().len());
        for slot in wave.tables() {
            let (set, lut) = find(&self.luts, slot.0, "table")?;
            if set.id != expected.id {
                return Err(DeviceError::WrongSet { what: "a table", expected: expected.name, got: set.name });
            }
            luts.push(lut);
        }
        let run = Arc::new(Run::new(key, arena, wave, luts, self.threads.len())?);
        let ticket = Ticket(self.number());
        self.tickets.locked().insert(ticket.0, run.clone());
        self.pool.push(run);
        Ok(ticket)
    }

    fn wait(&self, ticket: Ticket, deadline: Instant) -> Result<WorkStats, DeviceError> {
        let run = find(&self.tickets, ticket.0, "ticket")?;
        let began = Instant::now();
        match run.wait(deadline) {
            Some(result) => {
                self.tickets.locked().remove(&ticket.0);
                result
            }
            None => Err(DeviceError::NotDone(deadline.saturating_duration_since(began).max(Duration::ZERO))),
        }
    }

    fn has_room(&self) -> bool {
        self.pool.has_room()
    }

    /// A thread catches the panics of its tasks. A thread that ends nevertheless would leave waves
    /// that never end.
    fn lost(&self) -> Option<String> {
        let died = self.threads.iter().position(JoinHandle::is_finished)?;
        Some(format!("thread cpu-{died} has ended"))
    }

    fn set_waker(&self, waker: Waker) {
        self.pool.set_waker(waker);
    }
}

impl Drop for CpuDevice {
    fn drop(&mut self) {
        self.pool.close();
        for thread in self.threads.drain(..) {
            // A thread catches the panics of its tasks, so the join result carries nothing to
            // report.
            let _ = thread.join();
        }
    }
}

fn find<V: Clone>(map: &Mutex<HashMap<u64, V>>, number: u64, what: &'static str) -> Result<V, DeviceError> {
    map.locked().get(&number).cloned().ok_or(DeviceError::UnknownHandle { what })
}
