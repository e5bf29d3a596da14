//! The wall clock and the server's own, in one place.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Microseconds of Unix time.
pub fn unix_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// The time of day at so many microseconds of Unix time.
pub fn from_unix_micros(micros: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(micros.max(0).unsigned_abs())
}

/// Microseconds since a moment, on the monotonic clock: what the scheduler calls time.
#[derive(Clone, Copy, Debug)]
pub struct Epoch(Instant);

impl Epoch {
    /// Time that begins now.
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    /// Now.
    pub fn now(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}
