//! An emulated GPU and memory of it, as tests of kernels want them.

use std::sync::Arc;

use bytemuck::Pod;
use cloakwork_cuda::gpu::{Buffer, Driver, Launcher, Stream, View};
use cloakwork_math::{
    Torus,
    random::{MaskSeed, MaskStream},
};

use crate::emulator::{Emulated, download};

/// One with plenty of memory.
pub struct Gpu {
    driver: Arc<dyn Driver>,
}

impl Default for Gpu {
    fn default() -> Self {
        Self { driver: Arc::new(Emulated::new(1 << 30)) }
    }
}

impl Gpu {
    /// Launches on it.
    pub fn launcher(&self) -> Launcher<'_> {
        Launcher { driver: self.driver.as_ref(), stream: Stream::Waves }
    }

    /// Memory with these items.
    pub fn buffer<T: Pod>(&self, items: &[T]) -> Buffer {
        Buffer::of(&self.driver, items).expect("memory")
    }

    /// Memory for so many bytes, with nothing in it yet.
    pub fn room(&self, bytes: usize) -> Buffer {
        Buffer::new(&self.driver, bytes).expect("memory")
    }
}

/// All that a buffer holds.
pub fn read<T: Pod + Default>(buffer: &Buffer) -> Vec<T> {
    let view: View<'_, T> = buffer.all().expect("a view");
    let mut items = vec![T::default(); view.len()];
    download(view, &mut items);
    items
}

/// Words that every run draws alike.
pub fn words<T: Torus>(count: usize, number: u128) -> Vec<T> {
    let mut words = vec![T::default(); count];
    MaskStream::new(&MaskSeed { key: number, block: 0, byte: 0 }).fill(T::BITS, &mut words);
    words
}
