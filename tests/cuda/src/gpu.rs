//! An emulated GPU and its memory, for tests of kernels.

use std::sync::Arc;

use bytemuck::Pod;
use cloakwork_cuda::gpu::{Buffer, Driver, Launcher, Stream, View};
use cloakwork_math::{
    Torus,
    random::{MaskSeed, MaskStream},
};

use crate::emulator::{Emulated, download};

/// An emulated GPU with plenty of memory.
pub struct Gpu {
    driver: Arc<dyn Driver>,
}

impl Default for Gpu {
    fn default() -> Self {
        Self { driver: Arc::new(Emulated::new(1 << 30)) }
    }
}

impl Gpu {
    /// Launches on the GPU.
    pub fn launcher(&self) -> Launcher<'_> {
        Launcher { driver: self.driver.as_ref(), stream: Stream::Waves }
    }

    /// A buffer that holds these items.
    pub fn buffer<T: Pod>(&self, items: &[T]) -> Buffer {
        Buffer::of(&self.driver, items).expect("memory")
    }

    /// A buffer of `bytes` bytes without contents.
    pub fn room(&self, bytes: usize) -> Buffer {
        Buffer::new(&self.driver, bytes).expect("memory")
    }
}

/// All items of a buffer.
pub fn read<T: Pod + Default>(buffer: &Buffer) -> Vec<T> {
    let view: View<'_, T> = buffer.all().expect("a view");
    let mut items = vec![T::default(); view.len()];
    download(view, &mut items);
    items
}

/// Pseudorandom words that are equal in every run.
pub fn words<T: Torus>(count: usize, number: u128) -> Vec<T> {
    let mut words = vec![T::default(); count];
    MaskStream::new(&MaskSeed { key: number, block: 0, byte: 0 }).fill(T::BITS, &mut words);
    words
}
