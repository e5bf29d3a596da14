//! Copies to and from an emulated GPU at any time. The emulator ends each kernel before its launch
//! returns, so no kernel is ever in flight.

use bytemuck::Pod;
use cloakwork_cuda::gpu::{DriverError, View};

/// Copies items to the beginning of a view.
pub fn upload<'b, T: Pod>(view: View<'b, T>, items: &[T]) -> Result<View<'b, T>, DriverError> {
    // SAFETY: no kernel of an emulated GPU is in flight.
    unsafe { view.upload(items) }.map(|()| view)
}

/// Copies items from the beginning of a view.
pub fn download<T: Pod>(view: View<'_, T>, items: &mut [T]) {
    // SAFETY: no kernel of an emulated GPU is in flight.
    unsafe { view.download(items) }.expect("as many items");
}
