//! Buffers in a GPU's memory that are refilled repeatedly.

use std::sync::Arc;

use bytemuck::Pod;

use super::{Buffer, Driver, DriverError, Stream, View};

/// A buffer that the host fills for kernels of one stream. Each refill waits until the kernels that
/// read the previous contents have ended.
pub(crate) struct Refilled {
    driver: Arc<dyn Driver>,
    buffer: Buffer,
    stream: Stream,
    /// The mark behind the kernels that read the buffer. No other buffer of the stream uses this
    /// mark.
    mark: usize,
    last: Last,
}

/// State of the last use of a buffer.
#[derive(Clone, Copy)]
enum Last {
    Never,
    /// Kernels may be running, and no mark is behind them.
    Unmarked,
    Marked,
}

impl Refilled {
    /// A buffer of `bytes` bytes.
    pub(crate) fn new(
        driver: &Arc<dyn Driver>,
        bytes: usize,
        stream: Stream,
        mark: usize,
    ) -> Result<Self, DriverError> {
        let buffer = Buffer::new(driver, bytes)?;
        Ok(Self { driver: driver.clone(), buffer, stream, mark, last: Last::Never })
    }

    /// Copies items to the buffer, and calls `launch`, which launches their readers on the buffer's
    /// stream.
    pub(crate) fn fill<T: Pod>(
        &mut self,
        items: &[T],
        launch: impl FnOnce(View<'_, T>) -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        match self.last {
            Last::Never => {}
            Last::Unmarked => return Err(DriverError::Misfit("a buffer whose last kernels have no mark behind them")),
            Last::Marked => self.driver.wait(self.stream, self.mark)?,
        }
        let place = self.buffer.view(0, items.len())?;
        // SAFETY: only kernels launched by an earlier `launch` read the buffer, and the mark behind
        // them was reached.
        unsafe { place.upload(items) }?;
        self.last = Last::Unmarked;
        launch(place)?;
        self.driver.mark(self.stream, self.mark)?;
        self.last = Last::Marked;
        Ok(())
    }
}
