//! Tells whether anybody has written since.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

/// Odd while somebody writes, and different after each time.
#[derive(Clone, Debug, Default)]
pub(super) struct Version(Arc<AtomicU64>);

impl Version {
    pub(super) fn get(&self) -> Option<u64> {
        Some(self.0.load(SeqCst)).filter(|version| version % 2 == 0)
    }

    /// Somebody writes from now on. Only whoever holds the writer may say so.
    pub(super) fn begin(&self) {
        self.0.fetch_or(1, SeqCst);
    }

    /// Nobody writes any more: all is committed, or rolled back.
    pub(super) fn end(&self) {
        self.0.fetch_add(self.0.load(SeqCst) % 2, SeqCst);
    }
}
