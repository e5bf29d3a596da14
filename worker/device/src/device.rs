//! The contract.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cloakwork_params::ParameterSet;

use crate::{DeviceError, HostLut, KeySource, Wave, Words, WordsMut};

/// Something that computes waves. Everything it hands out is a number; a number it never handed out is an error.
///
/// A device runs several waves at a time where it can, in the order that they came. A wave may not touch a slot that
/// an unfinished wave writes: what depends on a result is submitted when the result is there.
pub trait Device: Send + Sync {
    /// What it is. The curve grows with what it has measured.
    fn describe(&self) -> DeviceInfo;

    /// Reads the parts of a key and makes it ready. Blocks for as long as that takes; other work goes on.
    fn load_key(&self, key: &dyn KeySource) -> Result<KeySlot, DeviceError>;

    /// Bytes that a key of `set` takes up once it is loaded.
    fn key_bytes(&self, set: &'static ParameterSet) -> u64;

    /// Forgets a key. Unfinished work under it ends first.
    fn evict_key(&self, key: KeySlot);

    /// Makes a table ready.
    fn load_lut(&self, set: &'static ParameterSet, lut: HostLut<'_>) -> Result<LutSlot, DeviceError>;

    /// Forgets a table. Unfinished work that uses it ends first.
    fn evict_lut(&self, lut: LutSlot);

    /// Slots for ciphertexts of `set`, as many as fit the limit.
    fn create_arena(&self, set: &'static ParameterSet, limit_bytes: u64) -> Result<Arena, DeviceError>;

    /// Forgets an arena. Unfinished work in it ends first.
    fn drop_arena(&self, arena: Arena);

    /// Writes ciphertexts, back to back in `words`, to slots.
    fn write(&self, arena: Arena, slots: &[u32], words: Words<'_>) -> Result<(), DeviceError>;

    /// Reads ciphertexts from slots, back to back into `words`.
    fn read(&self, arena: Arena, slots: &[u32], words: WordsMut<'_>) -> Result<(), DeviceError>;

    /// Forgets what slots hold; they count as never written. For devices whose slots take memory one by one.
    fn discard(&self, _arena: Arena, _slots: &[u32]) {}

    /// Checks a wave and takes it on. Returns before it is computed.
    fn submit(&self, key: KeySlot, arena: Arena, wave: Wave) -> Result<Ticket, DeviceError>;

    /// Waits until a wave has ended, or for [`DeviceError::NotDone`] at the deadline. Whatever else comes back ends
    /// the ticket.
    fn wait(&self, ticket: Ticket, deadline: Instant) -> Result<WorkStats, DeviceError>;

    /// Is it of use to it to have the key of a set's companion as well? Then it takes waves of the set under either key.
    fn uses_companions(&self) -> bool {
        false
    }

    /// Could it begin more work at once?
    fn has_room(&self) -> bool;

    /// Why it takes no more work, ever. A device that can fail so is given up with its process.
    fn lost(&self) -> Option<String> {
        None
    }

    /// Sets what is called whenever a wave ends or room has come about. It must be quick and must not call the device.
    fn set_waker(&self, waker: Waker);
}

/// Called by a device when something has changed.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// What a device is.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceInfo {
    /// 'cpu', say.
    pub kind: &'static str,
    /// For people.
    pub name: String,
    /// Sets that it serves.
    pub sets: Vec<&'static ParameterSet>,
    /// Waves that it can work on at the same time.
    pub units: usize,
    /// Lanes that a unit takes at a time: widths that are not a multiple of these waste some of it.
    pub tile: usize,
    /// Widest wave that can bring anything.
    pub width_max: usize,
    /// What waves took so far.
    pub curve: Vec<CurvePoint>,
}

/// A point of the time curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// The parameter set.
    pub set: &'static ParameterSet,
    /// Bootstraps in the wave.
    pub width: usize,
    /// Time that the device is busy with one such wave, averaged.
    pub time: Duration,
}

/// A loaded key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeySlot {
    /// Number.
    pub number: u64,
    /// Bytes held.
    pub bytes: u64,
}

/// A loaded table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LutSlot(pub u64);

/// Slots on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arena {
    /// Number.
    pub number: u64,
    /// Slots.
    pub slots: u32,
}

/// A wave under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// Where a wave's time went. The three stages are a partition of the time from `began` to `ended`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkStats {
    /// When the device began with it.
    pub began: Instant,
    /// When the last result was there.
    pub ended: Instant,
    /// Key switches.
    pub key_switch: Duration,
    /// Blind rotations; on some devices the modulus switch cannot be told apart from them.
    pub blind_rotate: Duration,
    /// Everything else.
    pub other: Duration,
}
