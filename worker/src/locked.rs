//! Locks whose holders may have panicked.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock whatever became of those who held it before. What our locks guard is changed in single steps, so that a
/// panic leaves nothing half done.
pub(crate) trait Locked<T> {
    /// The guard.
    fn locked(&self) -> MutexGuard<'_, T>;
}

impl<T> Locked<T> for Mutex<T> {
    fn locked(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
