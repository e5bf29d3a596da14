//! Ciphertext slots in host memory.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use cloakwork_device::{DeviceError, Wave, WaveError, Words, WordsMut};
use cloakwork_params::{ParameterSet, TorusWidth};
use cloakwork_tfhe::{ShapeError, Torus};

use crate::locked::Locked as _;

/// Slots for ciphertexts of one set. A slot takes memory from when it is written until it is discarded, and what keeps
/// account of it from then on: an arena is made whenever a group of jobs appears, and must cost no more than those jobs use.
pub(super) struct HostArena {
    set: &'static ParameterSet,
    count: u32,
    slots: SlotWords,
    /// Up to the last slot that was ever used.
    states: Mutex<Vec<SlotState>>,
}

/// Words by slot.
pub(super) enum SlotWords {
    U32(Slots<u32>),
    U64(Slots<u64>),
}

/// Slots in pages, each made when one of its slots is first used.
pub(super) struct Slots<T>(Box<[OnceLock<Page<T>>]>);

type Page<T> = Box<[Slot<T>]>;

/// Slots that are made together.
const PAGE: usize = 256;

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
        Self((0..(count as usize).div_ceil(PAGE)).map(|_| OnceLock::new()).collect())
    }

    /// A slot within the arena's number of slots.
    pub(super) fn get(&self, slot: u32) -> &Slot<T> {
        let page = self.0[slot as usize / PAGE].get_or_init(|| (0..PAGE).map(|_| Slot::default()).collect());
        &page[slot as usize % PAGE]
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
        Ok(Self { set, count, slots, states: Mutex::default() })
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

    /// The states, at least up to the last of `slots`, which are within the arena's number.
    fn states(&self, slots: impl Iterator<Item = u32>) -> MutexGuard<'_, Vec<SlotState>> {
        let mut states = self.states.locked();
        let used = slots.max().map_or(0, |last| last as usize + 1);
        if used > states.len() {
            states.resize(used, SlotState::default());
        }
        states
    }

    /// Takes the slots of a wave, or says which one cannot be had. The wave's numbers are within range.
    pub(super) fn claim(&self, wave: &Wave) -> Result<(), WaveError> {
        let slots = |lane| wave.terms(lane).iter().map(|term| term.slot).chain(wave.outputs(lane).iter().copied());
        let mut states = self.states((0..wave.lanes().len()).flat_map(slots));
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
        self.check_shape(slots, words.shape())?;
        {
            let mut states = self.states(slots.iter().copied());
            let is_used = |slot: &u32| states[*slot as usize].writing || states[*slot as usize].readers > 0;
            if let Some(lane) = slots.iter().position(is_used) {
                return Err(WaveError::Conflict { lane, slot: slots[lane] }.into());
            }
            // Until the words are there, no wave takes them.
            slots.iter().for_each(|&slot| states[slot as usize].writing = true);
        }
        match words {
            Words::U32(words) => self.write_words(slots, words),
            Words::U64(words) => self.write_words(slots, words),
        }
        let mut states = self.states.locked();
        slots.iter().for_each(|&slot| states[slot as usize] = SlotState { written: true, ..SlotState::default() });
        Ok(())
    }

    /// Frees what slots hold that no wave uses.
    pub(super) fn discard(&self, slots: &[u32]) {
        let mut states = self.states.locked();
        for &slot in slots {
            // What was never used has nothing to free.
            let Some(state) = states.get_mut(slot as usize) else { continue };
            if !state.writing && state.readers == 0 {
                state.written = false;
                match &self.slots {
                    SlotWords::U32(slots) => empty(slots.get(slot)),
                    SlotWords::U64(slots) => empty(slots.get(slot)),
                }
            }
        }
    }

    pub(super) fn read(&self, slots: &[u32], words: WordsMut<'_>) -> Result<(), DeviceError> {
        self.check_shape(slots, words.shape())?;
        {
            let states = self.states.locked();
            for (lane, &slot) in slots.iter().enumerate() {
                let state = states.get(slot as usize).copied().unwrap_or_default();
                if state.writing {
                    return Err(WaveError::Conflict { lane, slot }.into());
                }
                if !state.written {
                    return Err(WaveError::Unwritten { lane, slot }.into());
                }
            }
        }
        match words {
            WordsMut::U32(words) => self.read_words(slots, words),
            WordsMut::U64(words) => self.read_words(slots, words),
        }
        Ok(())
    }

    /// Are these slots of the arena, and words for so many?
    fn check_shape(&self, slots: &[u32], (width, words): (TorusWidth, usize)) -> Result<(), DeviceError> {
        if width != self.set.torus {
            let got = if width == TorusWidth::U32 { "a set of 32-bit words" } else { "a set of 64-bit words" };
            return Err(DeviceError::WrongSet { what: "the words", expected: self.set.name, got });
        }
        let expected = slots.len() * (self.set.input_dimension() + 1);
        if words != expected {
            return Err(ShapeError { what: "words of the slots", expected, got: words }.into());
        }
        match slots.iter().position(|slot| *slot >= self.count) {
            Some(lane) => Err(WaveError::SlotOutOfRange { lane, slot: slots[lane], slots: self.count }.into()),
            None => Ok(()),
        }
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

/// Bytes of a slot, its bookkeeping included.
pub(super) fn slot_bytes(set: &ParameterSet) -> u64 {
    set.ciphertext_bytes() + (size_of::<Slot<u64>>() + size_of::<SlotState>()) as u64
}

/// Puts words into a slot.
pub(super) fn store<T: Word>(slot: &Slot<T>, words: &[T]) {
    let mut slot = slot.write().unwrap_or_else(PoisonError::into_inner);
    slot.resize(words.len(), T::default());
    slot.copy_from_slice(words);
}

/// Frees the words of a slot.
fn empty<T>(slot: &Slot<T>) {
    *slot.write().unwrap_or_else(PoisonError::into_inner) = Vec::new();
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

#[cfg(test)]
mod tests {
    use cloakwork_device::{NO_TABLE, Term};
    use cloakwork_params::table::by_name;

    use super::*;

    fn arena() -> HostArena {
        HostArena::new(by_name("TOY_MESSAGE_2_CARRY_2").expect("a set"), 1 << 20).expect("an arena")
    }

    fn words(arena: &HostArena) -> Vec<u64> {
        vec![7; arena.set().input_dimension() + 1]
    }

    #[test]
    fn what_is_discarded_was_never_written() {
        let (arena, slot) = (arena(), [3]);
        let mut read = words(&arena);
        arena.write(&slot, Words::U64(&words(&arena))).expect("a free slot");
        arena.read(&slot, WordsMut::U64(&mut read)).expect("a written slot");
        arena.discard(&[3, 9, u32::MAX]);
        let unwritten = DeviceError::from(WaveError::Unwritten { lane: 0, slot: 3 });
        assert_eq!(arena.read(&slot, WordsMut::U64(&mut read)), Err(unwritten));
        let capacity = |slots: &Slots<u64>| slots.get(3).read().map(|words| words.capacity()).ok();
        assert_eq!(Word::slots(arena.slots()).and_then(capacity), Some(0));
    }

    #[test]
    fn what_a_wave_uses_is_not_discarded() {
        let arena = arena();
        arena.write(&[0], Words::U64(&words(&arena))).expect("a free slot");
        let mut wave = Wave::default();
        wave.push([Term { slot: 0, factor: 1 }], 0, NO_TABLE, &[1]);
        arena.claim(&wave).expect("free slots");
        arena.discard(&[0, 1]);
        assert_eq!(
            arena.write(&[1], Words::U64(&words(&arena))),
            Err(WaveError::Conflict { lane: 0, slot: 1 }.into()),
            "the wave is going to write it"
        );
        arena.release(&wave, true);
        let mut read = words(&arena);
        arena.read(&[0], WordsMut::U64(&mut read)).expect("it is still there");
        assert_eq!(read, words(&arena));
    }
}
