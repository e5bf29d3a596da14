//! The caller's deadline, from the `grpc-timeout` header.

use std::time::Duration;

use http::HeaderMap;
use tokio::time::Instant;

use crate::error::{ApiError, DEADLINE_EXCEEDED, INVALID_ARGUMENT};

/// The time at which the caller stops waiting, or `None` without a deadline. Stored in the
/// extensions of each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(pub Option<Instant>);

const TIMEOUT: &str = "grpc-timeout";

/// Maximum time to a deadline. Longer than any call takes; far larger values would overflow the
/// clock.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);

impl Deadline {
    /// Reads the deadline from the headers of a call that has just arrived.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let Some(value) = headers.get(TIMEOUT) else {
            return Ok(Self(None));
        };
        let time = value.to_str().ok().and_then(parse).ok_or_else(|| {
            INVALID_ARGUMENT.error("grpc-timeout must be up to 8 digits and a unit of H, M, S, m, u or n")
        })?;
        Ok(Self(Some(Instant::now() + time.min(LONGEST_TIMEOUT))))
    }

    /// Replaces the deadline in the headers of a call that goes on to another server.
    pub(super) fn write_to(self, headers: &mut HeaderMap) {
        let Some(at) = self.0 else { return };
        // With 8 digits, a time in milliseconds ends at 27 hours.
        let left = at.saturating_duration_since(Instant::now());
        let text = match left.as_millis() {
            millis @ ..100_000_000 => format!("{millis}m"),
            _ => format!("{}S", left.as_secs()),
        };
        if let Ok(value) = text.parse() {
            headers.insert(TIMEOUT, value);
        }
    }
}

/// The error of a call whose deadline has passed.
pub(super) fn exceeded() -> ApiError {
    DEADLINE_EXCEEDED.error("the deadline of the call has passed")
}

fn parse(text: &str) -> Option<Duration> {
    let unit = text.chars().next_back()?;
    let digits = &text[..text.len() - unit.len_utf8()];
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let amount: u64 = digits.parse().ok()?;
    Some(match unit {
        'H' => Duration::from_secs(amount * 3600),
        'M' => Duration::from_secs(amount * 60),
        'S' => Duration::from_secs(amount),
        'm' => Duration::from_millis(amount),
        'u' => Duration::from_micros(amount),
        'n' => Duration::from_nanos(amount),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_parse_in_every_unit() {
        let known =
            [("1H", 3_600_000_000), ("2M", 120_000_000), ("3S", 3_000_000), ("4m", 4000), ("5u", 5), ("6000n", 6)];
        for (text, micros) in known {
            assert_eq!(parse(text), Some(Duration::from_micros(micros)), "{text}");
        }
        assert_eq!(parse("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        for bad in ["", "S", "1", "1s", "-1S", "+1S", "123456789S", "1 S", "1é", "1.5S"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[tokio::test]
    async fn headers() {
        let mut headers = HeaderMap::new();
        assert_eq!(Deadline::of(&headers), Ok(Deadline(None)));
        headers.insert("grpc-timeout", "99999999H".parse().unwrap());
        assert!(Deadline::of(&headers).unwrap().0.is_some());
        Deadline(Some(Instant::now() + Duration::from_millis(1500))).write_to(&mut headers);
        let left = Deadline::of(&headers).unwrap().0.unwrap() - Instant::now();
        assert!((Duration::from_millis(1400)..=Duration::from_millis(1500)).contains(&left), "{left:?}");
        Deadline(Some(Instant::now() + LONGEST_TIMEOUT)).write_to(&mut headers);
        assert_eq!(headers.get_all("grpc-timeout").iter().count(), 1);
        let left = Deadline::of(&headers).unwrap().0.unwrap() - Instant::now();
        assert!(left > LONGEST_TIMEOUT - Duration::from_secs(2), "{left:?}");
        headers.insert("grpc-timeout", "soon".parse().unwrap());
        assert_eq!(Deadline::of(&headers).unwrap_err().reason(), INVALID_ARGUMENT);
    }
}
