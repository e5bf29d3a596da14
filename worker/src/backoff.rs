//! Exponential backoff with random jitter.

use std::time::Duration;

/// Delays that double from `least` to `most`. Each wait is a random fraction of the delay, at least
/// half, so that many workers do not retry in step.
pub(crate) struct Backoff {
    least: Duration,
    most: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(least: Duration, most: Duration) -> Self {
        Self { least, most, next: least }
    }

    /// Resets the delay to `least` after a success.
    pub(crate) fn reset(&mut self) {
        self.next = self.least;
    }

    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.step()).await;
    }

    fn step(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(self.most);
        whole.mul_f64(0.5 + 0.5 * fraction())
    }
}

/// A random number in [0, 1), or 0.5 if the system has no randomness.
fn fraction() -> f64 {
    let mut bytes = [0; 4];
    match getrandom::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0),
        Err(_) => 0.5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum_and_reset() {
        let (least, most) = (Duration::from_millis(10), Duration::from_millis(80));
        let mut backoff = Backoff::new(least, most);
        for whole in [10, 20, 40, 80, 80] {
            let step = backoff.step();
            assert!((whole * 500..=whole * 1000).contains(&step.as_micros()), "{step:?} of {whole} ms");
        }
        backoff.reset();
        assert!(backoff.step() <= least);
    }
}
