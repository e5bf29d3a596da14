//! The resources that waves need on one GPU, besides keys and slots.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use crate::{
    gpu::{Buffer, Driver, DriverError, Launcher, Loss, Staging, Stream, Watched},
    locked::locked,
    roots::roots,
};

/// A GPU, with memory for the waves that it computes.
pub(crate) struct Bench {
    /// Number of the GPU within the device.
    pub(crate) number: usize,
    pub(crate) driver: Arc<dyn Driver>,
    /// Host memory from which the lists of a part are copied. Declared, and so dropped, before the
    /// workspace into which the copies go.
    staging: Mutex<Staging>,
    /// Memory of the part that the GPU computes. One part is computed at a time.
    pub(crate) workspace: Buffer,
    /// Roots of unity, by the size of a polynomial.
    roots: Mutex<HashMap<usize, Arc<Buffer>>>,
    key_turn: Mutex<()>,
}

/// The workspace takes one part in `WORKSPACE_SHARE` of a GPU's memory.
const WORKSPACE_SHARE: u64 = 16;
/// Maximum size of the workspace. No wave uses more: this is enough for thousands of lanes of the
/// widest sets.
const WORKSPACE_MAX: u64 = 2 << 30;
/// Expanded words of a key take at most one part in `STAGED_SHARE` of a GPU's memory. Kernels then
/// convert them into the form that computations read.
const STAGED_SHARE: u64 = 1024;
/// Maximum bytes of expanded words. More would not keep more multiprocessors busy.
const STAGED_MAX: u64 = 16 << 20;
/// Maximum bytes of lists in transit: those of some ten thousand lanes. Longer lists are copied in
/// pieces.
const STAGING_BYTES: usize = 1 << 20;

impl Bench {
    pub(crate) fn new(number: usize, driver: Arc<dyn Driver>, loss: &Arc<Loss>) -> Result<Self, DriverError> {
        let driver: Arc<dyn Driver> = Arc::new(Watched::new(driver, number, loss.clone()));
        let bytes = (driver.describe().memory_bytes / WORKSPACE_SHARE).min(WORKSPACE_MAX) as usize;
        let workspace = Buffer::new(&driver, bytes)?;
        let staging = Mutex::new(Staging::new(&driver, Stream::Waves, STAGING_BYTES)?);
        Ok(Self { number, driver, staging, workspace, roots: Mutex::default(), key_turn: Mutex::default() })
    }

    /// The host memory through which the lists of a part are sent.
    pub(crate) fn staging(&self) -> MutexGuard<'_, Staging> {
        locked(&self.staging)
    }

    pub(crate) fn launcher(&self, stream: Stream) -> Launcher<'_> {
        Launcher { driver: self.driver.as_ref(), stream }
    }

    /// Waits until a stream has ended everything launched on it. `mark` must not be in use.
    pub(crate) fn finish(&self, stream: Stream, mark: usize) -> Result<(), DriverError> {
        self.driver.mark(stream, mark)?;
        self.driver.wait(stream, mark)
    }

    /// Roots for polynomials of `size` coefficients, computed at the first request.
    pub(crate) fn roots(&self, size: usize) -> Result<Arc<Buffer>, DriverError> {
        let mut made = locked(&self.roots);
        if let Some(roots) = made.get(&size) {
            return Ok(roots.clone());
        }
        let new = Arc::new(Buffer::of(&self.driver, &roots(size))?);
        made.insert(size, new.clone());
        Ok(new)
    }

    /// Bytes of a key's words that are expanded at a time.
    pub(crate) fn staged_bytes(&self) -> usize {
        (self.driver.describe().memory_bytes / STAGED_SHARE).min(STAGED_MAX) as usize
    }

    /// Locks the preparation of keys: the caller holds the guard while it prepares a key.
    pub(crate) fn key_turn(&self) -> MutexGuard<'_, ()> {
        locked(&self.key_turn)
    }
}
