//! For how long jobs have been waiting.

use std::collections::BTreeMap;

use crate::types::Time;

/// How exactly. An entry for each job would be one more thing to fetch from memory, for a figure that is shown in seconds.
const STEP: u64 = 100_000;

/// How many jobs wait that were submitted in each [`STEP`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ages(BTreeMap<u64, usize>);

impl Ages {
    pub(super) fn insert(&mut self, submitted: Time) {
        *self.0.entry(submitted / STEP).or_default() += 1;
    }

    pub(super) fn remove(&mut self, submitted: Time) {
        crate::worker::take_one(&mut self.0, &(submitted / STEP));
    }

    /// When the oldest was submitted, or up to a [`STEP`] before.
    pub(super) fn oldest(&self) -> Option<Time> {
        self.0.first_key_value().map(|(step, _)| step * STEP)
    }
}
