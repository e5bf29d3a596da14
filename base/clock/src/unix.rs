//! Conversions to and from microseconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Microseconds in a span; the maximum of `u64` for spans beyond its range.
pub fn micros_of(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// Unix time in microseconds; 0 for times before 1970, and the maximum of `i64` for times beyond
/// its range.
pub fn unix_micros_of(time: SystemTime) -> i64 {
    unix_micros_after(0, time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// The Unix time `span` after another, in microseconds, or the maximum of `i64`.
pub fn unix_micros_after(unix_micros: i64, span: Duration) -> i64 {
    unix_micros.saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX))
}

/// The Unix time `span` before another, in microseconds, or the minimum of `i64`.
pub fn unix_micros_before(unix_micros: i64, span: Duration) -> i64 {
    unix_micros.saturating_sub(i64::try_from(span.as_micros()).unwrap_or(i64::MAX))
}

/// Microseconds of a day of Unix time.
pub const DAY_MICROS: i64 = 86_400_000_000;

/// The day (UTC) of a Unix time in microseconds, as a number of days since 1970.
pub fn unix_day(unix_micros: i64) -> i64 {
    unix_micros.div_euclid(DAY_MICROS)
}

/// The time with this Unix time in microseconds. Times before 1970 become 1970.
pub fn to_system_time(unix_micros: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(unix_micros.max(0).unsigned_abs())
}
