//! Bytes on their way to a GPU that nobody waits for.

use std::{ptr::NonNull, sync::Arc};

use super::{Driver, DriverError, MARKS, Stream, View};

/// Memory of the host that a stream copies from. It is filled again when the stream has come past the last copy.
pub struct Staging {
    driver: Arc<dyn Driver>,
    stream: Stream,
    memory: NonNull<u8>,
    bytes: usize,
    last: Last,
}

/// The last copy, which may be under way.
#[derive(Clone, Copy)]
enum Last {
    /// None is.
    Ended,
    /// With no mark behind it: when it ends is not known.
    Unmarked,
    Marked,
}

/// The mark behind the last copy. A staging has its stream's to itself.
const SENT: usize = MARKS - 1;

// SAFETY: the memory is this staging's own, and belongs to no thread.
unsafe impl Send for Staging {}

impl Staging {
    /// Room for so many bytes at a time, at least one. No other staging is on the stream.
    pub fn new(driver: &Arc<dyn Driver>, stream: Stream, bytes: usize) -> Result<Self, DriverError> {
        let bytes = bytes.max(1);
        let memory = driver.pin(bytes)?;
        Ok(Self { driver: driver.clone(), stream, memory, bytes, last: Last::Ended })
    }

    /// Has the stream copy bytes, behind what was launched on it before and ahead of what comes after. Returns before
    /// they are there, but for bytes that do not fit at once.
    pub fn send(&mut self, bytes: &[u8], to: View<'_, u8>) -> Result<(), DriverError> {
        for (index, chunk) in bytes.chunks(self.bytes).enumerate() {
            let to = to.part(index * self.bytes, chunk.len())?;
            self.settle()?;
            // SAFETY: a chunk is no longer than the memory, and no copy reads it any more.
            let staged = unsafe {
                self.memory.copy_from_nonoverlapping(NonNull::from(chunk).cast(), chunk.len());
                std::slice::from_raw_parts(self.memory.as_ptr(), chunk.len())
            };
            self.last = Last::Unmarked;
            // SAFETY: the view lies within its buffer and holds as many bytes; what is staged stays until the mark.
            unsafe { self.driver.send(self.stream, to.address(), staged) }?;
            self.driver.mark(self.stream, SENT)?;
            self.last = Last::Marked;
        }
        Ok(())
    }

    /// Waits until no copy is under way.
    fn settle(&mut self) -> Result<(), DriverError> {
        match self.last {
            Last::Ended => {}
            Last::Unmarked => return Err(DriverError::Lost("a copy to it has no end that could be waited for".into())),
            Last::Marked => self.driver.wait(self.stream, SENT)?,
        }
        self.last = Last::Ended;
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // A GPU that hangs may yet read it: then it stays.
        if self.settle().is_ok() {
            // SAFETY: it came from this driver, and no copy reads it any more.
            let ended = unsafe { self.driver.unpin(self.memory) };
            // A GPU that does not take it back is lost, which the device has noted.
            let _ = ended;
        }
    }
}
