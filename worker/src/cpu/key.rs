//! Loaded keys, generic over their word types.

use std::sync::Arc;

use cloakwork_device::{DeviceError, KeySource, SeededParts, by_words};
use cloakwork_params::ParameterSet;
use cloakwork_tfhe::{LweList, Scratch, ServerKey, StageTimes, Torus, bootstrap::PART_MAX};

use super::{
    arena::{Word, store},
    run::{LutWord, Run, combine},
    workspace::{Workspace, Workspaces},
};

/// A key that can compute lanes.
pub(super) trait HostKey: Send + Sync {
    fn set(&self) -> &'static ParameterSet;

    fn bytes(&self) -> u64;

    /// Number of bootstraps that share one read of the key.
    fn tile(&self) -> usize;

    /// Computes lanes of a wave, each with a table, and stores the results in their slots.
    fn run(&self, run: &Run, lanes: &[u32]) -> Result<StageTimes, DeviceError>;
}

/// Reads and expands a key.
pub(super) fn load(
    source: &dyn KeySource,
    threads: usize,
    workspaces: &Workspaces,
) -> Result<Arc<dyn HostKey>, DeviceError> {
    let set = source.set();
    by_words!(set, typed(source, threads, workspaces)).unwrap_or(Err(DeviceError::UnsupportedSet { set: set.name }))
}

/// Bytes of an expanded key of `set`; 0 if no kernel supports the set's words.
pub(super) fn bytes(set: &ParameterSet) -> u64 {
    by_words!(set, bytes_of(set)).unwrap_or(0)
}

fn bytes_of<T: Torus, S: Torus>(set: &ParameterSet) -> u64 {
    ServerKey::<T, S>::bytes_of(set) as u64
}

fn typed<T: Word + LutWord, S: Torus>(
    source: &dyn KeySource,
    threads: usize,
    workspaces: &Workspaces,
) -> Result<Arc<dyn HostKey>, DeviceError> {
    let parts = SeededParts::<T, S>::read(source)?;
    let key = ServerKey::expand(source.set(), &parts.key_switch, &parts.bootstrap, threads)?;
    Ok(Arc::new(TypedKey { key, workspace: workspaces.of(source.set()) }))
}

struct TypedKey<T, S> {
    key: ServerKey<T, S>,
    workspace: Arc<Workspace<Scratch<T, S>>>,
}

impl<T: Word + LutWord, S: Torus> HostKey for TypedKey<T, S> {
    fn set(&self) -> &'static ParameterSet {
        self.key.set()
    }

    fn bytes(&self) -> u64 {
        self.key.bytes() as u64
    }

    fn tile(&self) -> usize {
        self.key.tile()
    }

    fn run(&self, run: &Run, lanes: &[u32]) -> Result<StageTimes, DeviceError> {
        let mut times = StageTimes::default();
        for lanes in parts_by_outputs(lanes, |lane| run.wave().outputs(lane as usize).len()) {
            let part = self.run_part(run, lanes)?;
            times.key_switch += part.key_switch;
            times.blind_rotate += part.blind_rotate;
        }
        Ok(times)
    }
}

impl<T: Word + LutWord, S: Torus> TypedKey<T, S> {
    fn run_part(&self, run: &Run, lanes: &[u32]) -> Result<StageTimes, DeviceError> {
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
        let mut scratch = self.workspace.take(|| self.key.scratch());
        let result = self.key.bootstrap_with(&load, &luts, &mut outputs, std::slice::from_mut(&mut scratch));
        let times = scratch.take_times();
        self.workspace.give_back(scratch);
        result?;
        let places = lanes.iter().flat_map(|&lane| wave.outputs(lane as usize));
        for (&slot, ciphertext) in places.zip(outputs.iter()) {
            store(slots.get(slot), ciphertext);
        }
        Ok(times)
    }
}

/// Maximum number of results in transit to their slots, unless a single lane has more. Results in
/// transit take memory twice.
const OUTPUTS_MAX: usize = PART_MAX;

/// Splits lanes into parts of at most [`OUTPUTS_MAX`] results.
fn parts_by_outputs(lanes: &[u32], outputs: impl Fn(u32) -> usize) -> impl Iterator<Item = &[u32]> {
    let mut left = lanes;
    std::iter::from_fn(move || {
        let mut sum = 0;
        let fits = |lane: &&u32| {
            sum += outputs(**lane);
            sum <= OUTPUTS_MAX
        };
        let count = left.iter().take_while(fits).count().max(1).min(left.len());
        let (part, rest) = left.split_at(count);
        left = rest;
        (!part.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_at_most_the_maximum_number_of_results() {
        let sizes = |outputs: usize| -> Vec<usize> {
            let lanes: Vec<u32> = (0..64).collect();
            parts_by_outputs(&lanes, |_| outputs).map(<[u32]>::len).collect()
        };
        assert_eq!(sizes(1), [64]);
        assert_eq!(sizes(3), [21, 21, 21, 1]);
        assert_eq!(sizes(128), [1; 64]);
        assert_eq!(parts_by_outputs(&[], |_| 1).count(), 0);
    }
}
