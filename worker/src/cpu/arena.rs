//! Ciphertext slots in host memory.

use std::sync::{Mutex, OnceLock, PoisonError, RwLock};

use cloakwork_device::{DeviceError, SLOT_STATE_BYTES, SlotStates, Wave, WaveError, Words, WordsMut};
use cloakwork_params::{ParameterSet, TorusWidth};
use cloakwork_tfhe::Torus;

use crate::locked::Locked as _;

/// Slots for ciphertexts of one set. A slot takes memory from its first write until it is
/// discarded.
pub(super) struct HostArena {
    set: &'static ParameterSet,
    count: u32,
    slots: SlotWords,
    states: Mutex<SlotStates>,
}

/// Slots by word type.
pub(super) enum SlotWords {
    U32(Slots<u32>),
    U64(Slots<u64>),
}

/// Slots in pages. A page is allocated when one of its slots is first used.
pub(super) struct Slots<T>(Box<[OnceLock<Page<T>>]>);

type Page<T> = Box<[Slot<T>]>;

/// Number of slots in a page.
const PAGE_SLOTS: usize = 256;

/// The ciphertext of a slot; empty before the first write. Waves are checked against the slot
/// states before they use a slot. The lock is therefore never contended.
pub(super) type Slot<T> = RwLock<Vec<T>>;

/// Maximum number of slots of an arena, whatever its limit in bytes.
const SLOTS_MAX: u64 = 1 << 18;

/// A word type, and access to the slots of that type.
pub(super) trait Word: Torus {
    fn slots(slots: &SlotWords) -> Option<&Slots<Self>>;
}

impl Word for u32 {
    fn slots(slots: &SlotWords) -> Option<&Slots<Self>> {
        if let SlotWords::U32(slots) = slots { Some(slots) } else { None }
    }
}

impl Word for u64 {
    fn slots(slots: &SlotWords) -> Option<&Slots<Self>> {
        if let SlotWords::U64(slots) = slots { Some(slots) } else { None }
    }
}

impl<T> Slots<T> {
    fn new(count: u32) -> Self {
        Self((0..(count as usize).div_ceil(PAGE_SLOTS)).map(|_| OnceLock::new()).collect())
    }

    /// A slot of the arena. The index is below the arena's number of slots.
    pub(super) fn get(&self, slot: u32) -> &Slot<T> {
        let page =
            self.0[slot as usize / PAGE_SLOTS].get_or_init(|| (0..PAGE_SLOTS).map(|_| Slot::default()).collect());
        &page[slot as usize % PAGE_SLOTS]
    }
}

impl HostArena {
    pub(super) fn new(set: &'static ParameterSet, limit_bytes: u64) -> Result<Self, DeviceError> {
        let slot_bytes = slot_bytes(set);
        let count = (limit_bytes / slot_bytes).min(SLOTS_MAX) as u32;
        if count == 0 {
            return Err(DeviceError::OutOfMemory { needed: slot_bytes, available: limit_bytes });
        }
        let slots = match set.torus {
            TorusWidth::U32 => SlotWords::U32(Slots::new(count)),
            TorusWidth::U64 => SlotWords::U64(Slots::new(count)),
        };
        Ok(Self { set, count, slots, states: Mutex::new(SlotStates::new(set, count)) })
    }

    pub(super) fn set(&self) -> &'static ParameterSet {
        self.set
    }

    pub(super) fn slots(&self) -> &SlotWords {
        &self.slots
    }

    pub(super) fn len(&self) -> u32 {
        self.count
    }

    /// Claims the slots of a wave, or reports the first unavailable slot. The caller has checked
    /// the wave's indices.
    pub(super) fn claim(&self, wave: &Wave) -> Result<(), WaveError> {
        self.states.locked().claim(wave)
    }

    /// Releases the slots of a wave. Its outputs count as written, or keep their previous state.
    pub(super) fn release(&self, wave: &Wave, written: bool) {
        self.states.locked().release(wave, written);
    }

    pub(super) fn write(&self, slots: &[u32], words: Words<'_>) -> Result<(), DeviceError> {
        self.states.locked().begin_write(slots, words.shape())?;
        match words {
            Words::U32(words) => self.write_words(slots, words),
            Words::U64(words) => self.write_words(slots, words),
        }
        self.states.locked().end_write(slots, true);
        Ok(())
    }

    /// Frees the contents of slots that no wave uses.
    pub(super) fn discard(&self, slots: &[u32]) {
        self.states.locked().discard(slots, |slot| match &self.slots {
            SlotWords::U32(slots) => empty(slots.get(slot)),
            SlotWords::U64(slots) => empty(slots.get(slot)),
        });
    }

    pub(super) fn read(&self, slots: &[u32], words: WordsMut<'_>) -> Result<(), DeviceError> {
        self.states.locked().begin_read(slots, words.shape())?;
        match words {
            WordsMut::U32(words) => self.read_words(slots, words),
            WordsMut::U64(words) => self.read_words(slots, words),
        }
        self.states.locked().end_read(slots);
        Ok(())
    }

    fn write_words<T: Word>(&self, slots: &[u32], words: &[T]) {
        let Some(all) = T::slots(&self.slots) else { return };
        for (&slot, words) in slots.iter().zip(words.chunks_exact(self.set.input_dimension() + 1)) {
            store(all.get(slot), words);
        }
    }

    fn read_words<T: Word>(&self, slots: &[u32], words: &mut [T]) {
        let Some(all) = T::slots(&self.slots) else { return };
        for (&slot, words) in slots.iter().zip(words.chunks_exact_mut(self.set.input_dimension() + 1)) {
            words.copy_from_slice(&all.get(slot).read().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

/// Bytes of a slot, including its bookkeeping.
pub(super) fn slot_bytes(set: &ParameterSet) -> u64 {
    set.ciphertext_bytes() + size_of::<Slot<u64>>() as u64 + SLOT_STATE_BYTES
}

/// Copies words into a slot.
pub(super) fn store<T: Word>(slot: &Slot<T>, words: &[T]) {
    let mut slot = slot.write().unwrap_or_else(PoisonError::into_inner);
    slot.resize(words.len(), T::default());
    slot.copy_from_slice(words);
}

/// Frees the words of a slot.
fn empty<T>(slot: &Slot<T>) {
    *slot.write().unwrap_or_else(PoisonError::into_inner) = Vec::new();
}

#[cfg(test)]
mod tests {
    use cloakwork_params::table::by_name;

    use super::*;

    fn arena() -> HostArena {
        HostArena::new(by_name("TOY_MESSAGE_2_CARRY_2").expect("a set"), 1 << 20).expect("an arena")
    }

    fn words(arena: &HostArena) -> Vec<u64> {
        vec![7; arena.set().input_dimension() + 1]
    }

    #[test]
    fn discarded_slots_take_no_memory() {
        let (arena, slot) = (arena(), [3]);
        let mut read = words(&arena);
        arena.write(&slot, Words::U64(&words(&arena))).expect("a free slot");
        arena.read(&slot, WordsMut::U64(&mut read)).expect("a written slot");
        arena.discard(&[3, 9, u32::MAX]);
        assert!(arena.read(&slot, WordsMut::U64(&mut read)).is_err(), "nothing is there");
        let capacity = |slots: &Slots<u64>| slots.get(3).read().map(|words| words.capacity()).ok();
        assert_eq!(Word::slots(arena.slots()).and_then(capacity), Some(0));
    }
}
