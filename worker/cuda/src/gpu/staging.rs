//! Copies to a GPU for which the caller does not wait.

use std::{ptr::NonNull, sync::Arc};

use super::{Driver, DriverError, MARKS, Stream, View};

/// Pinned memory of the host from which a stream copies. A refill waits until the stream has passed
/// the last copy.
pub struct Staging {
    driver: Arc<dyn Driver>,
    stream: Stream,
    memory: NonNull<u8>,
    bytes: usize,
    last: Last,
}

/// State of the last copy.
#[derive(Clone, Copy)]
enum Last {
    /// No copy is running.
    Ended,
    /// A copy may be running with no mark behind it, so that its end is unknown.
    Unmarked,
    Marked,
}

/// The mark behind the last copy. A stream has one staging, which alone uses this mark.
const SENT_MARK: usize = MARKS - 1;

// SAFETY: the staging alone owns the memory, which belongs to no thread.
unsafe impl Send for Staging {}

impl Staging {
    /// Memory for `bytes` bytes at a time, at least one. No other staging uses the stream.
    pub fn new(driver: &Arc<dyn Driver>, stream: Stream, bytes: usize) -> Result<Self, DriverError> {
        let bytes = bytes.max(1);
        let memory = driver.pin(bytes)?;
        Ok(Self { driver: driver.clone(), stream, memory, bytes, last: Last::Ended })
    }

    /// Enqueues a copy of bytes on the stream, behind earlier launches and ahead of later ones.
    /// Returns before the bytes have arrived. Bytes that exceed the memory are copied in chunks,
    /// and each chunk waits for the previous one.
    pub fn send(&mut self, bytes: &[u8], to: View<'_, u8>) -> Result<(), DriverError> {
        for (index, chunk) in bytes.chunks(self.bytes).enumerate() {
            let to = to.part(index * self.bytes, chunk.len())?;
            self.settle()?;
            // SAFETY: a chunk is no longer than the memory, and no copy reads the memory any more.
            let staged = unsafe {
                self.memory.copy_from_nonoverlapping(NonNull::from(chunk).cast(), chunk.len());
                std::slice::from_raw_parts(self.memory.as_ptr(), chunk.len())
            };
            self.last = Last::Unmarked;
            // SAFETY: the view lies within its buffer and holds as many bytes; the staged bytes
            // stay until the mark.
            unsafe { self.driver.send(self.stream, to.address(), staged) }?;
            self.driver.mark(self.stream, SENT_MARK)?;
            self.last = Last::Marked;
        }
        Ok(())
    }

    /// Waits until no copy is running.
    fn settle(&mut self) -> Result<(), DriverError> {
        match self.last {
            Last::Ended => {}
            Last::Unmarked => {
                return Err(DriverError::Lost("a copy has no mark behind it: its end is unknown".into()));
            }
            Last::Marked => self.driver.wait(self.stream, SENT_MARK)?,
        }
        self.last = Last::Ended;
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // A hung GPU may still read the memory, which then stays allocated.
        if self.settle().is_ok() {
            // SAFETY: the memory came from this driver, and no copy reads it any more.
            let ended = unsafe { self.driver.unpin(self.memory) };
            // A failure to free means that the GPU is lost, which the device has noted.
            let _ = ended;
        }
    }
}
