//! A counter that tells whether the database was written since a read.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

/// The number of writes that have ended, and below it the number of those that run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Version(Arc<AtomicU64>);

/// One write that has ended. There are never as many connections that write at the same time.
const ENDED: u64 = 1 << 16;

impl Version {
    /// The number of writes, or `None` while one runs.
    pub(crate) fn get(&self) -> Option<u64> {
        let version = self.0.load(SeqCst);
        version.is_multiple_of(ENDED).then_some(version / ENDED)
    }

    /// Marks the start of a write.
    pub(crate) fn begin(&self) {
        self.0.fetch_add(1, SeqCst);
    }

    /// Marks the end of a write that began: all changes are committed, or rolled back.
    pub(crate) fn end(&self) {
        self.0.fetch_add(ENDED - 1, SeqCst);
    }
}
