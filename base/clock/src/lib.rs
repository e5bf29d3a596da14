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

use rustix::time::{ClockId, clock_gettime};

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

    /// Starts an epoch that also counts the time for which the machine sleeps. Other machines may
    /// act meanwhile.
    pub fn epoch_across_sleep(&self) -> Epoch {
        match &self.0 {
            Source::System => Epoch(Start::AcrossSleep(boot_micros())),
            Source::Manual(_) => self.epoch(),
        }
    }
}

/// Measures the time since its start. Cheap to clone, and clones agree.
#[derive(Clone, Debug)]
pub struct Epoch(Start);

#[derive(Clone, Debug)]
enum Start {
    System(Instant),
    AcrossSleep(u64),
    Manual(Times, u64),
}

impl Epoch {
    /// Microseconds since the start.
    pub fn micros(&self) -> u64 {
        match &self.0 {
            Start::System(start) => micros_of(start.elapsed()),
            Start::AcrossSleep(start) => boot_micros().saturating_sub(*start),
            Start::Manual(times, start) => times.monotonic_micros() - start,
        }
    }
}

/// A time that counts on while the machine sleeps, in microseconds. Only Linux is certain to have
/// such a clock, and servers run on Linux.
fn boot_micros() -> u64 {
    #[cfg(target_os = "linux")]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let now = clock_gettime(CLOCK);
    let whole = u64::try_from(now.tv_sec).unwrap_or_default().saturating_mul(1_000_000);
    whole.saturating_add(u64::try_from(now.tv_nsec).unwrap_or_default() / 1000)
}

#[cfg(test)]
mod tests;
