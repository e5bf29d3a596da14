//! The functions of a GPU driver that this crate uses. Tests substitute an emulator.

use std::{ffi::c_void, ptr::NonNull, time::Duration};

use cloakwork_device::DeviceError;

/// An address in a GPU's memory.
pub type Address = u64;

/// Properties of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Name for people.
    pub name: String,
    /// Address on the machine's bus, as NVIDIA's tools write it: '00000000:3B:00.0'. Slices of one
    /// GPU share one address.
    pub place: String,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Maximum bytes of shared memory of a block.
    pub shared_bytes: u32,
    /// Whether blocks of a launch can access each other's shared memory, in clusters.
    pub has_clusters: bool,
}

/// A copy to a GPU.
#[derive(Debug)]
pub struct Upload<'h> {
    /// Address of the first byte in the GPU's memory.
    pub to: Address,
    /// The bytes.
    pub bytes: &'h [u8],
}

/// A copy from a GPU.
#[derive(Debug)]
pub struct Download<'h> {
    /// Address of the first byte in the GPU's memory.
    pub from: Address,
    /// Where the bytes go.
    pub bytes: &'h mut [u8],
}

/// A stream of launches. Kernels of one stream run in launch order; streams do not wait for each
/// other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Waves, launched by one thread.
    Waves,
    /// Keys that are made ready while waves run.
    Keys,
}

/// Time limit for a part of a wave or for a copy. Work that takes longer counts as never ending,
/// and the GPU as lost.
pub const GPU_MARK_TIMEOUT: Duration = Duration::from_secs(60);

/// Number of events, called marks, that a stream has.
pub const MARKS: usize = 8;

/// Reason why a GPU did not do what was requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// No usable GPU exists.
    #[error("no GPU: {0}")]
    Unavailable(String),
    /// Less memory is free than was requested.
    #[error("out of memory: {needed} bytes needed, {available} available")]
    OutOfMemory {
        /// Bytes asked for.
        needed: u64,
        /// Bytes that are free.
        available: u64,
    },
    /// The GPU failed, and does not work again in this process.
    #[error("{0}")]
    Lost(String),
    /// Arguments of a launch by this crate do not fit together. Nothing was launched.
    #[error("launch arguments do not fit together: {0}")]
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

/// One GPU. Any thread may call its driver.
pub trait Driver: Send + Sync {
    /// Properties of the GPU.
    fn describe(&self) -> &Description;

    /// Allocates memory of the GPU, not cleared.
    fn allocate(&self, bytes: usize) -> Result<Address, DriverError>;

    /// Frees memory.
    ///
    /// # Safety
    /// `address` came from [`Self::allocate`], and neither the host nor a kernel uses the memory
    /// any more.
    unsafe fn free(&self, address: Address) -> Result<(), DriverError>;

    /// Reserves addresses for `bytes` bytes, without memory. Kernels of the other GPUs that were
    /// found with this one may use these addresses as well.
    fn reserve(&self, bytes: usize) -> Result<Address, DriverError>;

    /// Maps memory behind the first bytes of a reservation, at least up to `bytes`. Returns the
    /// number of bytes that are now backed. `backed` is the previous result, or 0.
    ///
    /// # Safety
    /// `address` and `reserved` describe a reservation, and `backed` is its backed size. No two
    /// threads make this call for a reservation at the same time.
    unsafe fn back(&self, address: Address, reserved: usize, backed: usize, bytes: usize)
    -> Result<usize, DriverError>;

    /// Frees a reservation and the memory behind it.
    ///
    /// # Safety
    /// As for [`Self::back`]. In addition, neither the host nor a kernel uses the memory any more.
    unsafe fn release(&self, address: Address, reserved: usize, backed: usize) -> Result<(), DriverError>;

    /// Copies bytes to the GPU, and returns when all have arrived. The GPU reads a single copy from
    /// memory of [`Self::pin`] directly.
    ///
    /// # Safety
    /// Each copy has as many bytes of memory at its address, and no kernel in flight uses them.
    unsafe fn upload(&self, copies: &[Upload<'_>]) -> Result<(), DriverError>;

    /// Copies bytes from the GPU, and returns when all have arrived.
    ///
    /// # Safety
    /// Each copy has as many bytes of memory at its address, and no kernel in flight writes them.
    unsafe fn download(&self, copies: &mut [Download<'_>]) -> Result<(), DriverError>;

    /// Allocates pinned memory of the host, not cleared. This GPU and those found with it read it
    /// directly.
    fn pin(&self, bytes: usize) -> Result<NonNull<u8>, DriverError>;

    /// Frees pinned memory.
    ///
    /// # Safety
    /// `memory` came from [`Self::pin`], and neither the host nor a copy uses the memory any more.
    unsafe fn unpin(&self, memory: NonNull<u8>) -> Result<(), DriverError>;

    /// Enqueues a copy of bytes to the GPU on a stream, behind earlier launches. The copy may still
    /// run when this call returns.
    ///
    /// # Safety
    /// As many bytes of memory are at `to`, and only kernels of this stream use them until the copy
    /// has ended. Until then, the source bytes, which lie in memory from [`Self::pin`], do not
    /// change.
    unsafe fn send(&self, stream: Stream, to: Address, bytes: &[u8]) -> Result<(), DriverError>;

    /// Launches a kernel by its name. The kernel may still run when this call returns.
    ///
    /// # Safety
    /// Each argument points to a value of the type that the kernel takes in that place. The kernel
    /// then only accesses memory that stays allocated until the kernel has ended.
    unsafe fn launch(
        &self,
        stream: Stream,
        kernel: &str,
        grid: (u32, u32),
        threads: u32,
        shared_bytes: u32,
        arguments: &mut [*mut c_void],
    ) -> Result<(), DriverError>;

    /// Records an event behind everything launched on a stream so far, as mark `index` below
    /// [`MARKS`].
    fn mark(&self, stream: Stream, index: usize) -> Result<(), DriverError>;

    /// Waits for a mark. If the mark is not reached within [`GPU_MARK_TIMEOUT`], the GPU is lost.
    fn wait(&self, stream: Stream, index: usize) -> Result<(), DriverError>;

    /// Time from one mark to another. Both must have been reached.
    fn between(&self, stream: Stream, from: usize, to: usize) -> Result<Duration, DriverError>;
}
