//! Buffers that start on a cache line, so that no vector load straddles two, and that live in huge pages
//! where they are large: a key that is streamed through would otherwise wait for address translation.

use std::ops::{Deref, DerefMut};

use bytemuck::Pod;

use crate::cache::LINE;

/// Bytes from which huge pages are asked for, for a key and the like.
const HUGE: usize = 4 << 20;
/// The same for working memory: a transform's steps touch places far apart, each on a page of its own.
const HUGE_WORK: usize = 128 << 10;
/// Bytes of a huge page. What is shorter than [`HUGE`] has whole ones. Of what is longer, the end has ordinary pages: a part of a key
/// is a few huge pages, and half of one more would be a twentieth of a worker's memory.
const HUGE_PAGE: usize = 2 << 20;
/// Lines that the beginnings of two large buffers are apart within their pages, by the page: the same place of many buffers
/// is not the same place of a cache, where there is room for a few of them only.
const APART: usize = 9;
/// Different beginnings.
const BEGINNINGS: usize = 61;
/// Bytes up to the last of them.
const ROOM: usize = BEGINNINGS * APART * LINE;

/// A fixed number of elements, the first of them at the beginning of a cache line.
///
/// Zeroed pages come from the system when they are first touched, by the threads that fill them.
pub struct Aligned<E> {
    memory: Memory<E>,
    len: usize,
}

enum Memory<E> {
    /// Elements, and which of them is the first.
    Small(Vec<E>, usize),
    Large(memmap2::MmapMut, usize),
}

impl<E: Pod> Aligned<E> {
    /// `len` zeroed elements.
    pub fn new(len: usize) -> Self {
        Self::huge_from(HUGE, len)
    }

    /// `len` zeroed elements that a thread keeps working on: worth a huge page, even if most of it stays empty.
    pub fn for_work(len: usize) -> Self {
        Self::huge_from(HUGE_WORK, len)
    }

    fn huge_from(least: usize, len: usize) -> Self {
        const { assert!(size_of::<E>() > 0 && LINE.is_multiple_of(size_of::<E>()), "a line holds whole elements") };
        let bytes = len.checked_mul(size_of::<E>()).expect("a length that an address can have");
        // Where the system gives no mapping, an ordinary allocation does, or ends the process as any does.
        let mapped = if bytes < HUGE { bytes.checked_next_multiple_of(HUGE_PAGE) } else { bytes.checked_add(ROOM) };
        let large = mapped.filter(|_| bytes >= least).and_then(|mapped| memmap2::MmapMut::map_anon(mapped).ok());
        let memory = large.map_or_else(|| Self::small(len), |map| Self::large(advised(map), bytes));
        Self { memory, len }
    }

    fn large(map: memmap2::MmapMut, bytes: usize) -> Memory<E> {
        let beginning = map.as_ptr().addr() / HUGE_PAGE % BEGINNINGS * APART * LINE;
        let start = if beginning <= map.len() - bytes { beginning / size_of::<E>() } else { 0 };
        Memory::Large(map, start)
    }

    fn small(len: usize) -> Memory<E> {
        let elements = vec![E::zeroed(); len + LINE / size_of::<E>()];
        // An allocator may place elements where none begins a line: then alignment is only slower.
        let start = Some(elements.as_ptr().align_offset(LINE)).filter(|start| *start < LINE).unwrap_or(0);
        Memory::Small(elements, start)
    }
}

/// Asks for huge pages. A system that has none is slower, not wrong.
fn advised(map: memmap2::MmapMut) -> memmap2::MmapMut {
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    map
}

impl<E: Pod> Deref for Aligned<E> {
    type Target = [E];

    fn deref(&self) -> &[E] {
        match &self.memory {
            Memory::Small(elements, start) => &elements[*start..][..self.len],
            Memory::Large(map, start) => &bytemuck::cast_slice(map)[*start..][..self.len],
        }
    }
}

impl<E: Pod> DerefMut for Aligned<E> {
    fn deref_mut(&mut self) -> &mut [E] {
        match &mut self.memory {
            Memory::Small(elements, start) => &mut elements[*start..][..self.len],
            Memory::Large(map, start) => &mut bytemuck::cast_slice_mut(map)[*start..][..self.len],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_every_size_start_on_a_line_and_are_zero() {
        let work = HUGE_WORK / 8;
        for len in [0, 1, 7, 100, work - 1, work, work + 1, HUGE / 8 - 1, HUGE / 8, HUGE / 8 + 3] {
            for mut buffer in [Aligned::<u64>::new(len), Aligned::for_work(len)] {
                assert_eq!((buffer.len(), buffer.as_ptr().align_offset(LINE)), (len, 0));
                assert!(buffer.iter().all(|word| *word == 0));
                buffer.iter_mut().for_each(|word| *word = 1);
            }
        }
    }
}
