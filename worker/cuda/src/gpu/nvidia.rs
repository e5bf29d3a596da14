//! GPUs through NVIDIA's driver. The driver is loaded at the first use, so that the binary also
//! runs where no driver is installed.

mod copies;
mod packing;

use std::{
    collections::HashMap,
    ffi::{CString, c_void},
    ptr::NonNull,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use cudarc::driver::{
    result::{self, ctx, device, event, function, module, primary_ctx, stream},
    sys,
};

use self::copies::Copies;
use super::{Address, Description, Download, Driver, DriverError, GPU_MARK_TIMEOUT, MARKS, Stream, Upload};
use crate::locked::locked;

// `pub(super) const KERNELS: Option<&[u8]>`, written by build.rs.
include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// Whether this binary contains the kernels.
pub fn kernels_are_built_in() -> bool {
    KERNELS.is_some()
}

/// Finds the GPUs of this machine that can use each other's memory, in the driver's order. The
/// result is the first GPU, and those that share memory with it. Other GPUs are logged and left
/// out.
pub fn find() -> Result<Vec<Arc<dyn Driver>>, DriverError> {
    let unavailable = |problem: String| DriverError::Unavailable(problem);
    let kernels = KERNELS.ok_or_else(|| {
        unavailable("this binary was built without kernels (docs/gpu.md says how to build it with them)".to_owned())
    })?;
    // SAFETY: the call loads the library and runs only its initialisers.
    if !unsafe { sys::is_culib_present() } {
        return Err(unavailable("no driver (libcuda.so.1) is installed".to_owned()));
    }
    result::init().map_err(|error| unavailable(format!("the driver does not start: {error}")))?;
    let count = device::get_count().map_err(lost)?;
    if count == 0 {
        return Err(unavailable("the driver finds none".to_owned()));
    }
    let mut ordinals = vec![0];
    for ordinal in 1..count {
        match reach_each_other(0, ordinal)? {
            true => ordinals.push(ordinal),
            false => tracing::warn!(
                gpu = ordinal,
                "this GPU and GPU 0 cannot access each other's memory, so it is left out; start a separate \
                 worker for it with CUDA_VISIBLE_DEVICES={ordinal}"
            ),
        }
    }
    ordinals.iter().map(|&own| Ok(Arc::new(Nvidia::open(own, &ordinals, kernels)?) as Arc<dyn Driver>)).collect()
}

/// Whether kernels of each of two GPUs can use memory of the other.
fn reach_each_other(one: i32, other: i32) -> Result<bool, DriverError> {
    let reaches = |from: i32, to: i32| {
        let (from, to) = (device::get(from).map_err(lost)?, device::get(to).map_err(lost)?);
        let mut can = 0;
        // SAFETY: the pointer is to a local.
        unsafe { sys::cuDeviceCanAccessPeer(&mut can, from, to) }.result().map_err(lost)?;
        Ok(can != 0)
    };
    Ok(reaches(one, other)? && reaches(other, one)?)
}

/// A GPU with its context, the kernels, and streams.
struct Nvidia {
    device: sys::CUdevice,
    /// This GPU, and those that use its reservations.
    peers: Vec<sys::CUdevice>,
    context: sys::CUcontext,
    module: sys::CUmodule,
    /// Kernels found so far, each with the bytes of dynamic shared memory that it is allowed.
    functions: Mutex<HashMap<String, (Handle<sys::CUfunction>, u32)>>,
    waves: Line,
    keys: Line,
    copies: Copies,
    /// Memory is mapped behind reservations in multiples of this size.
    granularity: usize,
    /// Memory behind each reservation, by the reservation's address.
    backings: Mutex<HashMap<Address, Vec<(sys::CUmemGenericAllocationHandle, usize)>>>,
    description: Description,
}

/// A stream, and the events that serve as its marks.
struct Line {
    stream: sys::CUstream,
    marks: [sys::CUevent; MARKS],
}

/// A handle of the driver, which any thread may use.
#[derive(Clone, Copy)]
struct Handle<T>(T);

// SAFETY: a handle names an object that the driver synchronizes. Every call first sets the context
// on its thread.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above; only the driver changes anything through a shared handle.
unsafe impl Send for Nvidia {}
// SAFETY: as above.
unsafe impl Sync for Nvidia {}

impl Nvidia {
    fn open(ordinal: i32, peers: &[i32], kernels: &[u8]) -> Result<Self, DriverError> {
        let device = device::get(ordinal).map_err(lost)?;
        let peers = peers.iter().map(|peer| device::get(*peer).map_err(lost)).collect::<Result<_, _>>()?;
        let name = device::get_name(device).map_err(lost)?;
        let place = place(device)?;
        let multiprocessors =
            attribute(device, sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?.max(1) as u32;
        // SAFETY: `device` is one of the driver's.
        let (memory_bytes, context) =
            unsafe { (device::total_mem(device).map_err(lost)? as u64, primary_ctx::retain(device).map_err(lost)?) };
        // SAFETY: the context is the one that was just retained.
        unsafe { ctx::set_current(context) }.map_err(lost)?;
        // SAFETY: the image is a whole fat binary from nvcc, whose header gives its length.
        let module = unsafe { module::load_data(kernels.as_ptr().cast()) }.map_err(|error| {
            DriverError::Unavailable(format!("{name} or its driver cannot load these kernels: {error}"))
        })?;
        let (last, first) = stream::get_priority_range().map_err(lost)?;
        let line = |priority: i32| {
            let mut marks = [std::ptr::null_mut(); MARKS];
            for mark in &mut marks {
                *mark = event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).map_err(lost)?;
            }
            let stream = stream::create_with_priority(stream::StreamKind::NonBlocking, priority).map_err(lost)?;
            Ok(Line { stream, marks })
        };
        let shared = attribute(device, sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        let clusters = attribute(device, sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH)?;
        let (shared_bytes, has_clusters) = (shared.max(0) as u32, clusters != 0);
        let description = Description { name, place, memory_bytes, multiprocessors, shared_bytes, has_clusters };
        let mut gpu = Self {
            device,
            peers,
            context,
            module,
            functions: Mutex::default(),
            // Waves have the higher priority: the remaining blocks of a key wait while a wave has
            // any.
            waves: line(first)?,
            keys: line(last)?,
            copies: Copies::new()?,
            granularity: 0,
            backings: Mutex::default(),
            description,
        };
        let properties = gpu.properties();
        let flags = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        // SAFETY: both pointers are to locals.
        unsafe { sys::cuMemGetAllocationGranularity(&mut gpu.granularity, &properties, flags) }
            .result()
            .map_err(lost)?;
        Ok(gpu)
    }

    /// Makes this GPU's context current on the calling thread.
    fn enter(&self) -> Result<(), DriverError> {
        // SAFETY: the context lives as long as `self`.
        unsafe { ctx::set_current(self.context) }.map_err(lost)
    }

    fn line(&self, stream: Stream) -> &Line {
        match stream {
            Stream::Waves => &self.waves,
            Stream::Keys => &self.keys,
        }
    }

    fn function(&self, kernel: &str, shared_bytes: u32) -> Result<sys::CUfunction, DriverError> {
        // Up to this size, a kernel needs no attribute for its dynamic shared memory.
        const SHARED_BYTES_FREE: u32 = 48 << 10;
        let mut functions = locked(&self.functions);
        let (function, most) = match functions.get(kernel) {
            Some((Handle(function), most)) => (*function, *most),
            None => {
                let name = CString::new(kernel).map_err(|_| DriverError::Misfit("a kernel's name"))?;
                // SAFETY: the module stays loaded as long as `self` lives.
                (unsafe { module::get_function(self.module, name) }.map_err(lost)?, SHARED_BYTES_FREE)
            }
        };
        if shared_bytes > most {
            let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: `function` is one of the module's.
            unsafe { function::set_function_attribute(function, attribute, shared_bytes as i32) }.map_err(lost)?;
        }
        functions.insert(kernel.to_owned(), (Handle(function), most.max(shared_bytes)));
        Ok(function)
    }

    /// Properties of an allocation in this GPU's memory.
    fn properties(&self) -> sys::CUmemAllocationProp {
        sys::CUmemAllocationProp {
            type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            requestedHandleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: location(self.device),
            win32HandleMetaData: std::ptr::null_mut(),
            allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
                compressionType: 0,
                gpuDirectRDMACapable: 0,
                usage: 0,
                reserved: [0; 4],
            },
        }
    }

    /// Classifies the failure of an allocation.
    fn no_memory(&self, needed: usize, error: result::DriverError) -> DriverError {
        match error.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                let available = result::mem_get_info().map_or(0, |(free, _)| free as u64);
                DriverError::OutOfMemory { needed: needed as u64, available }
            }
            _ => lost(error),
        }
    }

    /// Unmaps and frees the memory behind a reservation.
    ///
    /// # Safety
    /// No kernel or copy uses the memory, and `address` is the reservation's.
    unsafe fn unback(&self, address: Address) -> Result<(), result::DriverError> {
        let backings = locked(&self.backings).remove(&address);
        let mut at = address;
        for (handle, bytes) in backings.unwrap_or_default() {
            // SAFETY: these addresses are those to which this handle was mapped, and no kernel or
            // copy uses them.
            unsafe { sys::cuMemUnmap(at, bytes).result().and(sys::cuMemRelease(handle).result()) }?;
            at += bytes as Address;
        }
        Ok(())
    }
}

