//! Which keys a plan needs.

use std::collections::{BTreeMap, BTreeSet};

use cloakwork_params::ckks::{CkksSet, layout::Purpose};

use super::{Action, Bootstrap, Clear, Input, Step, rotations::Offsets, vector_of};

/// A key that a program needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyNeed {
    /// What for.
    pub purpose: KeyUse,
    /// The highest level that it is needed at: a key for a higher one will do.
    pub level: usize,
    /// The first operation that needs it.
    pub operation: usize,
}

/// A key that a program needs, and a client has not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingKey {
    /// The need.
    pub need: KeyNeed,
    /// The level of a key that would do but for that.
    pub level: Option<usize>,
}

impl std::fmt::Display for MissingKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let KeyNeed { purpose, level, operation } = self.need;
        write!(out, "operation {operation} takes a key for {purpose} up to level {level}: ")?;
        match self.level {
            Some(got) => write!(out, "the one that is there goes up to level {got}"),
            None => out.write_str("there is none"),
        }
    }
}

/// What a program does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyUse {
    /// Products.
    Multiplication,
    /// Conjugates.
    Conjugation,
    /// Turns to the left, of a vector of so many numbers.
    Rotation {
        /// By how many places: less than there are.
        steps: usize,
        /// log2 of the numbers.
        slots_log2: u32,
    },
    /// To the sparse secret of bootstraps.
    ToSparse,
    /// Back from there.
    ToDense,
}

impl KeyUse {
    /// What a key may be for to serve. Of few numbers, turns to the left and to the right are two keys, either of which will
    /// do.
    pub fn purposes(self, set: &CkksSet) -> Vec<Purpose> {
        match self {
            Self::Multiplication => vec![Purpose::Relinearization],
            Self::ToSparse => vec![Purpose::ToSparse],
            Self::ToDense => vec![Purpose::ToDense],
            Self::Conjugation => vec![Purpose::Move { power: 2 * set.size() - 1 }],
            Self::Rotation { steps, slots_log2 } => {
                let right = set.slots() - (1 << slots_log2) + steps;
                let mut purposes = vec![steps, right];
                purposes.dedup();
                purposes.into_iter().map(|steps| Purpose::Move { power: power(set, steps) }).collect()
            }
        }
    }
}

impl std::fmt::Display for KeyUse {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Multiplication => out.write_str("products"),
            Self::Conjugation => out.write_str("conjugates"),
            Self::Rotation { steps, slots_log2 } => write!(out, "turning {} numbers by {steps}", 1 << slots_log2),
            Self::ToSparse => out.write_str("the sparse secret of a bootstrap"),
            Self::ToDense => out.write_str("the way back from the sparse secret of a bootstrap"),
        }
    }
}

/// The power of X that turns numbers by so many places to the left, of as many as the ring holds.
fn power(set: &CkksSet, steps: usize) -> usize {
    let order = 2 * set.size();
    (0..usize::BITS).rev().fold(1, |power, bit| {
        let square = power * power % order;
        if steps >> bit & 1 == 1 { square * 5 % order } else { square }
    })
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
                let offsets = clear.matrices[*matrix].iter().map(|diagonal| diagonal.offset).collect();
                needs.matrix(&Offsets { size: 1 << vector.slots_log2, offsets }, 0, vector.level);
            }
            Action::Bootstrap(_, bootstrap) => needs.bootstrap(*bootstrap),
            _ => {}
        }
    }
    distinct(set, needs.found)
}

/// Needs that one key meets, as one: a turn of few numbers is also one of all that the ring holds.
fn distinct(set: &CkksSet, found: BTreeMap<KeyUse, (usize, usize)>) -> Vec<KeyNeed> {
    let all = set.size_log2 - 1;
    let is_of_all = |purpose: &KeyUse| !matches!(purpose, KeyUse::Rotation { slots_log2, .. } if *slots_log2 < all);
    let (of_all, of_few): (Vec<_>, Vec<_>) = found.into_iter().partition(|(purpose, _)| is_of_all(purpose));
    // By the first purpose of a key that meets each.
    let mut needs: BTreeMap<Purpose, KeyNeed> = BTreeMap::new();
    for (purpose, (level, operation)) in of_all.into_iter().chain(of_few) {
        let purposes = purpose.purposes(set);
        let other = purposes.iter().find(|purpose| needs.contains_key(purpose)).unwrap_or(&purposes[0]);
        let need = needs.entry(*other).or_insert(KeyNeed { purpose, level, operation });
        if let (true, KeyUse::Rotation { slots_log2, .. }) = (need.purpose != purpose, &mut need.purpose) {
            // The one key that both can be met by.
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
    /// Kinds of bootstraps whose keys are in there.
    bootstraps: BTreeSet<Bootstrap>,
}

impl Needs {
    fn add(&mut self, purpose: KeyUse, level: usize) {
        let (highest, _) = self.found.entry(purpose).or_insert((level, self.operation));
        *highest = level.max(*highest);
    }

    /// Either of the keys that turn so many numbers.
    fn turn(&mut self, by: i64, slots_log2: u32, level: usize) {
        self.add(KeyUse::Rotation { steps: by.rem_euclid(1 << slots_log2) as usize, slots_log2 }, level);
    }

    /// The key that turns as many numbers as there are in the ring.
    fn turn_all(&mut self, by: i64, level: usize) {
        self.turn(by, self.set.size_log2 - 1, level);
    }

    fn matrix(&mut self, matrix: &Offsets, more: u32, level: usize) {
        matrix.steps(more).into_iter().flatten().for_each(|by| self.turn_all(by, level));
    }

    fn bootstrap(&mut self, bootstrap: Bootstrap) {
        let set = self.set;
        if !self.bootstraps.insert(bootstrap) {
            return;
        }
        self.add(KeyUse::ToSparse, 0);
        self.add(KeyUse::ToDense, bootstrap.raised_level(set));
        self.add(KeyUse::Multiplication, bootstrap.remainder_level(set));
        self.add(KeyUse::Conjugation, bootstrap.remainder_level(set));
        for (matrix, level) in bootstrap.matrices(set) {
            self.matrix(&matrix, bootstrap.more(), level);
        }
        bootstrap.turns(set).into_iter().for_each(|(by, level)| self.turn_all(by, level));
    }
}
