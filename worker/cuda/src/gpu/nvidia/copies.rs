//! Copies for which the caller waits. Bytes outside pinned memory go through a pinned buffer, of
//! which one half is filled while the other is copied.

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

/// Lanes for copies at the same time. A key takes one lane, because keys are prepared one at a
/// time. The other lanes are for ciphertexts.
pub(super) struct Copies([Mutex<Lane>; 3]);

/// A stream, and the memory to and from which it copies.
struct Lane {
    stream: sys::CUstream,
    halves: [Half; 2],
}

struct Half {
    memory: NonNull<u8>,
    /// Event behind the last copy.
    copied: sys::CUevent,
    /// Whether a copy may be running that the event is not behind, so that its end is unknown.
    is_unmarked: Cell<bool>,
}

/// Bytes of a half.
const HALF_BYTES: usize = 2 << 20;

// SAFETY: the lane alone owns its memory, and any thread may use the driver's handles.
unsafe impl Send for Lane {}

impl Copies {
    /// Creates the lanes. The caller has set the context.
    pub(super) fn new() -> Result<Self, DriverError> {
        let half = || {
            // SAFETY: the context is set.
            let memory = unsafe { result::malloc_host(HALF_BYTES, 0) }.map_err(lost)?;
            let memory =
                NonNull::new(memory.cast()).ok_or_else(|| DriverError::Lost("no pinned memory for copies".into()))?;
            let copied = event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(lost)?;
            Ok::<_, DriverError>(Half { memory, copied, is_unmarked: Cell::new(false) })
        };
        let lane = || {
            let stream = stream::create(stream::StreamKind::NonBlocking).map_err(lost)?;
            Ok::<_, DriverError>(Mutex::new(Lane { stream, halves: [half()?, half()?] }))
        };
        Ok(Self([lane()?, lane()?, lane()?]))
    }

    /// Copies bytes to the GPU, and returns when they have arrived. The caller has set the context.
    ///
    /// # Safety
    /// As many bytes of memory are at `to`, and no kernel in flight uses them.
    pub(super) unsafe fn upload(&self, to: Address, bytes: &[u8]) -> Result<(), DriverError> {
        let lane = self.lane();
        for (index, chunk) in bytes.chunks(HALF_BYTES).enumerate() {
            let half = &lane.halves[index % 2];
            half.wait()?;
            half.is_unmarked.set(true);
            // SAFETY: a chunk is no longer than a half, from which no copy reads any more. The
            // caller guarantees the rest.
            unsafe {
                half.memory.copy_from_nonoverlapping(NonNull::from(chunk).cast(), chunk.len());
                let staged = std::slice::from_raw_parts(half.memory.as_ptr(), chunk.len());
                result::memcpy_htod_async(to + (index * HALF_BYTES) as Address, staged, lane.stream).map_err(lost)?;
            }
            half.mark(lane.stream)?;
        }
        lane.halves.iter().try_for_each(Half::wait)
    }

    /// Copies bytes in pinned memory to the GPU, directly from there.
    ///
    /// # Safety
    /// As for [`Self::upload`].
    pub(super) unsafe fn upload_pinned(&self, to: Address, bytes: &[u8]) -> Result<(), DriverError> {
        let lane = self.lane();
        // The event of this half signals the end of the copy.
        let half = &lane.halves[0];
        half.wait()?;
        half.is_unmarked.set(true);
        // SAFETY: the caller guarantees the destination. The bytes stay at least until this
        // function returns. After a failure they stay longer, because a lost GPU frees no pinned
        // memory.
        unsafe { result::memcpy_htod_async(to, bytes, lane.stream) }.map_err(lost)?;
        half.mark(lane.stream)?;
        half.wait()
    }

    /// Copies bytes from the GPU. The caller has set the context.
    ///
    /// # Safety
    /// As many bytes of memory are at `from`, and no kernel in flight writes them.
    pub(super) unsafe fn download(&self, from: Address, bytes: &mut [u8]) -> Result<(), DriverError> {
        let lane = self.lane();
        let mut before: Option<(&Half, &mut [u8])> = None;
        for (index, chunk) in bytes.chunks_mut(HALF_BYTES).enumerate() {
            let half = &lane.halves[index % 2];
            half.wait()?;
            half.is_unmarked.set(true);
            // SAFETY: a chunk is no longer than a half, whose bytes have been taken. The caller
            // guarantees the rest.
            unsafe {
                let staged = std::slice::from_raw_parts_mut(half.memory.as_ptr(), chunk.len());
                result::memcpy_dtoh_async(staged, from + (index * HALF_BYTES) as Address, lane.stream).map_err(lost)?;
            }
            half.mark(lane.stream)?;
            // While this half is copied, the previous one is emptied.
            if let Some((half, chunk)) = before.replace((half, chunk)) {
                half.take(chunk)?;
            }
        }
        before.map_or(Ok(()), |(half, chunk)| half.take(chunk))
    }

    /// Locks a free lane, or waits for the first one.
    fn lane(&self) -> MutexGuard<'_, Lane> {
        let free = self.0.iter().find_map(|lane| match lane.try_lock() {
            Ok(lane) => Some(lane),
            Err(TryLockError::Poisoned(lane)) => Some(lane.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        });
        free.unwrap_or_else(|| self.0[0].lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Frees everything. The caller has set the context.
    pub(super) fn end(&mut self) {
        for lane in &mut self.0 {
            let lane = lane.get_mut().unwrap_or_else(PoisonError::into_inner);
            for half in &lane.halves {
                // A hung GPU may still access the memory, which then stays allocated.
                if half.wait().is_ok() {
                    // SAFETY: no copy uses the memory any more, and nothing refers to it after this
                    // call.
                    warn_of("pinned memory", unsafe { result::free_host(half.memory.as_ptr().cast()) });
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
        // SAFETY: the event and the stream live as long as the lane.
        unsafe { event::record(self.copied, stream) }.map_err(lost)?;
        self.is_unmarked.set(false);
        Ok(())
    }

    /// Waits for the last copy. An event that was never recorded counts as reached.
    fn wait(&self) -> Result<(), DriverError> {
        if self.is_unmarked.get() {
            return Err(DriverError::Lost("a copy has no event behind it: its end is unknown".to_owned()));
        }
        wait_for(self.copied)
    }

    /// Takes the bytes that were copied into this half.
    fn take(&self, bytes: &mut [u8]) -> Result<(), DriverError> {
        self.wait()?;
        // SAFETY: a chunk is no longer than a half, and the copy that filled it has ended.
        unsafe { NonNull::from(&mut *bytes).cast::<u8>().copy_from_nonoverlapping(self.memory, bytes.len()) };
        Ok(())
    }
}
