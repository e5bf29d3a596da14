//! Ciphertext slots in host memory.

use std::sync::{Mutex, PoisonError, RwLock};

use cloakwork_device::{DeviceError, Wave, WaveError, Words, WordsMut};
use cloakwork_params::{ParameterSet, TorusWidth};
use cloakwork_tfhe::{ShapeError, Torus};

use crate::locked::Locked as _;

/// Slots for ciphertexts of one set. A slot takes memory from its first write on.
pub(super) struct HostArena {
    set: &'static ParameterSet,
    slots: SlotWords,
    states: Mutex<Vec<SlotState>>,
}

/// Words by slot.
pub(super) enum SlotWords {
    U32(Vec<Slot<u32>>),
    U64(Vec<Slot<u64>>),
}

/// The ciphertext of a slot; empty before the first write. Whoever uses one has been told to by a wave that was
/// checked against the states, so that nobody ever waits for the lock.
pub(super) type Slot<T> = RwLock<Vec<T>>;

/// Most slots of an arena, whatever its limit in bytes.
const SLOTS_MAX: u64 = 1 << 18;

#[derive(Clone, Copy, Default)]
struct SlotState {
    written: bool,
    writing: bool,
    readers: u32,
}

/// A word and where it is found.
pub(super) trait Word: Torus {
    fn slots(slots: &SlotWords) -> Option<&[Slot<Self>]>;
}

impl Word for u32 {
    fn slots(slots: &SlotWords) -> Option<&[Slot<Self>]> {
        if let SlotWords::U32(slots) = slots { Some(slots) } else { None }
    }
}

impl Word for u64 {
    fn slots(slots: &SlotWords) -> Option<&[Slot<Self>]> {
        if let SlotWords::U64(slots) = slots { Some(slots) } else { None }
    }
}

impl HostArena {
    pub(super) fn new(set: &'static ParameterSet, limit_bytes: u64) -> Result<Self, DeviceError> {
        let slot_bytes = slot_bytes(set);
        let count = (limit_bytes / slot_bytes).min(SLOTS_MAX);
        if count == 0 {
            return Err(DeviceError::OutOfMemory { needed: slot_bytes, available: limit_bytes });
        }
        let slots = match set.torus {
            TorusWidth::U32 => SlotWords::U32((0..count).map(|_| Slot::default()).collect()),
            TorusWidth::U64 => SlotWords::U64((0..count).map(|_| Slot::default()).collect()),
        };
        Ok(Self { set, slots, states: Mutex::new(vec![SlotState::default(); count as usize]) })
    }

