//! Buffers that start on a cache line, so that no vector load straddles two.

use std::ops::{Deref, DerefMut};

/// Bytes of a cache line.
const LINE: usize = 64;

/// A fixed number of elements, the first of them at the beginning of a cache line.
///
/// Comes from a zeroed allocation of the system: pages of a large key are touched first by the threads that
/// fill them.
pub struct Aligned<E> {
    elements: Vec<E>,
    start: usize,
    len: usize,
}

impl<E: Copy + Default> Aligned<E> {
    /// `len` default elements.
    pub fn new(len: usize) -> Self {
        let elements = vec![E::default(); len + LINE / size_of::<E>()];
        // An allocator may place elements where none begins a line: then alignment is only slower.
        let start = Some(elements.as_ptr().align_offset(LINE)).filter(|start| *start < LINE).unwrap_or(0);
        Self { elements, start, len }
    }
}

impl<E> Deref for Aligned<E> {
    type Target = [E];

    fn deref(&self) -> &[E] {
        &self.elements[self.start..][..self.len]
    }
}

impl<E> DerefMut for Aligned<E> {
    fn deref_mut(&mut self) -> &mut [E] {
        &mut self.elements[self.start..][..self.len]
    }
}
