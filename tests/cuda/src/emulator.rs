//! The emulator as a driver. Errors that it finds are reported as GPU faults are.

// Unsafe code calls the kernels, which are C++, and manages host memory as GPU memory.
#![allow(unsafe_code)]

mod copies;

use std::{
    alloc::{Layout, alloc, dealloc},
    collections::HashMap,
    ffi::{CString, c_char, c_int, c_void},
    ptr::NonNull,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use cloakwork_cuda::{
    gpu::{Address, Description, Download, Driver, DriverError, MARKS, Stream, Upload},
    sensors::{Reading, Sensors},
};

pub use copies::{download, upload};

/// An emulated GPU.
pub struct Emulated {
    description: Description,
    memory: Mutex<Memory>,
    /// Copies that no kernel of their stream has needed yet.
    sent: Mutex<Vec<Sent>>,
    marks: Mutex<[[Option<Instant>; MARKS]; 2]>,
    launches: AtomicU64,
    launches_left: AtomicI64,
    hangs: AtomicBool,
    /// Whether launches wait until they are released.
    holds_launches: AtomicBool,
    fault: Mutex<Option<(&'static str, DriverError)>>,
}

#[derive(Default)]
struct Memory {
    used: u64,
    /// Bytes that other processes use.
    others: u64,
    /// Number of requests that exceeded the free memory.
    refusals: u64,
    /// Number of reserved address ranges: one for each arena.
    reservations: usize,
    allocations: HashMap<Address, Layout>,
    /// Pinned memory of the host.
    pinned: HashMap<Address, Layout>,
}

/// A pending copy of a stream. The emulator makes it as late as a GPU might, so that tests notice
/// source bytes that change too early.
struct Sent {
    stream: Stream,
    from: Address,
    to: Address,
    bytes: usize,
}

/// Value of bytes to which nothing has been written.
const POISON: u8 = 0xa5;
/// Alignment of allocations, as on a GPU.
const ALIGNMENT: usize = 256;

impl Emulated {
    /// An emulated GPU with `memory_bytes` bytes, and with an H100's shared memory and clusters.
    pub fn new(memory_bytes: u64) -> Self {
        let (shared_bytes, has_clusters) = (227 << 10, true);
        let (name, place) = ("emulated GPU".to_owned(), "00000000:00:00.0".to_owned());
        Self::described(Description { name, place, memory_bytes, multiprocessors: 4, shared_bytes, has_clusters })
    }

    /// An emulated GPU with the given description.
    pub fn described(description: Description) -> Self {
        Self {
            description,
            memory: Mutex::default(),
            sent: Mutex::default(),
            marks: Mutex::default(),
            launches: AtomicU64::new(0),
            launches_left: AtomicI64::new(i64::MAX),
            hangs: AtomicBool::new(false),
            holds_launches: AtomicBool::new(false),
            fault: Mutex::default(),
        }
    }

    /// Lets every launch fail after `launches` successful ones.
    pub fn fail_after(&self, launches: i64) {
        self.launches_left.store(launches, Ordering::SeqCst);
    }

    /// Number of launches so far.
    pub fn launches(&self) -> u64 {
        self.launches.load(Ordering::SeqCst)
    }

    /// Lets the next call of the driver's method `call` fail without any effect.
    pub fn fail(&self, call: &'static str, error: DriverError) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some((call, error));
    }

    /// Number of pending copies.
    pub fn pending(&self) -> usize {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Lets every wait from now on fail as for a hung GPU.
    pub fn hang(&self) {
        self.hangs.store(true, Ordering::SeqCst);
    }

    /// Holds launches back, or releases them.
    pub fn hold_launches(&self, hold: bool) {
        self.holds_launches.store(hold, Ordering::SeqCst);
    }

    /// Leaves `bytes` bytes free. The rest counts as used by other processes.
    pub fn leave(&self, bytes: u64) {
        let mut memory = self.memory();
        memory.others = self.description.memory_bytes - memory.used - bytes;
    }

    /// Number of requests that exceeded the free memory.
    pub fn refusals(&self) -> u64 {
        self.memory().refusals
    }

    /// Number of reserved address ranges. Only the slots of a computation take a range.
    pub fn reservations(&self) -> usize {
        self.memory().reservations
    }

    /// Bytes of pinned host memory.
    pub fn pinned(&self) -> usize {
        self.memory().pinned.values().map(Layout::size).sum()
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.memory().used
    }

    /// Fails if the test has set a fault for this call.
    fn may(&self, call: &'static str) -> Result<(), DriverError> {
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        fault.take_if(|(failing, _)| *failing == call).map_or(Ok(()), |(_, error)| Err(error))
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the pending copies of a stream.
    fn copy(&self, stream: Stream) {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        for copy in sent.extract_if(.., |copy| copy.stream == stream) {
            // SAFETY: the sender keeps source and destination until the stream has passed the copy.
            unsafe { std::ptr::copy_nonoverlapping(copy.from as *const u8, copy.to as *mut u8, copy.bytes) };
        }
    }

    /// Allocates memory that does not count as used before it is backed.
    fn take(&self, bytes: usize) -> Result<Address, DriverError> {
        let layout = Layout::from_size_align(bytes.max(1), ALIGNMENT)
            .map_err(|_| DriverError::OutOfMemory { needed: bytes as u64, available: 0 })?;
        // SAFETY: the layout has a size.
        let pointer = unsafe { alloc(layout) };
        if pointer.is_null() {
            return Err(DriverError::OutOfMemory { needed: bytes as u64, available: 0 });
        }
        self.memory().allocations.insert(pointer as Address, layout);
        Ok(pointer as Address)
    }

    fn give_back(&self, address: Address) {
        let layout = self.memory().allocations.remove(&address).expect("memory that was allocated");
        // SAFETY: the memory was allocated with this layout, which was just removed from the map.
        unsafe { dealloc(address as *mut u8, layout) };
    }

    /// Counts bytes as used, if enough are free.
    fn count(&self, bytes: usize) -> Result<(), DriverError> {
        let mut memory = self.memory();
        let available = self.description.memory_bytes - memory.used - memory.others;
        let needed = bytes as u64;
        if needed > available {
            memory.refusals += 1;
            return Err(DriverError::OutOfMemory { needed, available });
        }
        memory.used += needed;
        Ok(())
    }
}

unsafe extern "C" {
    fn emulate(
        kernel: *const c_char,
        grid_x: u32,
        grid_y: u32,
        threads: u32,
        shared_bytes: u32,
        arguments: *mut *mut c_void,
    ) -> c_int;
}

impl Driver for Emulated {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn allocate(&self, bytes: usize) -> Result<Address, DriverError> {
        self.may("allocate")?;
        self.count(bytes)?;
        let address = self.take(bytes)?;
        // SAFETY: as many bytes were allocated there.
        unsafe { std::ptr::write_bytes(address as *mut u8, POISON, bytes) };
        Ok(address)
    }

    unsafe fn free(&self, address: Address) -> Result<(), DriverError> {
        self.may("free")?;
        let bytes = self.memory().allocations.get(&address).map_or(0, Layout::size);
        self.give_back(address);
        self.memory().used -= bytes as u64;
        Ok(())
    }

    fn reserve(&self, bytes: usize) -> Result<Address, DriverError> {
        self.may("reserve")?;
        let address = self.take(bytes)?;
        self.memory().reservations += 1;
        Ok(address)
    }

    unsafe fn back(
        &self,
        address: Address,
        reserved: usize,
        backed: usize,
        bytes: usize,
    ) -> Result<usize, DriverError> {
        const BACKING_BYTES: usize = 64 << 10;
        self.may("back")?;
        let grown = bytes.next_multiple_of(BACKING_BYTES).min(reserved);
        self.count(grown - backed)?;
        // SAFETY: the caller guarantees that as many bytes are reserved there. Nothing uses bytes
        // that were not backed.
        unsafe { std::ptr::write_bytes((address as *mut u8).add(backed), POISON, grown - backed) };
        Ok(grown)
    }

    unsafe fn release(&self, address: Address, _reserved: usize, backed: usize) -> Result<(), DriverError> {
        self.may("release")?;
        self.give_back(address);
        let mut memory = self.memory();
        memory.used -= backed as u64;
        memory.reservations -= 1;
        drop(memory);
        Ok(())
    }

    unsafe fn upload(&self, copies: &[Upload<'_>]) -> Result<(), DriverError> {
        self.may("upload")?;
        for Upload { to, bytes } in copies {
            // SAFETY: the caller's.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), *to as *mut u8, bytes.len()) };
        }
        Ok(())
    }

    unsafe fn download(&self, copies: &mut [Download<'_>]) -> Result<(), DriverError> {
        self.may("download")?;
        for Download { from, bytes } in copies {
            // SAFETY: the caller's.
            unsafe { std::ptr::copy_nonoverlapping(*from as *const u8, bytes.as_mut_ptr(), bytes.len()) };
        }
        Ok(())
    }

    fn pin(&self, bytes: usize) -> Result<NonNull<u8>, DriverError> {
        self.may("pin")?;
        let layout = Layout::from_size_align(bytes, ALIGNMENT).expect("a size");
        // SAFETY: no caller pins 0 bytes, so the layout has a size.
        let memory = NonNull::new(unsafe { alloc(layout) }).expect("memory of the host");
        self.memory().pinned.insert(memory.as_ptr() as Address, layout);
        Ok(memory)
    }

    unsafe fn unpin(&self, memory: NonNull<u8>) -> Result<(), DriverError> {
        self.may("unpin")?;
        let layout = self.memory().pinned.remove(&(memory.as_ptr() as Address)).expect("memory that was pinned");
        // SAFETY: the memory was allocated with this layout, which was just removed from the map.
        unsafe { dealloc(memory.as_ptr(), layout) };
        Ok(())
    }

    unsafe fn send(&self, stream: Stream, to: Address, bytes: &[u8]) -> Result<(), DriverError> {
        self.may("send")?;
        let (from, length) = (bytes.as_ptr() as Address, bytes.len());
        let is_in = |(begin, layout): (&Address, &Layout)| {
            *begin <= from && from + length as Address <= begin + layout.size() as Address
        };
        if !self.memory().pinned.iter().any(is_in) {
            return Err(DriverError::Lost("a copy from memory that is not pinned".to_owned()));
        }
        let copy = Sent { stream, from, to, bytes: length };
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).push(copy);
        Ok(())
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
        self.may("launch")?;
        while self.holds_launches.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.launches_left.fetch_sub(1, Ordering::SeqCst) <= 0 {
            return Err(DriverError::Lost("it fell off the bus".to_owned()));
        }
        self.launches.fetch_add(1, Ordering::SeqCst);
        if shared_bytes > self.description.shared_bytes {
            return Err(DriverError::Lost(format!("{kernel}: {shared_bytes} bytes are more than a block may share")));
        }
        self.copy(stream);
        let name = CString::new(kernel).map_err(|_| DriverError::Misfit("a kernel's name"))?;
        // SAFETY: the caller's.
        let outcome = unsafe { emulate(name.as_ptr(), grid.0, grid.1, threads, shared_bytes, arguments.as_mut_ptr()) };
        match outcome {
            0 => Ok(()),
            1 => Err(DriverError::Lost(format!("{kernel}: threads wait at a barrier that others never come to"))),
            2 => Err(DriverError::Lost(format!("there is no kernel {kernel}"))),
            4 => {
                Err(DriverError::Lost(format!("{kernel}: arrivals that no count was prepared for, or expected twice")))
            }
            _ => Err(DriverError::Lost(format!("{kernel}: {} blocks are not whole clusters", grid.0))),
        }
    }

    fn mark(&self, stream: Stream, index: usize) -> Result<(), DriverError> {
        self.may("mark")?;
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)[stream as usize][index] = Some(Instant::now());
        Ok(())
    }

    fn wait(&self, stream: Stream, _index: usize) -> Result<(), DriverError> {
        self.may("wait")?;
        if self.hangs.load(Ordering::SeqCst) {
            return Err(DriverError::Lost("it did not end what it was given".to_owned()));
        }
        self.copy(stream);
        Ok(())
    }

    fn between(&self, stream: Stream, from: usize, to: usize) -> Result<Duration, DriverError> {
        self.may("between")?;
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner)[stream as usize];
        Ok(marks[to].expect("a mark") - marks[from].expect("a mark"))
    }
}

/// Sensors of the emulated GPU, which draws a joule for each launch.
impl Sensors for Emulated {
    fn read(&self, _gpu: &Description) -> Reading {
        Reading { memory_used: Some(self.used()), energy: Some(self.launches() as f64), ..Reading::default() }
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        // Memory that is still in the maps was never freed.
        let mut memory = self.memory();
        let Memory { allocations, pinned, .. } = &mut *memory;
        let left: Vec<_> = allocations.drain().chain(pinned.drain()).collect();
        drop(memory);
        for (address, layout) in left {
            // SAFETY: the memory was allocated with this layout.
            unsafe { dealloc(address as *mut u8, layout) };
        }
    }
}

/// Launches a block of 128 threads of which the first `comers` reach a barrier.
pub fn barrier(gpu: &Emulated, mut comers: u32) -> Result<(), DriverError> {
    let mut arguments = [std::ptr::from_mut(&mut comers).cast()];
    // SAFETY: the kernel takes a number and touches no memory.
    unsafe { gpu.launch(Stream::Waves, "test_barrier", (1, 1), 128, 0, &mut arguments) }
}

/// Contents of `count` words of shared memory before any write, in the second of two blocks.
pub fn fresh_shared_memory(gpu: &Emulated, count: usize) -> Result<Vec<u64>, DriverError> {
    let mut words = vec![0u64; count];
    let (mut pointer, mut number) = (words.as_mut_ptr(), count as u32);
    let mut arguments = [std::ptr::from_mut(&mut pointer).cast(), std::ptr::from_mut(&mut number).cast()];
    let shared_bytes = (count * size_of::<u64>()) as u32;
    // SAFETY: the kernel writes `count` words to the address in the pointer.
    unsafe { gpu.launch(Stream::Waves, "test_shared", (2, 1), 32, shared_bytes, &mut arguments) }?;
    Ok(words)
}

/// A warp's sums of products, 16 by 8: 16 rows of 32 signed bytes times 32 rows of 8 unsigned
/// bytes, added to `sums`.
pub fn products(gpu: &Emulated, digits: &[i8; 512], key: &[u8; 256], sums: &mut [i32; 128]) -> Result<(), DriverError> {
    let (mut digits, mut key, mut sums) = (digits.as_ptr(), key.as_ptr(), sums.as_mut_ptr());
    let mut arguments = [
        std::ptr::from_mut(&mut digits).cast(),
        std::ptr::from_mut(&mut key).cast(),
        std::ptr::from_mut(&mut sums).cast(),
    ];
    // SAFETY: the kernel reads and writes as many bytes and numbers as the arrays have.
    unsafe { gpu.launch(Stream::Waves, "test_products", (1, 1), 32, 0, &mut arguments) }
}

/// Numbers that blocks in clusters of four receive from the previous block of their cluster. The
/// first `comers` blocks of each cluster reach a barrier, and the first `givers` blocks then store
/// their number. `fault` numbers a fault of emulator/launches.cpp; 0 is none.
pub fn given_in_clusters(
    gpu: &Emulated,
    blocks: usize,
    mut comers: u32,
    mut givers: u32,
    mut fault: u32,
) -> Result<Vec<f64>, DriverError> {
    let mut numbers = vec![0.0; blocks];
    let mut pointer = numbers.as_mut_ptr();
    let mut arguments = [
        std::ptr::from_mut(&mut pointer).cast(),
        std::ptr::from_mut(&mut comers).cast(),
        std::ptr::from_mut(&mut givers).cast(),
        std::ptr::from_mut(&mut fault).cast(),
    ];
    // SAFETY: the kernel writes a number for each block to the address in the pointer, and shares
    // 32 bytes.
    unsafe { gpu.launch(Stream::Waves, "test_cluster", (blocks as u32, 1), 64, 32, &mut arguments) }?;
    Ok(numbers)
}

/// A number that a thread copies through shared memory. The thread reads it after waiting for the
/// copy, or without waiting.
pub fn copied(gpu: &Emulated, number: f64, waits: bool) -> Result<f64, DriverError> {
    let mut numbers = [[number; 2], [0.0; 2]];
    let (mut pointer, mut waits) = (numbers.as_mut_ptr(), u32::from(waits));
    let mut arguments = [std::ptr::from_mut(&mut pointer).cast(), std::ptr::from_mut(&mut waits).cast()];
    // SAFETY: the kernel's only thread reads the first pair and writes the second, and shares 16
    // bytes.
    unsafe { gpu.launch(Stream::Waves, "test_copy", (1, 1), 1, 16, &mut arguments) }?;
    Ok(numbers[1][0])
}
