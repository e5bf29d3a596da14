//! Conversions of the wall clock, and the server's monotonic clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The current Unix time in microseconds.
pub fn unix_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Converts Unix time in microseconds to a `SystemTime`.
pub fn from_unix_micros(micros: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(micros.max(0).unsigned_abs())
}

/// Measures microseconds since a start time on the monotonic clock. The scheduler's times use this
/// unit.
#[derive(Clone, Copy, Debug)]
pub struct Epoch(Instant);

impl Epoch {
    /// Starts the clock at 0.
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    /// Microseconds since the start.
    pub fn now(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}
