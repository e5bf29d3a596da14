//! Everything that admission needs to know of a program, and no more.

use std::collections::BTreeSet;

use cloakwork_params::ckks::{CkksSet, layout::KeyShape};

use super::{Cost, Input, KeyNeed, MissingKey, Vector};

/// Inputs and outputs of a program, and the cost of running it.
#[derive(Clone, Debug, PartialEq)]
pub struct Outline {
    /// The parameter set.
    pub set: &'static CkksSet,
    /// The kind of the program's operations if they are of one kind.
    pub operation: &'static str,
    /// Inputs of the program.
    pub inputs: Vec<Input>,
    /// Slots, level and scale of each output.
    pub outputs: Vec<Vector>,
    /// Keys, each once, with the highest level at which it is needed.
    pub keys: Vec<KeyNeed>,
    /// Work and memory.
    pub cost: Cost,
    /// Bytes of memory that its steps and clear numbers take up.
    pub planned_bytes: u64,
}

impl Outline {
    /// Indices of the given keys that the program runs with, or the first key that is missing.
    pub fn choose_keys(&self, keys: &[KeyShape]) -> Result<Vec<usize>, MissingKey> {
        let mut chosen = BTreeSet::new();
        for need in &self.keys {
            let purposes = need.purpose.purposes(self.set);
            let would_do = || keys.iter().enumerate().filter(|(_, key)| purposes.contains(&key.purpose));
            let found = would_do().find(|(_, key)| key.level >= need.level);
            let highest = would_do().map(|(_, key)| key.level).max();
            let (place, _) = found.ok_or(MissingKey { need: *need, level: highest })?;
            chosen.insert(place);
        }
        Ok(chosen.into_iter().collect())
    }

    /// Bytes of the ciphertexts that a row takes and returns, in their longest encoding.
    pub fn row_bytes(&self) -> u64 {
        let vectors = self.inputs.iter().map(|input| &input.vector).chain(&self.outputs);
        vectors.map(|vector| 2 * self.set.packed_bytes(vector.level, 0)).sum()
    }

    /// Bytes of a row's ciphertexts in a worker's memory, where 64-bit words take up to half as
    /// much again.
    pub fn held_row_bytes(&self) -> u64 {
        self.row_bytes().saturating_mul(3) / 2
    }

    /// Approximate bytes of memory that the outline takes up.
    pub fn held_bytes(&self) -> usize {
        let names: usize = self.inputs.iter().map(|input| input.name.len()).sum();
        names + size_of_val(&self.inputs[..]) + size_of_val(&self.outputs[..]) + size_of_val(&self.keys[..])
    }
}
