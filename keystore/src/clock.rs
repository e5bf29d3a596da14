//! The wall clock, as one replaceable source of time.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Returns the time of day: from the system, or from a function in tests.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self::from_fn(SystemTime::now)
    }

    /// A clock that calls `now` for the time.
    pub fn from_fn(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The current time in the catalogue's format, in milliseconds.
    pub(crate) fn now_ms(&self) -> i64 {
        to_ms((self.0)())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Clock")
    }
}

/// Milliseconds since 1970; 0 for earlier times, and the maximum of `i64` for times beyond its
/// range.
pub(crate) fn to_ms(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Converts a time from the catalogue's format.
pub(crate) fn from_ms(ms: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(ms.max(0).unsigned_abs())
}

/// Returns the time `span` after `now_ms`, in milliseconds.
pub(crate) fn after(now_ms: i64, span: Duration) -> i64 {
    now_ms.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX))
}
