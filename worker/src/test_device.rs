//! A device for tests: it computes nothing, and its waves end when the test says so.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use cloakwork_device::{
    Arena, Capabilities, CurvePoint, Device, DeviceError, DeviceInfo, HostLut, KeySlot, KeySource, LutSlot, Ticket,
    VectorUnit, Waker, Wave, Words, WordsMut, WorkStats,
};
use cloakwork_params::{ParameterSet, table::SETS};

/// Number of bootstraps that fill a wave.
pub(crate) const WAVE_WIDTH: usize = 16;
/// Upper bound of waits that should end immediately.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct TestDevice {
    slots: u32,
    /// Time curve that the device reports.
    curve: Vec<CurvePoint>,
    state: Mutex<State>,
    changed: Condvar,
    /// The unit for vectors that the device offers.
    pub(crate) vector_unit: Option<Arc<dyn VectorUnit>>,
    /// Whether the engine may poll for waves.
    pub(crate) leaves_host_free: bool,
}

#[derive(Default)]
struct State {
    numbers: u64,
    /// Waves that the test has not read yet.
    fresh: VecDeque<BTreeMap<u64, usize>>,
    /// Keys of all waves so far.
    keys: Vec<KeySlot>,
    refuses_keys: bool,
    /// Numbers of the arenas that exist.
    arenas: BTreeSet<u64>,
    /// Largest number of arenas that existed at a time.
    arenas_most: usize,
    /// Numbers of the tables that are loaded.
    tables: BTreeSet<u64>,
    running: VecDeque<u64>,
    /// Waves that have ended, and whether there was memory for them.
    ended: HashMap<u64, bool>,
    /// Number of slots that have memory, in every arena.
    memory: Option<u32>,
    /// Number of the first arena without any memory.
    dry_from: Option<u64>,
    waker: Option<Waker>,
}

impl TestDevice {
    /// A device whose arenas have `slots` slots.
    pub(crate) fn new(slots: u32) -> Self {
        Self::with_curve(slots, Vec::new())
    }

    /// A device that reports the given time curve.
    pub(crate) fn with_curve(slots: u32, curve: Vec<CurvePoint>) -> Self {
        Self {
            slots,
            curve,
            state: Mutex::default(),
            changed: Condvar::new(),
            vector_unit: None,
            leaves_host_free: false,
        }
    }

    /// The keys of all waves so far.
    pub(crate) fn keys(&self) -> Vec<KeySlot> {
        self.state().keys.clone()
    }

    /// Numbers of the arenas that exist.
    pub(crate) fn arenas(&self) -> BTreeSet<u64> {
        self.state().arenas.clone()
    }

    /// Largest number of arenas that existed at a time.
    pub(crate) fn arenas_most(&self) -> usize {
        self.state().arenas_most
    }

    /// Numbers of the tables that are loaded.
    pub(crate) fn tables(&self) -> BTreeSet<u64> {
        self.state().tables.clone()
    }

    /// Waits until no arena exists.
    pub(crate) fn no_arenas(&self) {
        let waited = self.changed.wait_timeout_while(self.state(), WAIT_TIMEOUT, |state| !state.arenas.is_empty());
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(state.arenas.is_empty(), "{:?} still exist", state.arenas);
    }

    /// From now on, refuses keys for lack of memory.
    pub(crate) fn refuse_keys(&self) {
        self.state().refuses_keys = true;
    }

    /// Waits for the next wave. Returns the number of its lanes by their constant.
    pub(crate) fn next_wave(&self) -> BTreeMap<u64, usize> {
        self.wave_within(WAIT_TIMEOUT).expect("a wave comes")
    }

    /// The next wave, if one is submitted within `time`.
    pub(crate) fn wave_within(&self, time: Duration) -> Option<BTreeMap<u64, usize>> {
        let waited = self.changed.wait_timeout_while(self.state(), time, |state| state.fresh.is_empty());
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.fresh.pop_front()
    }

    /// Ends the oldest running wave.
    pub(crate) fn end_oldest(&self) {
        self.end(true);
    }

    /// Ends the oldest running wave with an out-of-memory error.
    pub(crate) fn refuse_oldest(&self) {
        self.end(false);
    }

    /// Leaves memory for the slots below `slots` only.
    pub(crate) fn leave(&self, slots: u32) {
        self.state().memory = Some(slots);
    }

    /// Leaves no memory for arenas that are created from now on.
    pub(crate) fn leave_none_to_later_arenas(&self) {
        let number = self.number();
        self.state().dry_from = Some(number);
    }

