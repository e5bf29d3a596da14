//! The contract between engines and a device.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cloakwork_params::ParameterSet;

use crate::{DeviceError, HostLut, KeySource, VectorUnit, Wave, Words, WordsMut};

/// A processor of waves. Every handle that a device gives out is a number. A number that the device
/// never gave out is an error.
///
/// A device runs several waves at a time where it can, in order of submission. A wave may not touch
/// a slot that an unfinished wave writes. The caller submits work that depends on a result only
/// after that result is available.
pub trait Device: Send + Sync {
    /// Describes the device. The curve grows with the waves that the device has measured.
    fn describe(&self) -> DeviceInfo;

    /// Reads the parts of a key and prepares the key for use. Blocks until the key is ready; other
    /// work continues meanwhile.
    fn load_key(&self, key: &dyn KeySource) -> Result<KeySlot, DeviceError>;

    /// Bytes that a loaded key of `set` occupies.
    fn key_bytes(&self, set: &'static ParameterSet) -> u64;

    /// Evicts a key. Unfinished work under the key ends first.
    fn evict_key(&self, key: KeySlot);

    /// Loads a table.
    fn load_lut(&self, set: &'static ParameterSet, lut: HostLut<'_>) -> Result<LutSlot, DeviceError>;

    /// Evicts a table. Unfinished work that uses the table ends first.
    fn evict_lut(&self, lut: LutSlot);

    /// Creates an arena for ciphertexts of `set`, with as many slots as fit in the limit.
    fn create_arena(&self, set: &'static ParameterSet, limit_bytes: u64) -> Result<Arena, DeviceError>;

    /// Frees an arena. Unfinished work in the arena ends first.
    fn drop_arena(&self, arena: Arena);

    /// Writes ciphertexts, back to back in `words`, to slots.
    fn write(&self, arena: Arena, slots: &[u32], words: Words<'_>) -> Result<(), DeviceError>;

    /// Reads ciphertexts from slots, back to back into `words`.
    fn read(&self, arena: Arena, slots: &[u32], words: WordsMut<'_>) -> Result<(), DeviceError>;

    /// Discards the contents of slots, which then count as never written. For devices that allocate
    /// memory slot by slot.
    fn discard(&self, _arena: Arena, _slots: &[u32]) {}

    /// Checks a wave and queues it. Returns before the wave is computed.
    fn submit(&self, key: KeySlot, arena: Arena, wave: Wave) -> Result<Ticket, DeviceError>;

    /// Waits until a wave has ended. At the deadline the result is [`DeviceError::NotDone`]. Any
    /// other result ends the ticket.
    fn wait(&self, ticket: Ticket, deadline: Instant) -> Result<WorkStats, DeviceError>;

    /// Whether the device could begin more work immediately.
    fn has_room(&self) -> bool;

    /// The part of the device that computes programs on vectors, if it has one. Otherwise, the
    /// worker computes them on the machine's processors. Either way, the worker's memory for
    /// vectors limits their keys, and without such memory the worker takes no such jobs.
    fn vector_unit(&self) -> Option<Arc<dyn VectorUnit>> {
        None
    }

    /// Why the device can take no more work, permanently. A device that can fail in this way is
    /// abandoned together with its process.
    fn lost(&self) -> Option<String> {
        None
    }

    /// Sets the function that the device calls whenever a wave ends or room becomes available. The
    /// function must be quick and must not call the device.
    fn set_waker(&self, waker: Waker);
}

/// Called by a device when a wave has ended or room has become available.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Description of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceInfo {
    /// Kind of device, for example 'cpu'.
    pub kind: &'static str,
    /// Human-readable name.
    pub name: String,
    /// Parameter sets that the device serves.
    pub sets: Vec<&'static ParameterSet>,
    /// Number of waves that the device can work on at the same time.
    pub units: usize,
    /// Lanes that a unit takes at a time. Widths that are not a multiple of the tile waste a part
    /// of it.
    pub tile: usize,
    /// Width beyond which a wave brings no further gain.
    pub width_max: usize,
    /// Class of the devices of this kind whose results have the same bits, for equal versions of
    /// the software. Empty if the bits depend on more than that, such as timing. Width and
    /// composition of waves, number of threads and order of keys must then change no bit.
    pub result_class: String,
    /// Properties that set the device apart from others.
    pub capabilities: Capabilities,
    /// Measured times of waves so far.
    pub curve: Vec<CurvePoint>,
}

/// Properties that set a device apart from others. A default device has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The device benefits from also having the key of a set's companion, and takes waves of the
    /// set under either key.
    pub uses_companions: bool,
    /// Waves take no processor of the host. The engine then polls for the end of a wave, because a
    /// thread that sleeps wakes late.
    pub leaves_host_free: bool,
}

/// A point of the time curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// The parameter set.
    pub set: &'static ParameterSet,
    /// Number of bootstraps in the wave.
    pub width: usize,
    /// Average time that such a wave keeps the device busy.
    pub time: Duration,
}

/// A loaded key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeySlot {
    /// Number of the key's handle.
    pub number: u64,
    /// Bytes that the key occupies.
    pub bytes: u64,
}

/// A loaded table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LutSlot(pub u64);

/// An arena of slots on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arena {
    /// Number of the arena's handle.
    pub number: u64,
    /// Number of slots.
    pub slots: u32,
}

/// Handle of a wave in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// Breakdown of a wave's time. The three stages partition the time from `began` to `ended`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkStats {
    /// Time at which the device began the wave.
    pub began: Instant,
    /// Time at which the last result was available.
    pub ended: Instant,
    /// Time in key switches.
    pub key_switch: Duration,
    /// Time in blind rotations. Some devices cannot tell the modulus switch apart from them.
    pub blind_rotate: Duration,
    /// Time in everything else.
    pub other: Duration,
}
