//! Items in memory of the host that GPUs copy from by themselves.

use std::{ptr::NonNull, sync::Arc};

use bytemuck::Pod;

use super::{Driver, DriverError};

/// Items that stay as they are. Whoever has a GPU copy them keeps them until it has.
pub struct Pinned {
    driver: Arc<dyn Driver>,
    memory: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is this value's own, belongs to no thread, and is not written to once the value is made.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// A copy of these.
    pub fn of<T: Pod>(driver: &Arc<dyn Driver>, items: &[T]) -> Result<Self, DriverError> {
        let bytes: &[u8] = bytemuck::cast_slice(items);
        let memory = driver.pin(bytes.len().max(1))?;
        // SAFETY: so many bytes were pinned there just now.
        unsafe { memory.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        Ok(Self { driver: driver.clone(), memory, bytes: bytes.len() })
    }

    /// All of them.
    pub fn items<T: Pod>(&self) -> Result<&[T], DriverError> {
        // SAFETY: so many bytes were written there, and nobody changes them.
        let bytes = unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.bytes) };
        bytemuck::try_cast_slice(bytes).map_err(|_| DriverError::Misfit("items that do not fill their memory"))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: it came from this driver, and nobody has it any more.
        let ended = unsafe { self.driver.unpin(self.memory) };
        // A GPU that does not take it back is lost, which the device has noted.
        let _ = ended;
    }
}
