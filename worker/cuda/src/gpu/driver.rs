//! What a GPU's driver does for us. Tests put an emulator in its place.

use std::{ffi::c_void, ptr::NonNull, time::Duration};

use cloakwork_device::DeviceError;

/// Where something lies in the GPU's memory.
pub type Address = u64;

/// What a GPU is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// For people.
    pub name: String,
    /// Where it is on the machine's bus, as NVIDIA's tools write it: '00000000:3B:00.0'. Slices of one GPU have one place.
    pub place: String,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Bytes that a block may share, at most.
    pub shared_bytes: u32,
    /// Do blocks of a launch reach each other's shared memory, in clusters?
    pub has_clusters: bool,
}

/// Kernels of a stream run in the order that they were launched; streams do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Waves, launched by one thread.
    Waves,
    /// Keys that are made ready while waves run.
    Keys,
}

/// What a GPU has been given and has not ended in so long, a part of a wave or a copy, never ends.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Points in time that a stream can remember.
pub const MARKS: usize = 8;

/// Why a GPU did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// There is none that can be used.
    #[error("no GPU: {0}")]
    Unavailable(String),
    /// Less memory than asked for.
    #[error("out of memory: {needed} bytes needed, {available} available")]
    OutOfMemory {
        /// Bytes asked for.
        needed: u64,
        /// Bytes that are free.
        available: u64,
    },
    /// It failed, and will not work again in this process.
    #[error("{0}")]
    Lost(String),
    /// A launch of ours with arguments that do not belong together. Nothing was launched.
    #[error("a launch that does not add up: {0}")]
    Misfit(&'static str),
}

impl From<DriverError> for DeviceError {
    fn from(error: DriverError) -> Self {
        match error {
            DriverError::OutOfMemory { needed, available } => Self::OutOfMemory { needed, available },
            DriverError::Misfit(what) => Self::Misfit { what },
            DriverError::Lost(_) | DriverError::Unavailable(_) => Self::Lost { message: error.to_string() },
        }
    }
}

/// One GPU. Any thread may call it.
pub trait Driver: Send + Sync {
    /// What it is.
    fn describe(&self) -> &Description;

    /// Memory of the GPU, not cleared.
    fn allocate(&self, bytes: usize) -> Result<Address, DriverError>;

    /// Gives memory back.
    ///
    /// # Safety
    /// `address` came from [`Self::allocate`], and neither the host nor a kernel uses what is there any more.
    unsafe fn free(&self, address: Address) -> Result<(), DriverError>;

    /// Addresses for so many bytes, with no memory behind them. Kernels of the other GPUs that were found with this one may
    /// use them as well.
    fn reserve(&self, bytes: usize) -> Result<Address, DriverError>;

    /// Puts memory behind the first bytes of a reservation, at least up to `bytes`, and says up to where there is memory
    /// now. `backed` is what was said the last time, or 0.
    ///
    /// # Safety
    /// `address` and `reserved` are a reservation, and `backed` is what there is; no two threads do this at a time.
    unsafe fn back(&self, address: Address, reserved: usize, backed: usize, bytes: usize)
    -> Result<usize, DriverError>;

    /// Gives a reservation back, and the memory behind it.
    ///
    /// # Safety
    /// As for [`Self::back`], and neither the host nor a kernel uses what is there any more.
    unsafe fn release(&self, address: Address, reserved: usize, backed: usize) -> Result<(), DriverError>;

    /// Copies bytes to the GPU, and returns when they are there. From memory of [`Self::pin`], the GPU takes them by itself.
    ///
    /// # Safety
    /// There is as much memory at `to`, and no kernel that is under way uses it.
    unsafe fn upload(&self, to: Address, bytes: &[u8]) -> Result<(), DriverError>;

    /// Copies bytes from the GPU.
    ///
    /// # Safety
    /// There is as much memory at `from`, and no kernel that is under way writes it.
    unsafe fn download(&self, from: Address, bytes: &mut [u8]) -> Result<(), DriverError>;

    /// Memory of the host, not cleared, that this GPU and those found with it read by themselves.
    fn pin(&self, bytes: usize) -> Result<NonNull<u8>, DriverError>;

    /// Gives such memory back.
    ///
    /// # Safety
    /// `memory` came from [`Self::pin`], and neither the host nor a copy uses it any more.
    unsafe fn unpin(&self, memory: NonNull<u8>) -> Result<(), DriverError>;

    /// Has a stream copy bytes to the GPU, behind what was launched on it before. It may still copy when this returns.
    ///
    /// # Safety
    /// There is as much memory at `to`, and only kernels of this stream use it until the copy has ended; so long, the bytes,
    /// which lie in memory from [`Self::pin`], stay as they are.
    unsafe fn send(&self, stream: Stream, to: Address, bytes: &[u8]) -> Result<(), DriverError>;

    /// Launches a kernel by its name. It may still run when this returns.
    ///
    /// # Safety
    /// Each argument points to a value of the type that the kernel takes in that place, and what the kernel then does stays
    /// within memory that is there until it has ended.
    unsafe fn launch(
        &self,
        stream: Stream,
        kernel: &str,
        grid: (u32, u32),
        threads: u32,
        shared_bytes: u32,
        arguments: &mut [*mut c_void],
    ) -> Result<(), DriverError>;

    /// Has a stream remember, as mark `index` below [`MARKS`], when it has ended what was launched so far.
    fn mark(&self, stream: Stream, index: usize) -> Result<(), DriverError>;

    /// Waits for a mark. One that is not reached within [`PATIENCE`] never is: the GPU is lost.
    fn wait(&self, stream: Stream, index: usize) -> Result<(), DriverError>;

    /// Time from one mark to another; both have been reached.
    fn between(&self, stream: Stream, from: usize, to: usize) -> Result<Duration, DriverError>;
}