impl Driver for Nvidia {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn allocate(&self, bytes: usize) -> Result<Address, DriverError> {
        self.enter()?;
        // SAFETY: the context is set, and the size is at least a byte.
        unsafe { result::malloc_sync(bytes.max(1)) }.map_err(|error| self.no_memory(bytes, error))
    }

    unsafe fn free(&self, address: Address) -> Result<(), DriverError> {
        self.enter()?;
        // SAFETY: the caller's.
        unsafe { result::free_sync(address) }.map_err(lost)
    }

    fn reserve(&self, bytes: usize) -> Result<Address, DriverError> {
        self.enter()?;
        let (mut address, bytes) = (0, bytes.next_multiple_of(self.granularity));
        // SAFETY: the pointer is to a local.
        let reserved = unsafe { sys::cuMemAddressReserve(&mut address, bytes, 0, 0, 0) }.result();
        reserved.map_err(|error| self.no_memory(bytes, error)).map(|()| address)
    }

    unsafe fn back(
        &self,
        address: Address,
        reserved: usize,
        backed: usize,
        bytes: usize,
    ) -> Result<usize, DriverError> {
        /// Size of a mapping. Every mapping takes calls that stop the GPU for a moment.
        const MAPPING_BYTES: usize = 32 << 20;
        self.enter()?;
        let end = reserved.next_multiple_of(self.granularity);
        let more =
            (bytes - backed).next_multiple_of(MAPPING_BYTES.next_multiple_of(self.granularity)).min(end - backed);
        let (mut handle, at) = (0, address + backed as Address);
        let flags = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        let access: Vec<_> =
            self.peers.iter().map(|peer| sys::CUmemAccessDesc { location: location(*peer), flags }).collect();
        // SAFETY: pointers are to locals; the addresses from `backed` on are reserved and have no
        // memory behind them.
        unsafe {
            sys::cuMemCreate(&mut handle, more, &self.properties(), 0)
                .result()
                .map_err(|error| self.no_memory(more, error))?;
            let mapped = sys::cuMemMap(at, more, 0, handle, 0).result().and_then(|()| {
                let reached = sys::cuMemSetAccess(at, more, access.as_ptr(), access.len()).result();
                // If the memory stayed mapped, nothing else could be mapped at these addresses.
                reached.inspect_err(|_| warn_of("addresses", sys::cuMemUnmap(at, more).result()))
            });
            if let Err(error) = mapped {
                warn_of("memory", sys::cuMemRelease(handle).result());
                return Err(self.no_memory(more, error));
            }
        }
        let mut backings = locked(&self.backings);
        backings.entry(address).or_default().push((handle, more));
        // Never more than the reservation, although the last mapping may end beyond it.
        Ok((backed + more).min(reserved))
    }

