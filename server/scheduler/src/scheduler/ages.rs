//! Ages of the waiting jobs.

use std::collections::BTreeMap;

use crate::types::Time;

/// Resolution of the ages, in microseconds. An entry for each job would cost one more memory access
/// per job, for a metric in seconds.
const AGE_STEP_MICROS: u64 = 100_000;

/// Number of waiting jobs that were submitted in each [`AGE_STEP_MICROS`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ages(BTreeMap<u64, usize>);

impl Ages {
    pub(super) fn insert(&mut self, submitted: Time) {
        *self.0.entry(submitted / AGE_STEP_MICROS).or_default() += 1;
    }

    pub(super) fn remove(&mut self, submitted: Time) {
        crate::worker::take_one(&mut self.0, &(submitted / AGE_STEP_MICROS));
    }

    /// When the oldest waiting job was submitted, or up to one [`AGE_STEP_MICROS`] before.
    pub(super) fn oldest(&self) -> Option<Time> {
        self.0.first_key_value().map(|(step, _)| step * AGE_STEP_MICROS)
    }
}
