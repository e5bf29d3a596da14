//! Pauses between attempts at an action that failed.
//!
//! The bound of the pause doubles with each failure, up to a maximum. Each pause is a random part
//! of its bound, so many clients or workers that failed at one time do not come back at one time.
//! The part is at least half (equal jitter), so a limited number of attempts spans a known time.

#![forbid(unsafe_code)]

use std::time::Duration;

/// A series of pauses, which begins anew after a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    first: Duration,
    max: Duration,
    /// Bound of the next pause.
    bound: Duration,
}

impl Pauses {
    /// Pauses whose bound doubles from `first` to `max`.
    pub fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, bound: first.min(max) }
    }

    /// Begins anew, after a success.
    pub fn reset(&mut self) {
        *self = Self::new(self.first, self.max);
    }

    /// The next pause.
    pub fn next_pause(&mut self) -> Duration {
        let bound = self.bound;
        self.bound = bound.saturating_mul(2).min(self.max);
        // Rounding may take the largest bounds beyond the range of a `Duration`.
        let part = 0.5 + 0.5 * fraction();
        Duration::try_from_secs_f64(bound.as_secs_f64() * part).map_or(bound, |pause| pause.min(bound))
    }
}

/// A random number from 0 to 1.
fn fraction() -> f64 {
    // If the system has no randomness, the middle serves as well. Nothing secret depends on it.
    getrandom::u32().map_or(0.5, |number| f64::from(number) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_millis(10);
    const MAX: Duration = Duration::from_millis(75);

    /// The smallest and largest of a thousand pauses at this place in the series.
    fn range(place: usize) -> (Duration, Duration) {
        let pause = |_| {
            let mut pauses = Pauses::new(FIRST, MAX);
            (0..place).for_each(|_| _ = pauses.next_pause());
            pauses.next_pause()
        };
        let pauses: Vec<Duration> = (0..1000).map(pause).collect();
        (*pauses.iter().min().expect("a pause"), *pauses.iter().max().expect("a pause"))
    }

    #[test]
    fn bounds_double_up_to_the_maximum_and_pauses_spread_over_the_upper_half() {
        for (place, bound) in [10, 20, 40, 75, 75].into_iter().enumerate() {
            let (bound, (least, most)) = (Duration::from_millis(bound), range(place));
            // A thousand pauses miss the last fiftieth of the half with a probability of 2e-9.
            assert!((bound.mul_f64(0.499)..bound.mul_f64(0.51)).contains(&least), "{least:?} of {bound:?}");
            assert!((bound.mul_f64(0.99)..=bound).contains(&most), "{most:?} of {bound:?}");
        }
    }

    #[test]
    fn a_success_begins_the_series_anew() {
        let mut pauses = Pauses::new(FIRST, MAX);
        (0..5).for_each(|_| _ = pauses.next_pause());
        pauses.reset();
        assert_eq!(pauses, Pauses::new(FIRST, MAX));
        assert!(pauses.next_pause() <= FIRST);
    }

    #[test]
    fn no_pause_exceeds_a_maximum_below_the_first() {
        assert!(Pauses::new(MAX, FIRST).next_pause() <= FIRST);
        assert_eq!(Pauses::new(Duration::ZERO, Duration::ZERO).next_pause(), Duration::ZERO);
        let mut pauses = Pauses::new(Duration::MAX, Duration::MAX);
        pauses.next_pause();
        assert_eq!(pauses.bound, Duration::MAX);
    }
}
