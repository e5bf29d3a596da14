//! GPU memory that is freed when its buffer is dropped, and typed views of it.

use std::{
    marker::PhantomData,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytemuck::Pod;

use super::{Address, Download, Driver, DriverError, Upload};
use crate::locked::locked;

/// Memory of a GPU. The code that launches a kernel on a buffer keeps the buffer until the kernel
/// has ended.
pub struct Buffer {
    driver: Arc<dyn Driver>,
    address: Address,
    bytes: usize,
    /// Bytes that are backed by memory: all bytes, unless the buffer is a reservation.
    backed: AtomicUsize,
    /// For a reservation: the lock that is held while memory is mapped behind it.
    growing: Option<Mutex<()>>,
}

/// A run of items in a buffer.
pub struct View<'b, T> {
    buffer: &'b Buffer,
    first_byte: usize,
    len: usize,
    items: PhantomData<T>,
}

// Not derived: the derive would require T to be Clone and Copy.
impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for View<'_, T> {}

impl Buffer {
    /// Allocates `bytes` bytes, not cleared.
    pub fn new(driver: &Arc<dyn Driver>, bytes: usize) -> Result<Self, DriverError> {
        let address = driver.allocate(bytes)?;
        Ok(Self { driver: driver.clone(), address, bytes, backed: AtomicUsize::new(bytes), growing: None })
    }

    /// Reserves addresses for `bytes` bytes, which take no memory before [`Self::back`].
    pub fn reserve(driver: &Arc<dyn Driver>, bytes: usize) -> Result<Self, DriverError> {
        let address = driver.reserve(bytes)?;
        let (backed, growing) = (AtomicUsize::new(0), Some(Mutex::new(())));
        Ok(Self { driver: driver.clone(), address, bytes, backed, growing })
    }

    /// Allocates a buffer that holds copies of these items.
    pub fn of<T: Pod>(driver: &Arc<dyn Driver>, items: &[T]) -> Result<Self, DriverError> {
        let buffer = Self::new(driver, size_of_val(items))?;
        // SAFETY: only this function has the buffer yet, so no kernel uses it.
        unsafe { buffer.view(0, items.len())?.upload(items) }?;
        Ok(buffer)
    }

    /// Maps memory behind the first `bytes` bytes of a reservation.
    pub fn back(&self, bytes: usize) -> Result<(), DriverError> {
        let Some(growing) = &self.growing else { return Ok(()) };
        if bytes > self.bytes {
            return Err(DriverError::Misfit("more memory than was reserved"));
        }
        let _growing = locked(growing);
        let backed = self.backed.load(Ordering::Acquire);
        if bytes > backed {
            // SAFETY: the reservation is this buffer's, `backed` is the last result of `back`, and
            // the lock is held.
            let grown = unsafe { self.driver.back(self.address, self.bytes, backed, bytes) }?;
            self.backed.store(grown, Ordering::Release);
        }
        Ok(())
    }

    /// Makes copies into this buffer, and returns when all bytes have arrived.
    ///
    /// # Safety
    /// The copies are of views of this buffer ([`View::upload_of`]), and no kernel in flight reads
    /// or writes these bytes. Kernels do not check the indices that they read. A list that changes
    /// under a kernel lets the kernel write anywhere in the GPU's memory.
    pub(super) unsafe fn upload(&self, copies: &[Upload<'_>]) -> Result<(), DriverError> {
        // SAFETY: the views lie within the buffer. The caller guarantees the rest.
        unsafe { self.driver.upload(copies) }
    }

    /// Makes copies from this buffer, and returns when all bytes have arrived.
    ///
    /// # Safety
    /// The copies are of views of this buffer ([`View::download_of`]), and no kernel in flight
    /// writes these bytes. Otherwise the items are neither those before the kernel nor those after
    /// it.
    pub(super) unsafe fn download(&self, copies: &mut [Download<'_>]) -> Result<(), DriverError> {
        // SAFETY: the views lie within the buffer. The caller guarantees the rest.
        unsafe { self.driver.download(copies) }
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Address of the first byte.
    pub(super) fn address(&self) -> Address {
        self.address
    }

    /// A view of `len` items from `first_byte` on, which must be aligned for them.
    pub fn view<T: Pod>(&self, first_byte: usize, len: usize) -> Result<View<'_, T>, DriverError> {
        let end = len.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(first_byte));
        if end.is_none_or(|end| end > self.backed.load(Ordering::Acquire)) {
            return Err(DriverError::Misfit("a view beyond its buffer"));
        }
        if !(self.address as usize + first_byte).is_multiple_of(alignment::<T>()) {
            return Err(DriverError::Misfit("a view that is not aligned"));
        }
        Ok(View { buffer: self, first_byte, len, items: PhantomData })
    }

    /// A view of as many items as the backed bytes hold.
    pub fn all<T: Pod>(&self) -> Result<View<'_, T>, DriverError> {
        self.view(0, self.backed.load(Ordering::Acquire) / size_of::<T>())
    }
}

