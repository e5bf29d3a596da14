//! Events in the order of simulated time.

use std::collections::BTreeMap;

use crate::types::Time;

/// Events to come. Events of one time happen in the order in which they were added.
#[derive(Debug)]
pub(super) struct Agenda<T> {
    events: BTreeMap<(Time, u64), T>,
    count: u64,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self { events: BTreeMap::new(), count: 0 }
    }
}

impl<T> Agenda<T> {
    pub(super) fn add(&mut self, at: Time, event: T) {
        self.count += 1;
        self.events.insert((at, self.count), event);
    }

    /// Takes the next event off, with its time.
    pub(super) fn next(&mut self) -> Option<(Time, T)> {
        self.events.pop_first().map(|((at, _), event)| (at, event))
    }
}
