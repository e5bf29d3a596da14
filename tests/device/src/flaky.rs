//! A device with faults that tests choose.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use cloakwork_device::{
    Arena, Device, DeviceError, DeviceInfo, HostLut, KeySlot, KeySource, LutSlot, Ticket, VectorUnit, Waker, Wave,
    Words, WordsMut, WorkStats,
};
use cloakwork_params::{ParameterSet, Standing};

/// Wraps another device, with memory for `width_max` lanes of a wave. On request, it loses a wave
/// or panics.
pub struct Flaky<D> {
    inner: D,
    width_max: usize,
    lose: AtomicBool,
    panic: AtomicBool,
}

impl<D: Device> Flaky<D> {
    /// Wraps `inner`, without any fault yet.
    pub fn new(inner: D, width_max: usize) -> Self {
        Self { inner, width_max, lose: AtomicBool::new(false), panic: AtomicBool::new(false) }
    }

    /// Panics at the next call of `has_room`. An engine makes this call between waves.
    pub fn panic_next(&self) {
        self.panic.store(true, Ordering::SeqCst);
    }

    /// Loses the next wave.
    pub fn lose_next(&self) {
        self.lose.store(true, Ordering::SeqCst);
    }
}

impl<D: Device> Device for Flaky<D> {
    fn describe(&self) -> DeviceInfo {
        let mut info = self.inner.describe();
        // The self-test computes toy sets, and its waves are too wide for `width_max`. So the
        // device offers served sets only.
        info.sets.retain(|set| set.standing == Standing::Served);
        info
    }

    fn load_key(&self, key: &dyn KeySource) -> Result<KeySlot, DeviceError> {
        self.inner.load_key(key)
    }

    fn key_bytes(&self, set: &'static ParameterSet) -> u64 {
        self.inner.key_bytes(set)
    }

    fn evict_key(&self, key: KeySlot) {
        self.inner.evict_key(key);
    }

    fn load_lut(&self, set: &'static ParameterSet, lut: HostLut<'_>) -> Result<LutSlot, DeviceError> {
        self.inner.load_lut(set, lut)
    }

    fn evict_lut(&self, lut: LutSlot) {
        self.inner.evict_lut(lut);
    }

    fn create_arena(&self, set: &'static ParameterSet, limit_bytes: u64) -> Result<Arena, DeviceError> {
        self.inner.create_arena(set, limit_bytes)
    }

    fn drop_arena(&self, arena: Arena) {
        self.inner.drop_arena(arena);
    }

    fn write(&self, arena: Arena, slots: &[u32], words: Words<'_>) -> Result<(), DeviceError> {
        self.inner.write(arena, slots, words)
    }

    fn read(&self, arena: Arena, slots: &[u32], words: WordsMut<'_>) -> Result<(), DeviceError> {
        self.inner.read(arena, slots, words)
    }

    fn submit(&self, key: KeySlot, arena: Arena, wave: Wave) -> Result<Ticket, DeviceError> {
        if self.lose.swap(false, Ordering::SeqCst) {
            return Err(DeviceError::Lost { message: "as the test asked".to_owned() });
        }
        let (needed, available) = (wave.width() as u64, self.width_max as u64);
        if needed > available {
            return Err(DeviceError::OutOfMemory { needed, available });
        }
        self.inner.submit(key, arena, wave)
    }

    fn wait(&self, ticket: Ticket, deadline: Instant) -> Result<WorkStats, DeviceError> {
        self.inner.wait(ticket, deadline)
    }

    fn has_room(&self) -> bool {
        assert!(!self.panic.swap(false, Ordering::SeqCst), "as the test asked");
        self.inner.has_room()
    }

    fn discard(&self, arena: Arena, slots: &[u32]) {
        self.inner.discard(arena, slots);
    }

    fn vector_unit(&self) -> Option<Arc<dyn VectorUnit>> {
        self.inner.vector_unit()
    }

    fn lost(&self) -> Option<String> {
        self.inner.lost()
    }

    fn set_waker(&self, waker: Waker) {
        self.inner.set_waker(waker);
    }
}
