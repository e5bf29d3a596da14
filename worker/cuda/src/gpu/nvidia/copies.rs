//! Copies that somebody waits for: through pinned memory, one half of which is filled while the other is copied.

use std::{
    cell::Cell,
    ptr::NonNull,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
};

use cudarc::driver::{
    result::{self, event, stream},
    sys,
};

use super::{Address, DriverError, lost, wait_for, warn_of};

/// Places to copy at the same time. A key takes one, since one key at a time is made ready; the others are for ciphertexts.
pub(super) struct Copies([Mutex<Lane>; 3]);

/// A stream, and the memory that it copies to and from.
struct Lane {
    stream: sys::CUstream,
    halves: [Half; 2],
}

struct Half {
    memory: NonNull<u8>,
    /// What was copied last has been copied.
    copied: sys::CUevent,
    /// A copy may be under way that the event is not behind: when it ends is not known.
    is_unmarked: Cell<bool>,
}

/// Bytes of a half.
const HALF_BYTES: usize = 2 << 20;

// SAFETY: the memory is this lane's own, and the driver's handles may be used on any thread.
unsafe impl Send for Lane {}

impl Copies {
    /// In the context that is set.
    pub(super) fn new() -> Result<Self, DriverError> {
        let half = || {
            // SAFETY: the context is set.
            let memory = unsafe { result::malloc_host(HALF_BYTES, 0) }.map_err(lost)?;
            let memory =
                NonNull::new(memory.cast()).ok_or_else(|| DriverError::Lost("no memory to copy through".into()))?;
            let copied = event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(lost)?;
            Ok::<_, DriverError>(Half { memory, copied, is_unmarked: Cell::new(false) })
        };
        let lane = || {
            let stream = stream::create(stream::StreamKind::NonBlocking).map_err(lost)?;
            Ok::<_, DriverError>(Mutex::new(Lane { stream, halves: [half()?, half()?] }))
        };
        Ok(Self([lane()?, lane()?, lane()?]))
    }

    /// Copies bytes to the GPU, and returns when they are there. The context is set.
    ///
    /// # Safety
    /// There is as much memory at `to`, and no kernel that is under way uses it.
    pub(super) unsafe fn upload(&self, to: Address, bytes: &[u8]) -> Result<(), DriverError> {
        let lane = self.lane();
        for (index, chunk) in bytes.chunks(HALF_BYTES).enumerate() {
            let half = &lane.halves[index % 2];
            half.wait()?;
            half.is_unmarked.set(true);
            // SAFETY: a chunk is no longer than a half, which nothing is copied from any more; the rest is the caller's.
            unsafe {
                half.memory.copy_from_nonoverlapping(NonNull::from(chunk).cast(), chunk.len());
                let staged = std::slice::from_raw_parts(half.memory.as_ptr(), chunk.len());
                result::memcpy_htod_async(to + (index * HALF_BYTES) as Address, staged, lane.stream).map_err(lost)?;
            }
            half.mark(lane.stream)?;
        }
        lane.halves.iter().try_for_each(Half::wait)
    }

    /// The same for bytes in pinned memory: straight from there.
    ///
    /// # Safety
    /// As for [`Self::upload`].
    pub(super) unsafe fn upload_pinned(&self, to: Address, bytes: &[u8]) -> Result<(), DriverError> {
        let lane = self.lane();
        // Whose event says when the copy has ended.
        let half = &lane.halves[0];
        half.wait()?;
        half.is_unmarked.set(true);
        // SAFETY: the caller's; the bytes stay at least until this returns, and longer where it has failed: a GPU that is lost
        // gives no pinned memory back.
        unsafe { result::memcpy_htod_async(to, bytes, lane.stream) }.map_err(lost)?;
        half.mark(lane.stream)?;
        half.wait()
    }

    /// Copies bytes from the GPU. The context is set.
    ///
    /// # Safety
    /// There is as much memory at `from`, and no kernel that is under way writes it.
    pub(super) unsafe fn download(&self, from: Address, bytes: &mut [u8]) -> Result<(), DriverError> {
        let lane = self.lane();
        let mut before: Option<(&Half, &mut [u8])> = None;
        for (index, chunk) in bytes.chunks_mut(HALF_BYTES).enumerate() {
            let half = &lane.halves[index % 2];
            half.wait()?;
            half.is_unmarked.set(true);
            // SAFETY: a chunk is no longer than a half, whose bytes have been taken; the rest is the caller's.
            unsafe {
                let staged = std::slice::from_raw_parts_mut(half.memory.as_ptr(), chunk.len());
                result::memcpy_dtoh_async(staged, from + (index * HALF_BYTES) as Address, lane.stream).map_err(lost)?;
            }
            half.mark(lane.stream)?;
            // While this one is copied, the one before is taken.
            if let Some((half, chunk)) = before.replace((half, chunk)) {
                half.take(chunk)?;
            }
        }
        before.map_or(Ok(()), |(half, chunk)| half.take(chunk))
    }

    /// A lane that is free, or whose turn comes.
    fn lane(&self) -> MutexGuard<'_, Lane> {
        let free = self.0.iter().find_map(|lane| match lane.try_lock() {
            Ok(lane) => Some(lane),
            Err(TryLockError::Poisoned(lane)) => Some(lane.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        });
        free.unwrap_or_else(|| self.0[0].lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives everything back. The context is set.
    pub(super) fn end(&mut self) {
        for lane in &mut self.0 {
            let lane = lane.get_mut().unwrap_or_else(PoisonError::into_inner);
            for half in &lane.halves {
                // A GPU that hangs may yet use it: then it stays.
                if half.wait().is_ok() {
                    // SAFETY: nothing is copied to or from it any more, and nobody has it after this.
                    warn_of("memory to copy through", unsafe { result::free_host(half.memory.as_ptr().cast()) });
                }
                // SAFETY: as above.
                warn_of("an event", unsafe { event::destroy(half.copied) });
            }
            // SAFETY: as above.
            warn_of("a stream", unsafe { stream::destroy(lane.stream) });
        }
    }
}

impl Half {
    fn mark(&self, stream: sys::CUstream) -> Result<(), DriverError> {
        // SAFETY: both live as long as the lane.
        unsafe { event::record(self.copied, stream) }.map_err(lost)?;
        self.is_unmarked.set(false);
        Ok(())
    }

    /// Waits for the last copy; an event that was never recorded counts as reached.
    fn wait(&self) -> Result<(), DriverError> {
        if self.is_unmarked.get() {
            return Err(DriverError::Lost("a copy has no end that could be waited for".to_owned()));
        }
        wait_for(self.copied)
    }

    /// Takes what was copied here.
    fn take(&self, bytes: &mut [u8]) -> Result<(), DriverError> {
        self.wait()?;
        // SAFETY: a chunk is no longer than a half, and the copy that filled it has ended.
        unsafe { NonNull::from(&mut *bytes).cast::<u8>().copy_from_nonoverlapping(self.memory, bytes.len()) };
        Ok(())
    }
}
