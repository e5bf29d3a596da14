//! A driver that records its first loss, and passes on no calls after it.

use std::{ffi::c_void, ptr::NonNull, sync::Arc, time::Duration};

use super::{Address, Description, Download, Driver, DriverError, Loss, Stream, Upload};

/// A GPU of a device. Once any of the device's GPUs is lost, this GPU rejects all calls. Memory
/// that a kernel or a copy may still use is then neither freed nor reused, but stays until the
/// process ends.
pub(crate) struct Watched {
    driver: Arc<dyn Driver>,
    /// Number of the GPU within the device.
    number: usize,
    loss: Arc<Loss>,
}

impl Watched {
    /// Wraps the driver of the GPU of number `number`.
    pub(crate) fn new(driver: Arc<dyn Driver>, number: usize, loss: Arc<Loss>) -> Self {
        Self { driver, number, loss }
    }

    /// Makes a call unless a GPU of the device is lost, and records the loss if the call reports
    /// one.
    fn ask<R>(&self, call: impl FnOnce(&dyn Driver) -> Result<R, DriverError>) -> Result<R, DriverError> {
        self.loss.check()?;
        call(self.driver.as_ref()).inspect_err(|error| {
            if let DriverError::Lost(message) = error {
                self.loss.note(self.number, &self.driver.describe().name, message);
            }
        })
    }
}

// Every unsafe call is passed on unchanged, so the caller's guarantees hold for the wrapped driver.
impl Driver for Watched {
    fn describe(&self) -> &Description {
        self.driver.describe()
    }

    fn allocate(&self, bytes: usize) -> Result<Address, DriverError> {
        self.ask(|driver| driver.allocate(bytes))
    }

    unsafe fn free(&self, address: Address) -> Result<(), DriverError> {
        // SAFETY: the caller's.
        self.ask(|driver| unsafe { driver.free(address) })
    }

    fn reserve(&self, bytes: usize) -> Result<Address, DriverError> {
        self.ask(|driver| driver.reserve(bytes))
    }

    unsafe fn back(
        &self,
        address: Address,
        reserved: usize,
        backed: usize,
        bytes: usize,
    ) -> Result<usize, DriverError> {
        // SAFETY: the caller's.
        self.ask(|driver| unsafe { driver.back(address, reserved, backed, bytes) })
    }

    unsafe fn release(&self, address: Address, reserved: usize, backed: usize) -> Result<(), DriverError> {
        // SAFETY: the caller's.
        self.ask(|driver| unsafe { driver.release(address, reserved, backed) })
    }

    unsafe fn upload(&self, copies: &[Upload<'_>]) -> Result<(), DriverError> {
        // SAFETY: the caller's.
        self.ask(|driver| unsafe { driver.upload(copies) })
    }

    unsafe fn download(&self, copies: &mut [Download<'_>]) -> Result<(), DriverError> {
        // SAFETY: the caller's.
        self.ask(|driver| unsafe { driver.download(copies) })
    }

    fn pin(&self, bytes: usize) -> Result<NonNull<u8>, DriverError> {
        self.ask(|driver| driver.pin(bytes))
    }

    unsafe fn unpin(&self, memory: NonNull<u8>) -> Result<(), DriverError> {
        // SAFETY: the caller's.
        self.ask(|driver| unsafe { driver.unpin(memory) })
    }

    unsafe fn send(&self, stream: Stream, to: Address, bytes: &[u8]) -> Result<(), DriverError> {
        // SAFETY: the caller's.
        self.ask(|driver| unsafe { driver.send(stream, to, bytes) })
    }

    unsafe fn launch(
        &self,
        stream: Stream,
        kernel: &str,
        grid: (u32, u32),
        threads: u32,
        shared_bytes: u32,
        arguments: &mut [*mut c_void],
    ) -> Result<(), DriverError> {
        // SAFETY: the caller's.
        self.ask(|driver| unsafe { driver.launch(stream, kernel, grid, threads, shared_bytes, arguments) })
    }

    fn mark(&self, stream: Stream, index: usize) -> Result<(), DriverError> {
        self.ask(|driver| driver.mark(stream, index))
    }

    fn wait(&self, stream: Stream, index: usize) -> Result<(), DriverError> {
        self.ask(|driver| driver.wait(stream, index))
    }

    fn between(&self, stream: Stream, from: usize, to: usize) -> Result<Duration, DriverError> {
        self.ask(|driver| driver.between(stream, from, to))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Dropping a driver frees all its memory, even while kernels use it. A leaked reference
        // prevents that.
        if self.loss.why().is_some() {
            std::mem::forget(self.driver.clone());
        }
    }
}
