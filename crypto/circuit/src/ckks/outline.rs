//! What whoever takes jobs in has to know of a program, and no more.

use std::collections::BTreeSet;

use cloakwork_params::ckks::{CkksSet, layout::KeyShape};

use super::{Cost, Input, KeyNeed, MissingKey, Vector};

/// What a program takes and returns, and what running it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Outline {
    /// The parameter set.
    pub set: &'static CkksSet,
    /// What goes in.
    pub inputs: Vec<Input>,
    /// What comes out.
    pub outputs: Vec<Vector>,
    /// Keys, each once, at the highest level that it is needed at.
    pub keys: Vec<KeyNeed>,
    /// Work and memory.
    pub cost: Cost,
    /// Bytes that its steps and clear numbers take up.
    pub planned_bytes: u64,
}

impl Outline {
    /// Which keys it runs with, out of those that there are, by their places; or the first one that is missing.
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

    /// Bytes of ciphertexts that a row takes and returns, in the longest form that they come in.
    pub fn row_bytes(&self) -> u64 {
        let vectors = self.inputs.iter().map(|input| &input.vector).chain(&self.outputs);
        vectors.map(|vector| 2 * self.set.packed_bytes(vector.level, 0)).sum()
    }

    /// The same in a worker's memory, where words of 64 bits are up to half as long again.
    pub fn held_row_bytes(&self) -> u64 {
        self.row_bytes().saturating_mul(3) / 2
    }

    /// Bytes that it takes up itself, roughly.
    pub fn held_bytes(&self) -> usize {
        let names: usize = self.inputs.iter().map(|input| input.name.len()).sum();
        names + size_of_val(&self.inputs[..]) + size_of_val(&self.outputs[..]) + size_of_val(&self.keys[..])
    }
}
