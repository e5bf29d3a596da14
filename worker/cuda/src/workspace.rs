//! Memory for waves in flight: one buffer, from which each part of a wave takes what it needs.

use bytemuck::Pod;

use crate::gpu::{Buffer, DriverError, View};

/// Alignment of every allocation from the workspace, sufficient for the widest loads of a kernel.
pub(crate) const ALIGNMENT: usize = 256;

/// Hands out consecutive pieces of a buffer.
pub(crate) struct Workspace<'b> {
    buffer: &'b Buffer,
    taken: usize,
}

impl<'b> Workspace<'b> {
    /// A workspace that covers the whole buffer.
    pub(crate) fn new(buffer: &'b Buffer) -> Self {
        Self { buffer, taken: 0 }
    }

    /// Takes memory for `len` items.
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
