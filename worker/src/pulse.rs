//! Liveness of an engine: whether it still ends the work that it begins.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// The engine calls `beat` whenever a wave or step has ended, or the first has begun. The agent's
/// report reads the time since then.
pub(crate) struct Pulse {
    origin: Instant,
    /// Microseconds from the origin to the last beat, plus one; 0 while the engine is idle.
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