    fn end(&self, had_memory: bool) {
        let mut state = self.state();
        let ticket = state.running.pop_front().expect("a wave runs");
        state.ended.insert(ticket, had_memory);
        let waker = state.waker.clone();
        drop(state);
        if let Some(waker) = waker {
            waker();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_memory(&self, arena: Arena, slots: &[u32]) -> Result<(), DeviceError> {
        let state = self.state();
        let is_dry = state.dry_from.is_some_and(|first| arena.number >= first);
        let memory = if is_dry { 0 } else { state.memory.unwrap_or(self.slots) };
        match slots.iter().any(|slot| *slot >= memory) {
            true => Err(DeviceError::OutOfMemory { needed: 1, available: 0 }),
            false => Ok(()),
        }
    }

    fn number(&self) -> u64 {
        let mut state = self.state();
        state.numbers += 1;
        state.numbers
    }
}

impl Device for TestDevice {
    fn describe(&self) -> DeviceInfo {
        DeviceInfo {
            kind: "test",
            name: "test".to_owned(),
            sets: SETS.iter().collect(),
            units: 1,
            tile: WAVE_WIDTH,
            width_max: WAVE_WIDTH,
            result_class: String::new(),
            capabilities: Capabilities { uses_companions: true, leaves_host_free: self.leaves_host_free },
            curve: self.curve.clone(),
        }
    }

    fn load_key(&self, _: &dyn KeySource) -> Result<KeySlot, DeviceError> {
        let refuses = self.state().refuses_keys;
        let slot = KeySlot { number: self.number(), bytes: 1 };
        if refuses { Err(DeviceError::OutOfMemory { needed: 1, available: 0 }) } else { Ok(slot) }
    }

    fn key_bytes(&self, _: &'static ParameterSet) -> u64 {
        1
    }

    fn evict_key(&self, _: KeySlot) {}

    fn load_lut(&self, _: &'static ParameterSet, _: HostLut<'_>) -> Result<LutSlot, DeviceError> {
        let number = self.number();
        self.state().tables.insert(number);
        Ok(LutSlot(number))
    }

    fn evict_lut(&self, lut: LutSlot) {
        self.state().tables.remove(&lut.0);
    }

    fn create_arena(&self, _: &'static ParameterSet, _: u64) -> Result<Arena, DeviceError> {
        let arena = Arena { number: self.number(), slots: self.slots };
        let mut state = self.state();
        state.arenas.insert(arena.number);
        state.arenas_most = state.arenas_most.max(state.arenas.len());
        drop(state);
        Ok(arena)
    }

    fn drop_arena(&self, arena: Arena) {
        self.state().arenas.remove(&arena.number);
        self.changed.notify_all();
    }

    fn write(&self, arena: Arena, slots: &[u32], _: Words<'_>) -> Result<(), DeviceError> {
        self.has_memory(arena, slots)
    }

    fn read(&self, _: Arena, _: &[u32], _: WordsMut<'_>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn submit(&self, key: KeySlot, arena: Arena, wave: Wave) -> Result<Ticket, DeviceError> {
        (0..wave.lanes().len()).try_for_each(|lane| self.has_memory(arena, wave.outputs(lane)))?;
        let number = self.number();
        let mut lanes = BTreeMap::new();
        wave.lanes().iter().for_each(|lane| *lanes.entry(lane.constant).or_default() += 1);
        let mut state = self.state();
        state.fresh.push_back(lanes);
        state.keys.push(key);
        state.running.push_back(number);
        self.changed.notify_all();
        Ok(Ticket(number))
    }

    fn wait(&self, ticket: Ticket, _: Instant) -> Result<WorkStats, DeviceError> {
        let (began, none) = (Instant::now(), Duration::ZERO);
        let ended = self.state().ended.remove(&ticket.0);
        match ended {
            Some(true) => Ok(WorkStats { began, ended: began, key_switch: none, blind_rotate: none, other: none }),
            Some(false) => Err(DeviceError::OutOfMemory { needed: 1, available: 0 }),
            None => Err(DeviceError::NotDone(none)),
        }
    }

    fn has_room(&self) -> bool {
        self.state().running.is_empty()
    }

    fn vector_unit(&self) -> Option<Arc<dyn VectorUnit>> {
        self.vector_unit.clone()
    }

    fn set_waker(&self, waker: Waker) {
        self.state().waker = Some(waker);
    }
}
