//! Measures the rate at which cost is finished.

use crate::types::Time;

/// Shortest time that a rate is measured over, in microseconds.
const RATE_WINDOW_MICROS: u64 = 1_000_000;
/// Shortest and longest wait that a refusal asks for, in microseconds.
const RETRY_AFTER_MICROS: std::ops::RangeInclusive<u64> = 100_000..=60_000_000;

/// Cost finished per second, smoothed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    since: Time,
    done: u64,
    per_second: u64,
}

impl Meter {
    /// Counts a finished job.
    pub(crate) fn finished(&mut self, now: Time, cost: u64) {
        self.done = self.done.saturating_add(cost);
        let elapsed = now.saturating_sub(self.since);
        if elapsed >= RATE_WINDOW_MICROS {
            let rate = (u128::from(self.done) * 1_000_000 / u128::from(elapsed)).min(u128::from(u64::MAX)) as u64;
            self.per_second = if self.per_second == 0 { rate } else { self.per_second / 4 * 3 + rate / 4 };
            self.begin(now);
        }
    }

    /// Restarts the measurement. The scheduler was idle before `now`, and idle time does not count.
    pub(crate) fn begin(&mut self, now: Time) {
        (self.since, self.done) = (now, 0);
    }

    /// Cost per second; 0 before the first measurement.
    pub(crate) fn per_second(&self) -> u64 {
        self.per_second
    }

    /// Microseconds until this cost is finished, within the bounds of `RETRY_AFTER_MICROS`.
    pub(crate) fn wait_for(&self, cost: u128) -> u64 {
        let wait = match self.per_second {
            0 => u128::from(RATE_WINDOW_MICROS),
            rate => cost.saturating_mul(1_000_000) / u128::from(rate),
        };
        (wait.min(u128::from(u64::MAX)) as u64).clamp(*RETRY_AFTER_MICROS.start(), *RETRY_AFTER_MICROS.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_the_queue_over_the_rate() {
        let mut meter = Meter::default();
        meter.begin(5_000_000);
        meter.finished(5_500_000, 100);
        meter.finished(7_000_000, 900);
        assert_eq!(meter.per_second(), 500);
        assert_eq!(meter.wait_for(1500), 3_000_000);
        assert_eq!(meter.wait_for(0), 100_000);
        assert_eq!(meter.wait_for(u128::MAX), 60_000_000);
    }
}
