//! Keys that a plan needs.

use std::collections::{BTreeMap, BTreeSet};

use cloakwork_params::ckks::{CkksSet, bootstrap::BootstrapShape, key_use::KeyUse, layout::Purpose, offsets::Offsets};

use super::{Action, Clear, Input, Step, WAY_OF_CLEAR_MATRICES, vector_of};

/// A key that a program needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyNeed {
    /// Use of the key.
    pub purpose: KeyUse,
    /// Highest level at which the key is needed. A key for a higher level is acceptable as well.
    pub level: usize,
    /// Index of the first operation that needs the key.
    pub operation: usize,
}

/// A key that a program needs and a client has not supplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingKey {
    /// The need.
    pub need: KeyNeed,
    /// Highest level of the supplied keys for this use, which is too low; `None` if there is no
    /// such key.
    pub level: Option<usize>,
}

impl std::fmt::Display for MissingKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let KeyNeed { purpose, level, operation } = self.need;
        write!(out, "operation {operation} takes a key for {purpose} up to level {level}: ")?;
        match self.level {
            Some(got) => write!(out, "the supplied key goes up to level {got}"),
            None => out.write_str("no key for this purpose was supplied"),
        }
    }
}

/// Keys of all steps, each once.
pub(super) fn of_steps(set: &'static CkksSet, inputs: &[Input], steps: &[Step], clear: &Clear) -> Vec<KeyNeed> {
    let mut needs = Needs { set, operation: 0, found: BTreeMap::new(), bootstraps: BTreeSet::new() };
    for step in steps {
        needs.operation = step.operation;
        let Some(vector) =
            step.action.arguments().map(|value| vector_of(inputs, steps, value)).min_by_key(|vector| vector.level)
        else {
            continue;
        };
        match &step.action {
            Action::Multiply(..) => needs.add(KeyUse::Multiplication, vector.level),
            Action::Chebyshev(_, coefficients) if coefficients.len() > 2 => {
                needs.add(KeyUse::Multiplication, vector.level);
            }
            Action::Conjugate(_) => needs.add(KeyUse::Conjugation, vector.level),
            Action::Rotate(_, by) => needs.turn(*by, vector.slots_log2, vector.level),
            Action::Total(_) => {
                (0..vector.slots_log2).for_each(|log2| needs.turn(1 << log2, vector.slots_log2, vector.level));
            }
            Action::Transform(_, matrix) => {
                needs.matrix(&clear.offsets(*matrix, vector.slots_log2), vector.level);
            }
            Action::Bootstrap(_, bootstrap) => needs.bootstrap(*bootstrap),
            _ => {}
        }
    }
    distinct(set, needs.found)
}

/// Merges needs that one key meets. A key for rotations of all slots of the ring may also rotate
/// vectors of fewer slots.
fn distinct(set: &CkksSet, found: BTreeMap<KeyUse, (usize, usize)>) -> Vec<KeyNeed> {
    let all = set.size_log2 - 1;
    let is_of_all = |purpose: &KeyUse| !matches!(purpose, KeyUse::Rotation { slots_log2, .. } if *slots_log2 < all);
    let (of_all, of_few): (Vec<_>, Vec<_>) = found.into_iter().partition(|(purpose, _)| is_of_all(purpose));
    // Needs by the first purpose of a key that meets each.
    let mut needs: BTreeMap<Purpose, KeyNeed> = BTreeMap::new();
    for (purpose, (level, operation)) in of_all.into_iter().chain(of_few) {
        let purposes = purpose.purposes(set);
        let other = purposes.iter().find(|purpose| needs.contains_key(purpose)).unwrap_or(&purposes[0]);
        let need = needs.entry(*other).or_insert(KeyNeed { purpose, level, operation });
        if let (true, KeyUse::Rotation { slots_log2, .. }) = (need.purpose != purpose, &mut need.purpose) {
            // Only a key for all slots meets both needs.
            *slots_log2 = all;
        }
        need.level = need.level.max(level);
        need.operation = need.operation.min(operation);
    }
    let mut needs: Vec<KeyNeed> = needs.into_values().collect();
    needs.sort_by_key(|need| need.purpose);
    needs
}

struct Needs {
    set: &'static CkksSet,
    operation: usize,
    found: BTreeMap<KeyUse, (usize, usize)>,
    /// Kinds of bootstraps whose keys are in `found` already.
    bootstraps: BTreeSet<BootstrapShape>,
}

impl Needs {
    fn add(&mut self, purpose: KeyUse, level: usize) {
        let (highest, _) = self.found.entry(purpose).or_insert((level, self.operation));
        *highest = level.max(*highest);
    }

    /// Needs one of the keys that rotate vectors of this many slots.
    fn turn(&mut self, by: i64, slots_log2: u32, level: usize) {
        self.add(KeyUse::rotation(by, slots_log2), level);
    }

    fn matrix(&mut self, matrix: &Offsets, level: usize) {
        for by in matrix.rotations(WAY_OF_CLEAR_MATRICES) {
            self.add(KeyUse::rotation_of_all(self.set, by), level);
        }
    }

    fn bootstrap(&mut self, bootstrap: BootstrapShape) {
        if self.bootstraps.insert(bootstrap) {
            bootstrap.keys(self.set).into_iter().for_each(|(purpose, level)| self.add(purpose, level));
        }
    }
}