    unsafe fn release(&self, address: Address, reserved: usize, _backed: usize) -> Result<(), DriverError> {
        self.enter()?;
        let bytes = reserved.next_multiple_of(self.granularity);
        // SAFETY: the caller guarantees that nothing uses the reservation any more.
        unsafe { self.unback(address).and_then(|()| sys::cuMemAddressFree(address, bytes).result()) }.map_err(lost)
    }

    unsafe fn upload(&self, copies: &[Upload<'_>]) -> Result<(), DriverError> {
        self.enter()?;
        // SAFETY: the caller's.
        unsafe {
            match copies {
                [copy] if is_pinned(copy.bytes) => self.copies.upload_pinned(copy),
                _ => self.copies.upload(copies),
            }
        }
    }

    unsafe fn download(&self, copies: &mut [Download<'_>]) -> Result<(), DriverError> {
        self.enter()?;
        // SAFETY: the caller's.
        unsafe { self.copies.download(copies) }
    }

    fn pin(&self, bytes: usize) -> Result<NonNull<u8>, DriverError> {
        self.enter()?;
        // The flag lets the other GPUs copy from this memory as well.
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE;
        // SAFETY: the context is set.
        let memory = unsafe { result::malloc_host(bytes, flags) };
        // The system may refuse to pin more memory for various reasons, so every failure counts as
        // a lack of memory. A lost GPU also fails the next call.
        let none = DriverError::OutOfMemory { needed: bytes as u64, available: 0 };
        memory.ok().and_then(|memory| NonNull::new(memory.cast())).ok_or(none)
    }

    unsafe fn unpin(&self, memory: NonNull<u8>) -> Result<(), DriverError> {
        self.enter()?;
        // SAFETY: the caller's.
        unsafe { result::free_host(memory.as_ptr().cast()) }.map_err(lost)
    }

    unsafe fn send(&self, stream: Stream, to: Address, bytes: &[u8]) -> Result<(), DriverError> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.enter()?;
        // SAFETY: the caller's.
        unsafe { result::memcpy_htod_async(to, bytes, self.line(stream).stream) }.map_err(lost)
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
        self.enter()?;
        let function = self.function(kernel, shared_bytes)?;
        let (grid, block) = ((grid.0, grid.1, 1), (threads, 1, 1));
        // SAFETY: the caller's.
        unsafe { result::launch_kernel(function, grid, block, shared_bytes, self.line(stream).stream, arguments) }
            .map_err(lost)
    }

    fn mark(&self, stream: Stream, index: usize) -> Result<(), DriverError> {
        self.enter()?;
        let line = self.line(stream);
        // SAFETY: the event and the stream live as long as `self`.
        unsafe { event::record(line.marks[index], line.stream) }.map_err(lost)
    }

    fn wait(&self, stream: Stream, index: usize) -> Result<(), DriverError> {
        self.enter()?;
        wait_for(self.line(stream).marks[index])
    }

    fn between(&self, stream: Stream, from: usize, to: usize) -> Result<Duration, DriverError> {
        self.enter()?;
        let marks = &self.line(stream).marks;
        // SAFETY: the events live as long as `self`.
        let milliseconds = unsafe { event::elapsed(marks[from], marks[to]) }.map_err(lost)?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }
}

impl Drop for Nvidia {
    fn drop(&mut self) {
        if self.enter().is_err() {
            return;
        }
        // SAFETY: nothing uses any of these any more; streams are destroyed when they have ended
        // their work.
        unsafe {
            for line in [&self.waves, &self.keys] {
                line.marks.iter().for_each(|mark| warn_of("an event", event::destroy(*mark)));
                warn_of("a stream", stream::destroy(line.stream));
            }
            self.copies.end();
            warn_of("the kernels", module::unload(self.module));
            warn_of("the context", primary_ctx::release(self.device));
        }
    }
}

/// Waits until a stream has passed an event. The caller has set the context.
fn wait_for(event: sys::CUevent) -> Result<(), DriverError> {
    /// Time for which the thread only yields between queries. A wave of one bootstrap takes less,
    /// and its result must not be delayed by a sleep.
    const YIELD_TIME: Duration = Duration::from_millis(2);
    const POLL_INTERVAL: Duration = Duration::from_micros(100);
    let began = Instant::now();
    loop {
        // SAFETY: the caller holds the event.
        match unsafe { event::query(event) } {
            Ok(()) => return Ok(()),
            Err(result::DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => {}
            Err(error) => return Err(lost(error)),
        }
        let waited = began.elapsed();
        if waited >= GPU_MARK_TIMEOUT {
            return Err(DriverError::Lost(format!("its work did not end within {GPU_MARK_TIMEOUT:?}")));
        }
        if waited < YIELD_TIME { std::thread::yield_now() } else { std::thread::sleep(POLL_INTERVAL) }
    }
}

/// Whether bytes lie in pinned memory, from which GPUs copy directly. The driver knows no other
/// host memory.
fn is_pinned(bytes: &[u8]) -> bool {
    let mut kind = 0u32;
    let (memory_type, at) = (sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, bytes.as_ptr() as Address);
    // SAFETY: the attribute is a number of 32 bits, and the driver looks `at` up without accessing
    // it.
    let known = unsafe { sys::cuPointerGetAttribute((&raw mut kind).cast(), memory_type, at) }.result();
    known.is_ok() && kind == sys::CUmemorytype::CU_MEMORYTYPE_HOST as u32
}

fn attribute(device: sys::CUdevice, attribute: sys::CUdevice_attribute) -> Result<i32, DriverError> {
    // SAFETY: `device` is one of the driver's.
    unsafe { device::get_attribute(device, attribute) }.map_err(lost)
}

fn place(device: sys::CUdevice) -> Result<String, DriverError> {
    let domain = attribute(device, sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?;
    let bus = attribute(device, sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?;
    let slot = attribute(device, sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?;
    Ok(format!("{domain:08X}:{bus:02X}:{slot:02X}.0"))
}

fn location(device: sys::CUdevice) -> sys::CUmemLocation {
    sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: device }
}

fn lost(error: result::DriverError) -> DriverError {
    let text = error.error_string().map(|text| text.to_string_lossy().into_owned());
    DriverError::Lost(text.unwrap_or_else(|_| format!("error {:?} of the driver", error.0)))
}

fn warn_of(what: &str, ended: Result<(), result::DriverError>) {
    if let Err(error) = ended {
        tracing::warn!(error = %lost(error), "cannot free {what} of a GPU");
    }
}
