//! Memory for waves under way: one buffer, from which each part of a wave takes what it needs.

use bytemuck::Pod;

use crate::gpu::{Buffer, DriverError, View};

/// Everything that is taken begins at a multiple of it: what the widest loads of a kernel want.
pub(crate) const ALIGNMENT: usize = 256;

/// Takes from a buffer, one after the other.
pub(crate) struct Workspace<'b> {
    buffer: &'b Buffer,
    taken: usize,
}

impl<'b> Workspace<'b> {
    /// All of the buffer.
    pub(crate) fn new(buffer: &'b Buffer) -> Self {
        Self { buffer, taken: 0 }
    }

    /// Room for `len` items.
    pub(crate) fn take<T: Pod>(&mut self, len: usize) -> Result<View<'b, T>, DriverError> {
        let bytes = len.saturating_mul(size_of::<T>());
        let available = self.buffer.bytes().saturating_sub(self.taken);
        if bytes > available {
            return Err(DriverError::OutOfMemory { needed: bytes as u64, available: available as u64 });
        }
        let view = self.buffer.view(self.taken, len)?;
        self.taken += bytes.next_multiple_of(ALIGNMENT);
        Ok(view)
    }
}
