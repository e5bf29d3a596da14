//! Loaded keys, whatever their words are.

use std::sync::{Arc, Mutex};

use cloakwork_device::{DeviceError, KeySource, SeededParts};
use cloakwork_params::{ParameterSet, TorusWidth};
use cloakwork_tfhe::{LweList, Scratch, ServerKey, StageTimes, Torus};

use super::{
    arena::{Word, store},
    run::{LutWord, Run, combine},
};
use crate::locked::Locked as _;

/// A key that can run lanes.
pub(super) trait HostKey: Send + Sync {
    fn set(&self) -> &'static ParameterSet;

    fn bytes(&self) -> u64;

    /// Computes lanes of a wave, all of them with a table, and puts the results into their slots.
    fn run(&self, run: &Run, lanes: &[u32]) -> Result<StageTimes, DeviceError>;
}

/// Reads and expands a key.
pub(super) fn load(source: &dyn KeySource, threads: usize) -> Result<Arc<dyn HostKey>, DeviceError> {
    let set = source.set();
    match (set.torus, set.small_word_bits()) {
        (TorusWidth::U64, 64) => typed::<u64, u64>(source, threads),
        (TorusWidth::U64, 32) => typed::<u64, u32>(source, threads),
        (TorusWidth::U32, 32) => typed::<u32, u32>(source, threads),
        _ => Err(DeviceError::UnsupportedSet { set: set.name }),
    }
}

/// Bytes that an expanded key of `set` takes up.
pub(super) fn bytes(set: &ParameterSet) -> u64 {
    // A classical key is held as spectra of doubles, one for each coefficient.
    let word = if set.grouping == 1 { 8 } else { set.torus.bits() as usize / 8 };
    let ggsw = set.bootstrap.levels * set.glwe_size() * set.glwe_size() * set.polynomial_size * word;
    let key_switch = set.big_dimension() * set.key_switch.levels * (set.lwe_dimension + 1);
    (set.ggsw_count() * ggsw + key_switch * set.small_word_bits() as usize / 8) as u64
}

fn typed<T: Word + LutWord, S: Torus>(source: &dyn KeySource, threads: usize) -> Result<Arc<dyn HostKey>, DeviceError> {
    let parts = SeededParts::<T, S>::read(source)?;
    let key = ServerKey::expand(source.set(), &parts.key_switch, &parts.bootstrap, threads)?;
    Ok(Arc::new(TypedKey { key, scratches: Mutex::default() }))
}

struct TypedKey<T, S> {
    key: ServerKey<T, S>,
    /// As many as threads have ever worked under the key at the same time.
    scratches: Mutex<Vec<Scratch<T, S>>>,
}

impl<T: Word + LutWord, S: Torus> HostKey for TypedKey<T, S> {
    fn set(&self) -> &'static ParameterSet {
        self.key.set()
    }

    fn bytes(&self) -> u64 {
        self.key.bytes() as u64
    }

    fn run(&self, run: &Run, lanes: &[u32]) -> Result<StageTimes, DeviceError> {
        let arena = run.arena();
        let expected = arena.set().name;
        let slots = T::slots(arena.slots());
        let slots = slots.ok_or(DeviceError::WrongSet { what: "the key", expected, got: self.set().name })?;
        let wave = run.wave();
        let luts: Option<Vec<_>> = lanes.iter().map(|&lane| T::lut(run.lut(lane as usize)?)).collect();
        let luts = luts.ok_or(DeviceError::UnknownHandle { what: "table" })?;
        let count = luts.iter().map(|lut| lut.outputs().len()).sum();
        let mut outputs = LweList::zeros(self.set().input_dimension(), count);
        let load = |lane: usize, input: &mut [T]| combine(wave, lanes[lane] as usize, slots, input);
        let mut scratch = self.scratches.locked().pop().unwrap_or_else(|| self.key.scratch());
        let result = self.key.bootstrap_with(&load, &luts, &mut outputs, std::slice::from_mut(&mut scratch));
        let times = scratch.take_times();
        self.scratches.locked().push(scratch);
        result?;
        let places = lanes.iter().flat_map(|&lane| wave.outputs(lane as usize));
        for (&slot, ciphertext) in places.zip(outputs.iter()) {
            store(slots.get(slot), ciphertext);
        }
        Ok(times)
    }
}
