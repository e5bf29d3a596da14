//! A counter that tells whether the database was written since a read.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

/// Odd during a write, and different after each write.
#[derive(Clone, Debug, Default)]
pub(crate) struct Version(Arc<AtomicU64>);

impl Version {
    pub(crate) fn get(&self) -> Option<u64> {
        Some(self.0.load(SeqCst)).filter(|version| version % 2 == 0)
    }

    /// Marks the start of a write. Only the holder of the writer may call this.
    pub(crate) fn begin(&self) {
        self.0.fetch_or(1, SeqCst);
    }

    /// Marks the end of a write: all changes are committed, or rolled back.
    pub(crate) fn end(&self) {
        self.0.fetch_add(self.0.load(SeqCst) % 2, SeqCst);
    }
}