/// Alignment of items. Kernels access items of sixteen bytes, complex numbers and lines, with one
/// instruction each.
const fn alignment<T>() -> usize {
    const WIDEST: usize = 16;
    if size_of::<T>() == WIDEST { WIDEST } else { align_of::<T>() }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let backed = *self.backed.get_mut();
        // SAFETY: the memory is this buffer's, and no other reference to the buffer remains.
        let ended = unsafe {
            match self.growing {
                None => self.driver.free(self.address),
                Some(_) => self.driver.release(self.address, self.bytes, backed),
            }
        };
        // A failure to free means that the GPU is lost, which the device has noted.
        let _ = ended;
    }
}

impl<'b, T: Pod> View<'b, T> {
    /// Number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the view has no items.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address of the first item.
    pub(super) fn address(&self) -> Address {
        self.buffer.address + self.first_byte as Address
    }

    /// `len` items from item `first` on.
    pub fn part(&self, first: usize, len: usize) -> Result<View<'b, T>, DriverError> {
        match first.checked_add(len) {
            Some(end) if end <= self.len => {
                Ok(View { first_byte: self.first_byte + first * size_of::<T>(), len, ..*self })
            }
            _ => Err(DriverError::Misfit("a part beyond its view")),
        }
    }

    /// The bytes of this view as items of another type.
    pub fn cast<U: Pod>(&self) -> Result<View<'b, U>, DriverError> {
        let bytes = self.len * size_of::<T>();
        if !bytes.is_multiple_of(size_of::<U>()) {
            return Err(DriverError::Misfit("items that do not fill their view"));
        }
        self.buffer.view(self.first_byte, bytes / size_of::<U>())
    }

    /// The copy of items to the beginning of the view.
    pub(super) fn upload_of<'h>(&self, items: &'h [T]) -> Result<Upload<'h>, DriverError> {
        let view = self.part(0, items.len())?;
        Ok(Upload { to: view.address(), bytes: bytemuck::cast_slice(items) })
    }

    /// The copy of items from the beginning of the view.
    pub(super) fn download_of<'h>(&self, items: &'h mut [T]) -> Result<Download<'h>, DriverError> {
        let view = self.part(0, items.len())?;
        Ok(Download { from: view.address(), bytes: bytemuck::cast_slice_mut(items) })
    }

    /// Copies items to the beginning of the view.
    ///
    /// # Safety
    /// No kernel in flight reads or writes these bytes. Kernels do not check the indices that they
    /// read. A list that changes under a kernel lets the kernel write anywhere in the GPU's memory.
    pub unsafe fn upload(&self, items: &[T]) -> Result<(), DriverError> {
        let copy = self.upload_of(items)?;
        // SAFETY: the copy is of this view. The caller guarantees that no kernel uses the bytes.
        unsafe { self.buffer.upload(&[copy]) }
    }

    /// Copies items from the beginning of the view.
    ///
    /// # Safety
    /// No kernel in flight writes these bytes. Otherwise the items are neither those before the
    /// kernel nor those after it.
    pub unsafe fn download(&self, items: &mut [T]) -> Result<(), DriverError> {
        let copy = self.download_of(items)?;
        // SAFETY: the copy is of this view. The caller guarantees that no kernel writes the bytes.
        unsafe { self.buffer.download(&mut [copy]) }
    }
}
