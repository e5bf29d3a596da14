//! A clock that a test sets.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{Clock, Source, micros_of, unix_micros_after};

/// Sets the time of its [`Clock`]s. Their time stands still until then. Cheap to clone: clones set
/// the same time.
#[derive(Clone, Debug)]
pub struct ManualClock(Times);

impl ManualClock {
    /// A clock that stands at this Unix time, in microseconds.
    pub fn at(unix_micros: i64) -> Self {
        Self(Times(Arc::new(Mutex::new(Now { unix_micros, monotonic_micros: 0 }))))
    }

    /// The clock to give to the parts of a program.
    pub fn clock(&self) -> Clock {
        Clock::of(Source::Manual(self.0.clone()))
    }

    /// Sets the time of day, which may move back. Epochs do not change, as when an administrator
    /// sets the system's clock.
    pub fn set_unix_micros(&self, unix_micros: i64) {
        self.0.now().unix_micros = unix_micros;
    }

    /// Lets time pass, for the time of day and for epochs.
    pub fn advance(&self, span: Duration) {
        let mut now = self.0.now();
        now.unix_micros = unix_micros_after(now.unix_micros, span);
        now.monotonic_micros = now.monotonic_micros.saturating_add(micros_of(span));
    }
}

/// The times of a manual clock, shared by all its parts.
#[derive(Clone, Debug)]
pub(crate) struct Times(Arc<Mutex<Now>>);

#[derive(Debug)]
struct Now {
    unix_micros: i64,
    monotonic_micros: u64,
}

impl Times {
    pub(crate) fn unix_micros(&self) -> i64 {
        self.now().unix_micros
    }

    pub(crate) fn monotonic_micros(&self) -> u64 {
        self.now().monotonic_micros
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
