//! One GPU at work: what waves need on it beside keys and slots.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    gpu::{Buffer, Driver, DriverError, Launcher, Loss, Staging, Stream, Watched},
    roots::roots,
};

/// A GPU, with memory for waves under way.
pub(crate) struct Bench {
    /// Among the device's.
    pub(crate) number: usize,
    pub(crate) driver: Arc<dyn Driver>,
    /// The numbers of a part on their way. Goes before the workspace that they go to.
    staging: Mutex<Staging>,
    /// For what a part of a wave needs while it is computed. One is at a time.
    pub(crate) workspace: Buffer,
    /// Roots of unity by size of a polynomial.
    roots: Mutex<HashMap<usize, Arc<Buffer>>>,
    key_turn: Mutex<()>,
}

/// Share of a GPU's memory that is the workspace.
const WORKSPACE_SHARE: u64 = 16;
/// More than that no wave can use: thousands of lanes of the widest sets.
const WORKSPACE_MAX: u64 = 2 << 30;
/// Share of a GPU's memory for words of a key that are expanded and not yet what computations read.
const STAGED_SHARE: u64 = 1024;
/// More than that keeps no more multiprocessors busy.
const STAGED_MAX: u64 = 16 << 20;
/// Numbers of a part that are on their way at a time: those of some ten thousand lanes. More go one after the other.
const STAGING_BYTES: usize = 1 << 20;

impl Bench {
    pub(crate) fn new(number: usize, driver: Arc<dyn Driver>, loss: &Arc<Loss>) -> Result<Self, DriverError> {
        let driver: Arc<dyn Driver> = Arc::new(Watched::new(driver, number, loss.clone()));
        let bytes = (driver.describe().memory_bytes / WORKSPACE_SHARE).min(WORKSPACE_MAX) as usize;
        let workspace = Buffer::new(&driver, bytes)?;
        let staging = Mutex::new(Staging::new(&driver, Stream::Waves, STAGING_BYTES)?);
        Ok(Self { number, driver, staging, workspace, roots: Mutex::default(), key_turn: Mutex::default() })
    }

    /// What the numbers of a part are sent through.
    pub(crate) fn staging(&self) -> MutexGuard<'_, Staging> {
        self.staging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn launcher(&self, stream: Stream) -> Launcher<'_> {
        Launcher { driver: self.driver.as_ref(), stream }
    }

    /// Waits until a stream has ended everything that was launched on it. `mark` is free for that.
    pub(crate) fn finish(&self, stream: Stream, mark: usize) -> Result<(), DriverError> {
        self.driver.mark(stream, mark)?;
        self.driver.wait(stream, mark)
    }

    /// Roots for polynomials of `size` coefficients, made when they are first asked for.
    pub(crate) fn roots(&self, size: usize) -> Result<Arc<Buffer>, DriverError> {
        let mut made = self.roots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(roots) = made.get(&size) {
            return Ok(roots.clone());
        }
        let new = Arc::new(Buffer::of(&self.driver, &roots(size))?);
        made.insert(size, new.clone());
        Ok(new)
    }

    /// Bytes of a key's words that are made ready at a time.
    pub(crate) fn staged_bytes(&self) -> usize {
        (self.driver.describe().memory_bytes / STAGED_SHARE).min(STAGED_MAX) as usize
    }

    /// Held while a key is made ready.
    pub(crate) fn key_turn(&self) -> MutexGuard<'_, ()> {
        self.key_turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
