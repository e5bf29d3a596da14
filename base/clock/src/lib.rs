//! Time from one replaceable source, in one unit.
//!
//! Every time is a number of microseconds. Times of day count from 1970 (`i64`) and are stored.
//! Times of an [`Epoch`] count from its start (`u64`), never go back, and mean nothing after the
//! process. The program that makes the parts gives each of them a [`Clock`], so that a test can
//! replace the time of all of them ([`ManualClock`]).

#![forbid(unsafe_code)]

mod manual;
mod unix;

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::{Instant, SystemTime},
};

use rustix::time::{ClockId, clock_gettime};

pub use manual::ManualClock;
pub use unix::{
    DAY_MICROS, micros_of, to_system_time, unix_day, unix_micros_after, unix_micros_before, unix_micros_of,
};

use manual::Times;

/// Returns the current time: of the system, or of a test. Cheap to clone, and clones agree.
#[derive(Clone, Debug)]
pub struct Clock {
    source: Source,
    /// Microseconds that are added to the time of day.
    moved_micros: Arc<AtomicI64>,
}

#[derive(Clone, Debug)]
enum Source {
    System,
    Manual(Times),
}

impl Clock {
    /// The system's clocks.
    pub fn system() -> Self {
        Self::of(Source::System)
    }

    fn of(source: Source) -> Self {
        Self { source, moved_micros: Arc::default() }
    }

    /// The current Unix time in microseconds. An administrator or a time service can set this clock
    /// back.
    pub fn unix_micros(&self) -> i64 {
        self.unmoved_unix_micros().saturating_add(self.moved_micros())
    }

    /// The Unix time of this machine, from which the clock may have been moved.
    pub fn unmoved_unix_micros(&self) -> i64 {
        match &self.source {
            Source::System => unix_micros_of(SystemTime::now()),
            Source::Manual(times) => times.unix_micros(),
        }
    }

    /// Moves the time of day of this clock and all its clones by so much from the time of this
    /// machine. A program then goes by the clock of another machine. Epochs do not change.
    pub fn move_by(&self, micros: i64) {
        self.moved_micros.store(micros, Relaxed);
    }

    /// Microseconds by which this clock was moved.
    pub fn moved_micros(&self) -> i64 {
        self.moved_micros.load(Relaxed)
    }

    /// Starts an epoch.
    pub fn epoch(&self) -> Epoch {
        Epoch(match &self.source {
            Source::System => Start::System(Instant::now()),
            Source::Manual(times) => Start::Manual(times.clone(), times.monotonic_micros()),
        })
    }

    /// Starts an epoch that also counts the time for which the machine sleeps. Other machines may
    /// act meanwhile.
    pub fn epoch_across_sleep(&self) -> Epoch {
        match &self.source {
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
