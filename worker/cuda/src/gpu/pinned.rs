//! Items in memory of the host from which GPUs copy directly.

use std::{ptr::NonNull, sync::Arc};

use bytemuck::Pod;

use super::{Driver, DriverError};

/// Items that do not change. The code that has a GPU copy them keeps them until the copy has ended.
pub struct Pinned {
    driver: Arc<dyn Driver>,
    memory: NonNull<u8>,
    bytes: usize,
}

// SAFETY: this value alone owns the memory, which belongs to no thread and is not written after
// construction.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Copies these items into pinned memory.
    pub fn of<T: Pod>(driver: &Arc<dyn Driver>, items: &[T]) -> Result<Self, DriverError> {
        let bytes: &[u8] = bytemuck::cast_slice(items);
        let memory = driver.pin(bytes.len().max(1))?;
        // SAFETY: as many bytes were pinned there by the line above.
        unsafe { memory.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        Ok(Self { driver: driver.clone(), memory, bytes: bytes.len() })
    }

    /// All items.
    pub fn items<T: Pod>(&self) -> Result<&[T], DriverError> {
        // SAFETY: as many bytes were written there, and nothing changes them.
        let bytes = unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.bytes) };
        bytemuck::try_cast_slice(bytes).map_err(|_| DriverError::Misfit("items that do not fill their memory"))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: the memory came from this driver, and no other reference to it remains.
        let ended = unsafe { self.driver.unpin(self.memory) };
        // A failure to free means that the GPU is lost, which the device has noted.
        let _ = ended;
    }
}
