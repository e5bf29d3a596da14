//! Time from one replaceable source, in one unit.
//!
//! Every time is a number of microseconds. Times of day count from 1970 (`i64`) and are stored.
//! Times of an [`Epoch`] count from its start (`u64`), never go back, and mean nothing after the
//! process. The program that makes the parts gives each of them a [`Clock`], so that a test can
//! replace the time of all of them ([`ManualClock`]).

#![forbid(unsafe_code)]

mod manual;
mod unix;

use std::time::{Instant, SystemTime};

pub use manual::ManualClock;
pub use unix::{micros_of, to_system_time, unix_micros_after, unix_micros_before, unix_micros_of};

use manual::Times;

/// Returns the current time: of the system, or of a test. Cheap to clone, and clones agree.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Manual(Times),
}

impl Clock {
    /// The system's clocks.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// The current Unix time in microseconds. An administrator or a time service can set this clock
    /// back.
    pub fn unix_micros(&self) -> i64 {
        match &self.0 {
            Source::System => unix_micros_of(SystemTime::now()),
            Source::Manual(times) => times.unix_micros(),
        }
    }

    /// Starts an epoch.
    pub fn epoch(&self) -> Epoch {
        Epoch(match &self.0 {
            Source::System => Start::System(Instant::now()),
            Source::Manual(times) => Start::Manual(times.clone(), times.monotonic_micros()),
        })
    }
}

/// Measures the time since its start on the monotonic clock. Cheap to clone, and clones agree.
#[derive(Clone, Debug)]
pub struct Epoch(Start);

#[derive(Clone, Debug)]
enum Start {
    System(Instant),
    Manual(Times, u64),
}

impl Epoch {
    /// Microseconds since the start.
    pub fn micros(&self) -> u64 {
        match &self.0 {
            Start::System(start) => micros_of(start.elapsed()),
            Start::Manual(times, start) => times.monotonic_micros() - start,
        }
    }
}

#[cfg(test)]
mod tests;
