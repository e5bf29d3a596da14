//! The wall clock, in one place.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Tells the time of day: the system's own, or whatever a test says.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self::from_fn(SystemTime::now)
    }

    /// A clock that somebody else moves.
    pub fn from_fn(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Now, as the catalogue stores times.
    pub(crate) fn now_ms(&self) -> i64 {
        to_ms((self.0)())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Clock")
    }
}

/// Milliseconds since 1970; 0 for anything earlier, the end of `i64` for anything later than that.
pub(crate) fn to_ms(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A time as the catalogue stores it.
pub(crate) fn from_ms(ms: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(ms.max(0).unsigned_abs())
}

/// `span` after `now_ms`.
pub(crate) fn after(now_ms: i64, span: Duration) -> i64 {
    now_ms.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX))
}
