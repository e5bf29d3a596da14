//! Ciphertext slots in a GPU's memory.

use std::sync::{Arc, Mutex};

use bytemuck::Pod;
use cloakwork_device::{DeviceError, SLOT_STATE_BYTES, SlotStates, Wave, Words, WordsMut};
use cloakwork_params::ParameterSet;
use cloakwork_tfhe::Torus;

use super::{Buffer, Driver, DriverError, View};
use crate::locked::locked;

/// Slots for ciphertexts of one set, back to back. Memory is mapped behind slots when they come
/// into use, and is freed with the arena.
pub(crate) struct GpuArena {
    set: &'static ParameterSet,
    count: u32,
    words: Buffer,
    states: Mutex<SlotStates>,
}

/// Maximum number of slots of an arena, whatever its limit in bytes.
const SLOTS_MAX: u64 = 1 << 22;

impl GpuArena {
    pub(crate) fn new(
        driver: &Arc<dyn Driver>,
        set: &'static ParameterSet,
        limit_bytes: u64,
    ) -> Result<Self, DeviceError> {
        let slot_bytes = set.ciphertext_bytes() + SLOT_STATE_BYTES;
        let count = (limit_bytes / slot_bytes).min(SLOTS_MAX) as u32;
        if count == 0 {
            return Err(DeviceError::OutOfMemory { needed: slot_bytes, available: limit_bytes });
        }
        let words = Buffer::reserve(driver, count as usize * set.ciphertext_bytes() as usize)?;
        Ok(Self { set, count, words, states: Mutex::new(SlotStates::new(set, count)) })
    }

    pub(crate) fn set(&self) -> &'static ParameterSet {
        self.set
    }

    pub(crate) fn len(&self) -> u32 {
        self.count
    }

    /// All words that are backed by memory.
    pub(crate) fn words<T: Torus + Pod>(&self) -> Result<View<'_, T>, DriverError> {
        self.words.all()
    }

    /// Claims the slots of a wave, and maps memory for its results.
    pub(crate) fn claim(&self, wave: &Wave) -> Result<(), DeviceError> {
        let last = (0..wave.lanes().len()).filter_map(|lane| wave.outputs(lane).iter().max()).max();
        self.back(last.copied())?;
        Ok(self.states().claim(wave)?)
    }

    /// Releases the slots of a wave. Its outputs are either written or unchanged.
    pub(crate) fn release(&self, wave: &Wave, written: bool) {
        self.states().release(wave, written);
    }

    pub(crate) fn write(&self, slots: &[u32], words: Words<'_>) -> Result<(), DeviceError> {
        self.states().begin_write(slots, words.shape())?;
        let written = match words {
            Words::U32(words) => self.write_words(slots, words),
            Words::U64(words) => self.write_words(slots, words),
        };
        self.states().end_write(slots, written.is_ok());
        Ok(written?)
    }

    pub(crate) fn read(&self, slots: &[u32], words: WordsMut<'_>) -> Result<(), DeviceError> {
        self.states().begin_read(slots, words.shape())?;
        let read = match words {
            WordsMut::U32(words) => self.read_words(slots, words),
            WordsMut::U64(words) => self.read_words(slots, words),
        };
        self.states().end_read(slots);
        Ok(read?)
    }

    /// Discards the contents of slots. Their memory stays for later contents.
    pub(crate) fn discard(&self, slots: &[u32]) {
        self.states().discard(slots, |_| ());
    }

    fn write_words<T: Torus + Pod>(&self, slots: &[u32], words: &[T]) -> Result<(), DriverError> {
        self.back(slots.iter().max().copied())?;
        let (all, stride) = (self.words::<T>()?, self.set.input_dimension() + 1);
        let mut rest = words;
        let mut copies = Vec::new();
        for run in runs(slots) {
            let (these, others) = rest.split_at(run.len() * stride);
            copies.push(all.part(run[0] as usize * stride, these.len())?.upload_of(these)?);
            rest = others;
        }
        // SAFETY: the copies are of views of `self.words`. `begin_write` has claimed these slots,
        // so no wave in flight names them.
        unsafe { self.words.upload(&copies) }
    }

    fn read_words<T: Torus + Pod>(&self, slots: &[u32], words: &mut [T]) -> Result<(), DriverError> {
        let (all, stride) = (self.words::<T>()?, self.set.input_dimension() + 1);
        let mut rest = words;
        let mut copies = Vec::new();
        for run in runs(slots) {
            let (these, others) = rest.split_at_mut(run.len() * stride);
            copies.push(all.part(run[0] as usize * stride, these.len())?.download_of(these)?);
            rest = others;
        }
        // SAFETY: the copies are of views of `self.words`. `begin_read` has claimed these slots, so
        // no wave in flight writes them.
        unsafe { self.words.download(&mut copies) }
    }

    /// Maps memory behind the slots up to this one.
    fn back(&self, last: Option<u32>) -> Result<(), DriverError> {
        let slots = last.map_or(0, |last| last as usize + 1);
        self.words.back(slots * self.set.ciphertext_bytes() as usize)
    }

    fn states(&self) -> std::sync::MutexGuard<'_, SlotStates> {
        locked(&self.states)
    }
}

/// Groups slots that lie next to each other: one copy moves each group.
fn runs(slots: &[u32]) -> impl Iterator<Item = &[u32]> {
    slots.chunk_by(|slot, next| slot.checked_add(1) == Some(*next))
}
