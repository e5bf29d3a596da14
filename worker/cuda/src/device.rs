//! One or more GPUs as one device.

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
use cloakwork_params::{
    ParameterSet,
    table::{SETS, companion_of},
};

use crate::{
    bench::Bench,
    gpu::{Buffer, Driver, DriverError, GpuArena, Loss, Table},
    key::{self, GpuKey, Sweep, WarmKeys},
    locked::locked,
    queue::Queue,
    run::{Outcome, Run},
};

/// GPUs that share their waves. Every GPU has every key and table. An arena lies on one GPU, and
/// the others access it there. Each GPU has a thread that takes parts of waves and launches them.
pub struct CudaDevice {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    numbers: AtomicU64,
    keys: Mutex<HashMap<u64, Arc<dyn GpuKey>>>,
    warm: Arc<WarmKeys>,
    sweep: Option<Sweep>,
    luts: Mutex<HashMap<u64, Arc<Table>>>,
    arenas: Mutex<HashMap<u64, Arc<GpuArena>>>,
    tickets: Mutex<HashMap<u64, Arc<Outcome>>>,
}

/// State that the device and its threads share.
struct Shared {
    benches: Vec<Bench>,
    queue: Queue,
    loss: Arc<Loss>,
}

/// Lanes for each multiprocessor in the widest wave. The GPU can process half of them at once, so
/// that the others begin while the first ones end.
const LANES_PER_MULTIPROCESSOR: usize = 8;

impl CudaDevice {
    /// A device of at least one GPU. The GPUs can access each other's memory.
    pub fn new(drivers: Vec<Arc<dyn Driver>>) -> Result<Self, DeviceError> {
        if drivers.is_empty() {
            return Err(DeviceError::Lost { message: "the device has no GPUs".to_owned() });
        }
        let loss = Arc::<Loss>::default();
        let benches = drivers.into_iter().enumerate().map(|(number, driver)| Bench::new(number, driver, &loss));
        let shared = Arc::new(Shared { benches: benches.collect::<Result<_, _>>()?, queue: Queue::default(), loss });
        let mut device = Self {
            shared: shared.clone(),
            threads: Vec::new(),
            numbers: AtomicU64::new(1),
            keys: Mutex::default(),
            warm: Arc::new(WarmKeys::new(0, Duration::ZERO)),
            sweep: None,
            luts: Mutex::default(),
            arenas: Mutex::default(),
            tickets: Mutex::default(),
        };
        for number in 0..shared.benches.len() {
            let shared = shared.clone();
            let work = move || shared.queue.work(&shared.benches[number]);
            let thread = std::thread::Builder::new().name(format!("gpu-{number}")).spawn(work);
            let lost = |error: io::Error| DeviceError::Lost { message: error.to_string() };
            // If a thread cannot start, dropping `device` ends the threads that have started.
            device.threads.push(thread.map_err(lost)?);
        }
        Ok(device)
    }

    /// Adds copies of keys in the host's pinned memory, up to `limit_bytes`. A key that was evicted
    /// to make room is prepared from its copy when it is loaded again. A copy is dropped when its
    /// evicted key has not been loaded for `kept_for`.
    pub fn with_warm_keys(mut self, limit_bytes: u64, kept_for: Duration) -> Result<Self, DeviceError> {
        self.warm = Arc::new(WarmKeys::new(limit_bytes, kept_for));
        let sweep = Sweep::start(self.warm.clone());
        self.sweep = Some(sweep.map_err(|error| DeviceError::Lost { message: error.to_string() })?);
        Ok(self)
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn arena(&self, arena: Arena) -> Result<Arc<GpuArena>, DeviceError> {
        find(&self.arenas, arena.number, "arena")
    }
}

impl Device for CudaDevice {
    fn describe(&self) -> DeviceInfo {
        let gpus: Vec<_> = self.shared.benches.iter().map(|bench| bench.driver.describe()).collect();
        let multiprocessors: usize = gpus.iter().map(|gpu| gpu.multiprocessors as usize).sum();
        let names: Vec<_> = gpus.iter().map(|gpu| format!("{} of {} MiB", gpu.name, gpu.memory_bytes >> 20)).collect();
        DeviceInfo {
            kind: "cuda",
            name: names.join(", "),
            sets: SETS.iter().filter(|set| gpus.iter().all(|gpu| key::serves(set, gpu))).collect(),
            units: gpus.len(),
            tile: multiprocessors / gpus.len(),
            width_max: multiprocessors * LANES_PER_MULTIPROCESSOR,
            // Measured times decide on the kernel and the key of each wave, and both change bits.
            result_class: String::new(),
            capabilities: Capabilities { uses_companions: true, leaves_host_free: true },
            curve: self.shared.queue.curve(),
        }
    }

    fn load_key(&self, source: &dyn KeySource) -> Result<KeySlot, DeviceError> {
        self.shared.loss.check()?;
        let key = key::load(&self.shared.benches, &self.warm, source)?;
        let slot = KeySlot { number: self.number(), bytes: key.bytes() };
        locked(&self.keys).insert(slot.number, key);
        Ok(slot)
    }

