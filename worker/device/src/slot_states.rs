//! Bookkeeping of an arena's slots: which hold a ciphertext, and which are in use. All devices
//! share it.

use cloakwork_params::{ParameterSet, TorusWidth};
use cloakwork_tfhe::ShapeError;

use crate::{DeviceError, Wave, WaveError};

/// States of an arena's slots. Their memory reaches only to the last slot ever used. An arena is
/// made whenever a group of jobs appears, and must cost no more than those jobs use.
pub struct SlotStates {
    set: &'static ParameterSet,
    count: u32,
    states: Vec<SlotState>,
}

/// State of a slot.
#[derive(Clone, Copy, Default)]
struct SlotState {
    written: bool,
    writing: bool,
    readers: u32,
}

/// Bytes that the state of a slot takes.
pub const SLOT_STATE_BYTES: u64 = size_of::<SlotState>() as u64;

impl SlotStates {
    /// States for an arena of ciphertexts of `set`, with no slot written.
    pub fn new(set: &'static ParameterSet, count: u32) -> Self {
        Self { set, count, states: Vec::new() }
    }

    /// The parameter set.
    pub fn set(&self) -> &'static ParameterSet {
        self.set
    }

    /// Number of slots.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Claims the slots of a wave, or reports the first unavailable slot. The caller has already
    /// checked the wave against the arena's number of slots.
    pub fn claim(&mut self, wave: &Wave) -> Result<(), WaveError> {
        let slots = |lane| wave.terms(lane).iter().map(|term| term.slot).chain(wave.outputs(lane).iter().copied());
        self.extend((0..wave.lanes().len()).flat_map(slots));
        for lane in 0..wave.lanes().len() {
            for term in wave.terms(lane) {
                let state = self.states[term.slot as usize];
                let problem = if state.writing {
                    Some(WaveError::Conflict { lane, slot: term.slot })
                } else if !state.written {
                    Some(WaveError::Unwritten { lane, slot: term.slot })
                } else {
                    None
                };
                if let Some(problem) = problem {
                    self.give_back(wave, lane, 0);
                    return Err(problem);
                }
            }
            wave.terms(lane).iter().for_each(|term| self.states[term.slot as usize].readers += 1);
        }
        for lane in 0..wave.lanes().len() {
            for (index, &slot) in wave.outputs(lane).iter().enumerate() {
                let state = &mut self.states[slot as usize];
                if state.writing || state.readers > 0 {
                    (0..index).for_each(|taken| self.states[wave.outputs(lane)[taken] as usize].writing = false);
                    self.give_back(wave, wave.lanes().len(), lane);
                    return Err(WaveError::Conflict { lane, slot });
                }
                state.writing = true;
            }
        }
        Ok(())
    }

    /// Releases the slots of a claimed wave. Its outputs count as written, or keep their previous
    /// state.
    pub fn release(&mut self, wave: &Wave, written: bool) {
        self.give_back(wave, wave.lanes().len(), wave.lanes().len());
        if written {
            for lane in 0..wave.lanes().len() {
                wave.outputs(lane).iter().for_each(|&slot| self.states[slot as usize].written = true);
            }
        }
    }

    /// Claims slots in order to write words of `shape`. No wave can use them until
    /// [`Self::end_write`].
    pub fn begin_write(&mut self, slots: &[u32], shape: (TorusWidth, usize)) -> Result<(), DeviceError> {
        self.check(slots, shape)?;
        self.extend(slots.iter().copied());
        let is_used = |slot: &u32| self.states[*slot as usize].writing || self.states[*slot as usize].readers > 0;
        if let Some(lane) = slots.iter().position(is_used) {
            return Err(WaveError::Conflict { lane, slot: slots[lane] }.into());
        }
        slots.iter().for_each(|&slot| self.states[slot as usize].writing = true);
        Ok(())
    }

    /// Releases the slots after a write. If the write failed, the slots hold nothing.
    pub fn end_write(&mut self, slots: &[u32], written: bool) {
        slots.iter().for_each(|&slot| self.states[slot as usize] = SlotState { written, ..SlotState::default() });
    }

    /// Claims slots in order to read words of `shape`. Nothing can write to them until
    /// [`Self::end_read`].
    pub fn begin_read(&mut self, slots: &[u32], shape: (TorusWidth, usize)) -> Result<(), DeviceError> {
        self.check(slots, shape)?;
        for (lane, &slot) in slots.iter().enumerate() {
            let state = self.states.get(slot as usize).copied().unwrap_or_default();
            if state.writing {
                return Err(WaveError::Conflict { lane, slot }.into());
            }
            if !state.written {
                return Err(WaveError::Unwritten { lane, slot }.into());
            }
        }
        slots.iter().for_each(|&slot| self.states[slot as usize].readers += 1);
        Ok(())
    }

    /// Releases slots after a read.
    pub fn end_read(&mut self, slots: &[u32]) {
        slots.iter().for_each(|&slot| self.states[slot as usize].readers -= 1);
    }

    /// Marks the given slots as never written, except those in use, and calls `forgotten` for each.
    pub fn discard(&mut self, slots: &[u32], mut forgotten: impl FnMut(u32)) {
        for &slot in slots {
            // A slot past the end was never used, so there is nothing to discard.
            let Some(state) = self.states.get_mut(slot as usize) else { continue };
            if !state.writing && state.readers == 0 {
                state.written = false;
                forgotten(slot);
            }
        }
    }

    /// Checks that the slots belong to the arena and that the number of words fits them.
    fn check(&self, slots: &[u32], (width, words): (TorusWidth, usize)) -> Result<(), DeviceError> {
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

    /// Extends the states to cover the last of `slots`, which lie within the arena.
    fn extend(&mut self, slots: impl Iterator<Item = u32>) {
        let used = slots.max().map_or(0, |last| last as usize + 1);
        if used > self.states.len() {
            self.states.resize(used, SlotState::default());
        }
    }

    /// Undoes a partial claim: the reads of lanes below `reads` and the writes of lanes below
    /// `writes`.
    fn give_back(&mut self, wave: &Wave, reads: usize, writes: usize) {
        for lane in 0..reads {
            wave.terms(lane).iter().for_each(|term| self.states[term.slot as usize].readers -= 1);
        }
        for lane in 0..writes {
            wave.outputs(lane).iter().for_each(|&slot| self.states[slot as usize].writing = false);
        }
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_params::table::by_name;

    use super::*;
    use crate::{NO_TABLE, Term};

    const CIPHERTEXT_SHAPE: (TorusWidth, usize) = (TorusWidth::U64, 257);

    fn states() -> SlotStates {
        let set = by_name("TOY_MESSAGE_2_CARRY_2").expect("a set");
        assert_eq!(set.input_dimension() + 1, CIPHERTEXT_SHAPE.1);
        SlotStates::new(set, 8)
    }

    fn read(states: &mut SlotStates, slots: &[u32]) -> Result<(), DeviceError> {
        states.begin_read(slots, (CIPHERTEXT_SHAPE.0, slots.len() * CIPHERTEXT_SHAPE.1))?;
        states.end_read(slots);
        Ok(())
    }

    fn write(states: &mut SlotStates, slot: u32) {
        states.begin_write(&[slot], CIPHERTEXT_SHAPE).expect("a free slot");
        states.end_write(&[slot], true);
    }

    #[test]
    fn discarded_slots_count_as_never_written() {
        let mut states = states();
        write(&mut states, 3);
        read(&mut states, &[3]).expect("a written slot");
        let mut forgotten = Vec::new();
        states.discard(&[3, 7, u32::MAX], |slot| forgotten.push(slot));
        assert_eq!(forgotten, [3]);
        assert_eq!(read(&mut states, &[3]), Err(WaveError::Unwritten { lane: 0, slot: 3 }.into()));
    }

    #[test]
    fn slots_of_a_claimed_wave_are_neither_discarded_nor_written() {
        let mut states = states();
        write(&mut states, 0);
        let mut wave = Wave::default();
        wave.push([Term { slot: 0, factor: 1 }], 0, NO_TABLE, &[1]);
        states.claim(&wave).expect("free slots");
        states.discard(&[0, 1], |slot| panic!("slot {slot} is in use"));
        for slot in [0, 1] {
            let conflict = WaveError::Conflict { lane: 0, slot }.into();
            assert_eq!(
                states.begin_write(&[slot], CIPHERTEXT_SHAPE),
                Err(conflict),
                "the wave reads one and writes the other"
            );
        }
        states.release(&wave, true);
        read(&mut states, &[0, 1]).expect("both are there");
    }

    #[test]
    fn slots_being_read_are_neither_written_nor_discarded() {
        let mut states = states();
        (0..2).for_each(|slot| write(&mut states, slot));
        let mut wave = Wave::default();
        wave.push([Term { slot: 0, factor: 1 }], 0, NO_TABLE, &[1]);
        states.begin_read(&[1], CIPHERTEXT_SHAPE).expect("a written slot");
        let conflict = WaveError::Conflict { lane: 0, slot: 1 };
        assert_eq!(states.claim(&wave), Err(conflict.clone()));
        assert_eq!(states.begin_write(&[1], CIPHERTEXT_SHAPE), Err(conflict.into()));
        states.discard(&[1], |slot| panic!("slot {slot} is in use"));
        read(&mut states, &[1]).expect("two may read at a time");
        states.end_read(&[1]);
        states.claim(&wave).expect("free slots");
    }

    #[test]
    fn a_failed_claim_leaves_the_slot_states_unchanged() {
        let mut states = states();
        write(&mut states, 0);
        let mut wave = Wave::default();
        wave.push([Term { slot: 0, factor: 1 }], 0, NO_TABLE, &[1]);
        wave.push([Term { slot: 2, factor: 1 }], 0, NO_TABLE, &[3]);
        assert_eq!(states.claim(&wave), Err(WaveError::Unwritten { lane: 1, slot: 2 }));
        let mut twice = Wave::default();
        twice.push([Term { slot: 0, factor: 1 }], 0, NO_TABLE, &[1]);
        twice.push([], 0, NO_TABLE, &[1]);
        assert_eq!(states.claim(&twice), Err(WaveError::Conflict { lane: 1, slot: 1 }));
        (0..4).for_each(|slot| write(&mut states, slot));
        states.begin_write(&[1], CIPHERTEXT_SHAPE).expect("a free slot");
        states.end_write(&[1], false);
        assert_eq!(read(&mut states, &[1]), Err(WaveError::Unwritten { lane: 0, slot: 1 }.into()), "it was lost");
    }
}
