//! The lock of a data directory.

use std::{
    fs::{File, TryLockError},
    path::Path,
    time::Duration,
};

use cloakwork_storage::private;
use tokio::time::{Instant, sleep};

use super::{DataError, open_directory};

/// Name of the file in a data directory that a server locks.
const LOCK_FILE: &str = "lock";

/// Maximum time to wait for the lock of a data directory. A killed process takes some time to exit
/// and release its lock, and supervisors seldom wait for that before they start the next process.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Time between two attempts to lock a data directory.
pub(super) const LOCK_INTERVAL: Duration = Duration::from_millis(20);

/// Locks a data directory against other servers. Makes a missing directory.
pub(crate) async fn lock(directory: &Path) -> Result<File, DataError> {
    let begun = Instant::now();
    loop {
        match try_lock(directory)? {
            Some(lock) => return Ok(lock),
            None if begun.elapsed() < LOCK_TIMEOUT => sleep(LOCK_INTERVAL).await,
            None => return Err(DataError::InUse { path: directory.to_owned() }),
        }
    }
}

/// Locks a data directory, or returns `None` if another process has the lock. Makes a missing
/// directory.
pub(crate) fn try_lock(directory: &Path) -> Result<Option<File>, DataError> {
    open_directory(directory)?;
    let path = directory.join(LOCK_FILE);
    let failed = |source| private::DirectoryError::Io { path: path.clone(), source };
    private::close_file(&path).map_err(failed)?;
    let file = private::file_options().write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(source)) => Err(failed(source).into()),
    }
}
