//! Places in a GPU's memory that are filled again and again.

use std::sync::Arc;

use bytemuck::Pod;

use super::{Buffer, Driver, DriverError, Stream, View};

/// A place that the host fills for kernels of one stream, each time when the kernels that read it before have ended.
pub(crate) struct Refilled {
    driver: Arc<dyn Driver>,
    buffer: Buffer,
    stream: Stream,
    /// The mark behind the kernels that read the place. No other place on the stream has it.
    mark: usize,
    last: Last,
}

/// The last use of a place.
#[derive(Clone, Copy)]
enum Last {
    Never,
    /// Kernels may be under way, and no mark tells when they have ended.
    Unmarked,
    Marked,
}

impl Refilled {
    /// A place of so many bytes.
    pub(crate) fn new(
        driver: &Arc<dyn Driver>,
        bytes: usize,
        stream: Stream,
        mark: usize,
    ) -> Result<Self, DriverError> {
        let buffer = Buffer::new(driver, bytes)?;
        Ok(Self { driver: driver.clone(), buffer, stream, mark, last: Last::Never })
    }

    /// Copies items to the place, and has `launch` launch what reads them, on the place's stream.
    pub(crate) fn fill<T: Pod>(
        &mut self,
        items: &[T],
        launch: impl FnOnce(View<'_, T>) -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        match self.last {
            Last::Never => {}
            Last::Unmarked => return Err(DriverError::Misfit("a place whose last kernels have no mark behind them")),
            Last::Marked => self.driver.wait(self.stream, self.mark)?,
        }
        let place = self.buffer.view(0, items.len())?;
        // SAFETY: only kernels that an earlier `launch` has launched read the place. The mark behind them was waited for.
        unsafe { place.upload(items) }?;
        self.last = Last::Unmarked;
        launch(place)?;
        self.driver.mark(self.stream, self.mark)?;
        self.last = Last::Marked;
        Ok(())
    }
}