    fn key_bytes(&self, set: &'static ParameterSet) -> u64 {
        key::bytes(set)
    }

    fn evict_key(&self, key: KeySlot) {
        // The driver waits for the GPU when it frees memory, so the key is dropped outside the
        // lock.
        let freed = locked(&self.keys).remove(&key.number);
        if let Some(name) = freed.as_ref().and_then(|key| key.name()) {
            self.warm.was_evicted(name);
        }
        drop(freed);
    }

    fn load_lut(&self, set: &'static ParameterSet, lut: HostLut<'_>) -> Result<LutSlot, DeviceError> {
        if !lut.fits(set) {
            return Err(DeviceError::WrongSet { what: "the table", expected: set.name, got: "another set" });
        }
        let copies = |of: &dyn Fn(&Bench) -> Result<Buffer, DriverError>| {
            self.shared.benches.iter().map(of).collect::<Result<Vec<_>, _>>()
        };
        let (words, outputs) = match lut {
            HostLut::U32(lut) => (copies(&|bench| Buffer::of(&bench.driver, lut.body()))?, lut.outputs()),
            HostLut::U64(lut) => (copies(&|bench| Buffer::of(&bench.driver, lut.body()))?, lut.outputs()),
        };
        let slot = LutSlot(self.number());
        locked(&self.luts).insert(slot.0, Arc::new(Table { set, words, outputs: outputs.to_vec() }));
        Ok(slot)
    }

    fn evict_lut(&self, lut: LutSlot) {
        let freed = locked(&self.luts).remove(&lut.0);
        drop(freed);
    }

    fn create_arena(&self, set: &'static ParameterSet, limit_bytes: u64) -> Result<Arena, DeviceError> {
        let number = self.number();
        // Arenas are distributed round robin, so that no GPU holds them all.
        let home = &self.shared.benches[number as usize % self.shared.benches.len()];
        let gpu = GpuArena::new(&home.driver, set, limit_bytes)?;
        let arena = Arena { number, slots: gpu.len() };
        locked(&self.arenas).insert(arena.number, Arc::new(gpu));
        Ok(arena)
    }

    fn drop_arena(&self, arena: Arena) {
        let freed = locked(&self.arenas).remove(&arena.number);
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
        let is_companion = || companion_of(expected).is_some_and(|companion| companion.set.id == key.set().id);
        if key.set().id != expected.id && !is_companion() {
            return Err(DeviceError::WrongSet { what: "the key", expected: expected.name, got: key.set().name });
        }
        let mut tables = Vec::with_capacity(wave.tables().len());
        for slot in wave.tables() {
            let table = find(&self.luts, slot.0, "table")?;
            if table.set.id != expected.id {
                return Err(DeviceError::WrongSet { what: "a table", expected: expected.name, got: table.set.name });
            }
            tables.push(table);
        }
        self.shared.loss.check()?;
        let run = Run::new(&self.shared.benches, key, arena, wave, tables)?;
        let ticket = Ticket(self.number());
        locked(&self.tickets).insert(ticket.0, run.outcome().clone());
        self.shared.queue.push(run);
        Ok(ticket)
    }

    fn wait(&self, ticket: Ticket, deadline: Instant) -> Result<WorkStats, DeviceError> {
        let outcome = find(&self.tickets, ticket.0, "ticket")?;
        let began = Instant::now();
        match outcome.wait(deadline) {
            Some(result) => {
                locked(&self.tickets).remove(&ticket.0);
                result
            }
            None => Err(DeviceError::NotDone(deadline.saturating_duration_since(began))),
        }
    }

    fn has_room(&self) -> bool {
        self.shared.queue.has_room()
    }

    fn lost(&self) -> Option<String> {
        if let Some(why) = self.shared.loss.why() {
            return Some(why.to_owned());
        }
        // A thread catches the panics of its computations. If it ends nevertheless, its waves would
        // never end.
        if let Some(number) = self.threads.iter().position(JoinHandle::is_finished) {
            return Some(format!("thread gpu-{number} has ended"));
        }
        // Without the sweep, copies of unused keys would hold pinned memory forever.
        let sweep_has_died = self.sweep.as_ref().is_some_and(Sweep::has_died);
        sweep_has_died.then(|| "thread warm-keys has ended".to_owned())
    }

    fn set_waker(&self, waker: Waker) {
        self.shared.queue.set_waker(waker);
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        self.shared.queue.close();
        for thread in self.threads.drain(..) {
            // The thread catches panics of the waves. A panic elsewhere has no one left to report
            // to.
            let _ = thread.join();
        }
    }
}

fn find<V: Clone>(map: &Mutex<HashMap<u64, V>>, number: u64, what: &'static str) -> Result<V, DeviceError> {
    locked(map).get(&number).cloned().ok_or(DeviceError::UnknownHandle { what })
}
