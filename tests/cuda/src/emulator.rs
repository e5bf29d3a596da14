//! The emulator as a driver. What it finds wrong is an error, as a fault of a GPU is.

// The kernels are C++, and memory is the host's.
#![allow(unsafe_code)]

use std::{
    alloc::{Layout, alloc, dealloc},
    collections::HashMap,
    ffi::{CString, c_char, c_int, c_void},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use cloakwork_cuda::{
    gpu::{Address, Description, Driver, DriverError, MARKS, Stream},
    sensors::{Reading, Sensors},
};

/// A GPU that is none.
pub struct Emulated {
    memory_bytes: u64,
    memory: Mutex<Memory>,
    marks: Mutex<[[Option<Instant>; MARKS]; 2]>,
    launches: AtomicU64,
    launches_left: AtomicI64,
    hangs: AtomicBool,
}

#[derive(Default)]
struct Memory {
    used: u64,
    allocations: HashMap<Address, Layout>,
}

/// What nothing has been written to.
const POISON: u8 = 0xa5;
/// As a GPU's.
const ALIGNMENT: usize = 256;

impl Emulated {
    /// One with so much memory.
    pub fn new(memory_bytes: u64) -> Self {
        Self {
            memory_bytes,
            memory: Mutex::default(),
            marks: Mutex::default(),
            launches: AtomicU64::new(0),
            launches_left: AtomicI64::new(i64::MAX),
            hangs: AtomicBool::new(false),
        }
    }

    /// Has every launch fail, after so many that do not.
    pub fn fail_after(&self, launches: i64) {
        self.launches_left.store(launches, Ordering::SeqCst);
    }

    /// Launches so far.
    pub fn launches(&self) -> u64 {
        self.launches.load(Ordering::SeqCst)
    }

    /// Has nothing end any more that is waited for.
    pub fn hang(&self) {
        self.hangs.store(true, Ordering::SeqCst);
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.memory().used
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory that does not count before it is backed.
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
        // SAFETY: it was allocated with this layout, and has just been taken off the books.
        unsafe { dealloc(address as *mut u8, layout) };
    }

    /// Counts bytes as used, if there are as many.
    fn count(&self, bytes: usize) -> Result<(), DriverError> {
        let mut memory = self.memory();
        let (needed, available) = (bytes as u64, self.memory_bytes - memory.used);
        if needed > available {
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
    fn describe(&self) -> Description {
        Description {
            name: "emulated GPU".to_owned(),
            place: "00000000:00:00.0".to_owned(),
            memory_bytes: self.memory_bytes,
            multiprocessors: 4,
        }
    }

    fn allocate(&self, bytes: usize) -> Result<Address, DriverError> {
        self.count(bytes)?;
        let address = self.take(bytes)?;
        // SAFETY: as many bytes were allocated there.
        unsafe { std::ptr::write_bytes(address as *mut u8, POISON, bytes) };
        Ok(address)
    }

    unsafe fn free(&self, address: Address) {
        let bytes = self.memory().allocations.get(&address).map_or(0, Layout::size);
        self.give_back(address);
        self.memory().used -= bytes as u64;
    }

    fn reserve(&self, bytes: usize) -> Result<Address, DriverError> {
        self.take(bytes)
    }

    unsafe fn back(
        &self,
        address: Address,
        reserved: usize,
        backed: usize,
        bytes: usize,
    ) -> Result<usize, DriverError> {
        const STEP: usize = 64 << 10;
        let grown = bytes.next_multiple_of(STEP).min(reserved);
        self.count(grown - backed)?;
        // SAFETY: the caller's: so many bytes are reserved there, and nobody uses those that were not backed.
        unsafe { std::ptr::write_bytes((address as *mut u8).add(backed), POISON, grown - backed) };
        Ok(grown)
    }

    unsafe fn release(&self, address: Address, _reserved: usize, backed: usize) {
        self.give_back(address);
        self.memory().used -= backed as u64;
    }

    unsafe fn upload(&self, to: Address, bytes: &[u8]) -> Result<(), DriverError> {
        // SAFETY: the caller's.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len()) };
        Ok(())
    }

    unsafe fn download(&self, from: Address, bytes: &mut [u8]) -> Result<(), DriverError> {
        // SAFETY: the caller's.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    unsafe fn launch(
        &self,
        _stream: Stream,
        kernel: &str,
        grid: (u32, u32),
        threads: u32,
        shared_bytes: u32,
        arguments: &mut [*mut c_void],
    ) -> Result<(), DriverError> {
        if self.launches_left.fetch_sub(1, Ordering::SeqCst) <= 0 {
            return Err(DriverError::Lost("it fell off the bus".to_owned()));
        }
        self.launches.fetch_add(1, Ordering::SeqCst);
        let name = CString::new(kernel).map_err(|_| DriverError::Misfit("a kernel's name"))?;
        // SAFETY: the caller's.
        let outcome = unsafe { emulate(name.as_ptr(), grid.0, grid.1, threads, shared_bytes, arguments.as_mut_ptr()) };
        match outcome {
            0 => Ok(()),
            1 => Err(DriverError::Lost(format!("{kernel}: threads wait at a barrier that others never come to"))),
            2 => Err(DriverError::Lost(format!("there is no kernel {kernel}"))),
            _ => Err(DriverError::Lost(format!("{kernel}: {shared_bytes} bytes are more than a block may share"))),
        }
    }

    fn mark(&self, stream: Stream, index: usize) -> Result<(), DriverError> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)[stream as usize][index] = Some(Instant::now());
        Ok(())
    }

    fn wait(&self, _stream: Stream, _index: usize, _deadline: Instant) -> Result<bool, DriverError> {
        Ok(!self.hangs.load(Ordering::SeqCst))
    }

    fn between(&self, stream: Stream, from: usize, to: usize) -> Result<Duration, DriverError> {
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner)[stream as usize];
        Ok(marks[to].expect("a mark") - marks[from].expect("a mark"))
    }
}

/// It draws a joule a launch.
impl Sensors for Emulated {
    fn read(&self, _gpu: &Description) -> Reading {
        Reading { memory_used: Some(self.used()), energy: Some(self.launches() as f64), ..Reading::default() }
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        // Whatever is still there was never given back.
        let left: Vec<_> = self.memory().allocations.drain().collect();
        for (address, layout) in left {
            // SAFETY: it was allocated with this layout.
            unsafe { dealloc(address as *mut u8, layout) };
        }
    }
}

/// A block of 128 threads of which the first `comers` come to a barrier.
pub fn barrier(gpu: &Emulated, mut comers: u32) -> Result<(), DriverError> {
    let mut arguments = [std::ptr::from_mut(&mut comers).cast()];
    // SAFETY: the kernel takes a number and touches no memory.
    unsafe { gpu.launch(Stream::Waves, "test_barrier", (1, 1), 128, 0, &mut arguments) }
}

/// What `count` words of shared memory hold before anything is written to them, in the second of two blocks.
pub fn fresh_shared_memory(gpu: &Emulated, count: usize) -> Result<Vec<u64>, DriverError> {
    let mut words = vec![0u64; count];
    let (mut pointer, mut number) = (words.as_mut_ptr(), count as u32);
    let mut arguments = [std::ptr::from_mut(&mut pointer).cast(), std::ptr::from_mut(&mut number).cast()];
    let shared_bytes = (count * size_of::<u64>()) as u32;
    // SAFETY: the kernel writes `count` words to where the pointer points.
    unsafe { gpu.launch(Stream::Waves, "test_shared", (2, 1), 32, shared_bytes, &mut arguments) }?;
    Ok(words)
}
