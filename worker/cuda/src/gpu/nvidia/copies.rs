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

use super::{
    Address, Download, DriverError, Upload, lost,
    packing::{Chunk, pack},
    wait_for, warn_of,
};

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

    /// Copies bytes to the GPU, and returns when all have arrived. The caller has set the context.
    ///
    /// # Safety
    /// Each copy has as many bytes of memory at its address, and no kernel in flight uses them.
    pub(super) unsafe fn upload(&self, copies: &[Upload<'_>]) -> Result<(), DriverError> {
        let lane = self.lane();
        let buffers = pack(copies.iter().map(|copy| copy.bytes.len()), HALF_BYTES);
        for (chunks, half) in buffers.into_iter().zip(lane.halves.iter().cycle()) {
            half.begin()?;
            for Chunk { copy, bytes, at } in chunks {
                let (to, bytes) = (copies[copy].to + bytes.start as Address, &copies[copy].bytes[bytes]);
                // SAFETY: the chunks of a half fit into it, and no copy reads it any more. The
                // caller guarantees the rest.
                unsafe {
                    let memory = half.memory.add(at);
                    memory.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
                    let staged = std::slice::from_raw_parts(memory.as_ptr(), bytes.len());
                    result::memcpy_htod_async(to, staged, lane.stream).map_err(lost)?;
                }
            }
            half.mark(lane.stream)?;
        }
        lane.halves.iter().try_for_each(Half::wait)
    }

    /// Copies bytes in pinned memory to the GPU, directly from there.
    ///
    /// # Safety
    /// As for [`Self::upload`].
    pub(super) unsafe fn upload_pinned(&self, copy: &Upload<'_>) -> Result<(), DriverError> {
        let lane = self.lane();
        // The event of this half signals the end of the copy.
        let half = &lane.halves[0];
        half.begin()?;
        // SAFETY: the caller guarantees the destination. The bytes stay at least until this
        // function returns. After a failure they stay longer, because a lost GPU frees no pinned
        // memory.
        unsafe { result::memcpy_htod_async(copy.to, copy.bytes, lane.stream) }.map_err(lost)?;
        half.mark(lane.stream)?;
        half.wait()
    }

    /// Copies bytes from the GPU. The caller has set the context.
    ///
    /// # Safety
    /// Each copy has as many bytes of memory at its address, and no kernel in flight writes them.
    pub(super) unsafe fn download(&self, copies: &mut [Download<'_>]) -> Result<(), DriverError> {
        let lane = self.lane();
        let mut before: Option<(&Half, Vec<Chunk>)> = None;
        let buffers = pack(copies.iter().map(|copy| copy.bytes.len()), HALF_BYTES);
        for (chunks, half) in buffers.into_iter().zip(lane.halves.iter().cycle()) {
            half.begin()?;
            for Chunk { copy, bytes, at } in &chunks {
                let from = copies[*copy].from + bytes.start as Address;
                // SAFETY: the chunks of a half fit into it, and its earlier bytes have been taken.
                // The caller guarantees the rest.
                unsafe {
                    let staged = std::slice::from_raw_parts_mut(half.memory.add(*at).as_ptr(), bytes.len());
                    result::memcpy_dtoh_async(staged, from, lane.stream).map_err(lost)?;
                }
            }
            half.mark(lane.stream)?;
            // While this half is copied, the previous one is emptied.
            if let Some((half, chunks)) = before.replace((half, chunks)) {
                half.take(chunks, copies)?;
            }
        }
        before.map_or(Ok(()), |(half, chunks)| half.take(chunks, copies))
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
    /// Waits for the last copy, and notes that another one begins.
    fn begin(&self) -> Result<(), DriverError> {
        self.wait()?;
        self.is_unmarked.set(true);
        Ok(())
    }

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

    /// Takes the chunks that were copied into this half.
    fn take(&self, chunks: Vec<Chunk>, copies: &mut [Download<'_>]) -> Result<(), DriverError> {
        self.wait()?;
        for Chunk { copy, bytes, at } in chunks {
            let bytes = &mut copies[copy].bytes[bytes];
            let length = bytes.len();
            // SAFETY: the chunks of a half fit into it, and the copies that filled it have ended.
            unsafe { NonNull::from(bytes).cast::<u8>().copy_from_nonoverlapping(self.memory.add(at), length) };
        }
        Ok(())
    }
}