    pub(super) fn set(&self) -> &'static ParameterSet {
        self.set
    }

    pub(super) fn slots(&self) -> &SlotWords {
        &self.slots
    }

    pub(super) fn len(&self) -> u32 {
        self.states.locked().len() as u32
    }

    /// Takes the slots of a wave, or says which one cannot be had. The wave's numbers are within range.
    pub(super) fn claim(&self, wave: &Wave) -> Result<(), WaveError> {
        let mut states = self.states.locked();
        for lane in 0..wave.lanes().len() {
            for term in wave.terms(lane) {
                let state = states[term.slot as usize];
                let problem = if state.writing {
                    Some(WaveError::Conflict { lane, slot: term.slot })
                } else if !state.written {
                    Some(WaveError::Unwritten { lane, slot: term.slot })
                } else {
                    None
                };
                if let Some(problem) = problem {
                    give_back(&mut states, wave, lane, 0);
                    return Err(problem);
                }
            }
            wave.terms(lane).iter().for_each(|term| states[term.slot as usize].readers += 1);
        }
        for lane in 0..wave.lanes().len() {
            for (index, &slot) in wave.outputs(lane).iter().enumerate() {
                let state = &mut states[slot as usize];
                if state.writing || state.readers > 0 {
                    (0..index).for_each(|taken| states[wave.outputs(lane)[taken] as usize].writing = false);
                    give_back(&mut states, wave, wave.lanes().len(), lane);
                    return Err(WaveError::Conflict { lane, slot });
                }
                state.writing = true;
            }
        }
        Ok(())
    }

    /// Gives the slots of a wave back, its outputs written or as they were.
    pub(super) fn release(&self, wave: &Wave, written: bool) {
        let mut states = self.states.locked();
        give_back(&mut states, wave, wave.lanes().len(), wave.lanes().len());
        if written {
            for lane in 0..wave.lanes().len() {
                wave.outputs(lane).iter().for_each(|&slot| states[slot as usize].written = true);
            }
        }
    }

    pub(super) fn write(&self, slots: &[u32], words: Words<'_>) -> Result<(), DeviceError> {
        self.check(slots, words.shape(), true)?;
        match words {
            Words::U32(words) => self.write_words(slots, words),
            Words::U64(words) => self.write_words(slots, words),
        }
        let mut states = self.states.locked();
        slots.iter().for_each(|&slot| states[slot as usize].written = true);
        Ok(())
    }

    pub(super) fn read(&self, slots: &[u32], words: WordsMut<'_>) -> Result<(), DeviceError> {
        self.check(slots, words.shape(), false)?;
        match words {
            WordsMut::U32(words) => self.read_words(slots, words),
            WordsMut::U64(words) => self.read_words(slots, words),
        }
        Ok(())
    }

    fn check(&self, slots: &[u32], (width, words): (TorusWidth, usize), write: bool) -> Result<(), DeviceError> {
        if width != self.set.torus {
            let got = if width == TorusWidth::U32 { "a set of 32-bit words" } else { "a set of 64-bit words" };
            return Err(DeviceError::WrongSet { what: "the words", expected: self.set.name, got });
        }
        let expected = slots.len() * (self.set.input_dimension() + 1);
        if words != expected {
            return Err(ShapeError { what: "words of the slots", expected, got: words }.into());
        }
        let states = self.states.locked();
        for (lane, &slot) in slots.iter().enumerate() {
            let Some(state) = states.get(slot as usize) else {
                return Err(WaveError::SlotOutOfRange { lane, slot, slots: states.len() as u32 }.into());
            };
            if state.writing || (write && state.readers > 0) {
                return Err(WaveError::Conflict { lane, slot }.into());
            }
            if !write && !state.written {
                return Err(WaveError::Unwritten { lane, slot }.into());
            }
        }
        Ok(())
    }

    fn write_words<T: Word>(&self, slots: &[u32], words: &[T]) {
        let all = T::slots(&self.slots).unwrap_or_default();
        for (&slot, words) in slots.iter().zip(words.chunks_exact(self.set.input_dimension() + 1)) {
            store(&all[slot as usize], words);
        }
    }

    fn read_words<T: Word>(&self, slots: &[u32], words: &mut [T]) {
        let all = T::slots(&self.slots).unwrap_or_default();
        for (&slot, words) in slots.iter().zip(words.chunks_exact_mut(self.set.input_dimension() + 1)) {
            words.copy_from_slice(&all[slot as usize].read().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

/// Bytes of a slot, its bookkeeping included.
pub(super) fn slot_bytes(set: &ParameterSet) -> u64 {
    let words = (set.input_dimension() + 1) as u64 * u64::from(set.torus.bits() / 8);
    words + (size_of::<Slot<u64>>() + size_of::<SlotState>()) as u64
}

/// Puts words into a slot.
pub(super) fn store<T: Word>(slot: &Slot<T>, words: &[T]) {
    let mut slot = slot.write().unwrap_or_else(PoisonError::into_inner);
    slot.resize(words.len(), T::default());
    slot.copy_from_slice(words);
}

/// Undoes what a claim has done up to lane `reads` in reading and lane `writes` in writing.
fn give_back(states: &mut [SlotState], wave: &Wave, reads: usize, writes: usize) {
    for lane in 0..reads {
        wave.terms(lane).iter().for_each(|term| states[term.slot as usize].readers -= 1);
    }
    for lane in 0..writes {
        wave.outputs(lane).iter().for_each(|&slot| states[slot as usize].writing = false);
    }
}
