//! Whether an engine still ends what it begins.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Told whenever something has ended or the first has begun, a wave or a step; asked by whoever reports.
pub(crate) struct Pulse {
    origin: Instant,
    /// Microseconds from the origin to the last beat, and one; 0 while there is nothing to do.
    last: AtomicU64,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { origin: Instant::now(), last: AtomicU64::new(0) }
    }
}

impl Pulse {
    pub(crate) fn beat(&self, busy: bool) {
        let last = if busy { self.now() + 1 } else { 0 };
        self.last.store(last, Ordering::Relaxed);
    }

    pub(crate) fn silent_for(&self) -> Duration {
        match self.last.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            last => Duration::from_micros((self.now() + 1).saturating_sub(last)),
        }
    }

    fn now(&self) -> u64 {
        self.origin.elapsed().as_micros() as u64
    }
}
