//! Buffers that start on a cache line, so that no vector load straddles two lines. Large buffers
//! live in huge pages: address translation would otherwise slow down the streaming of a key.

use std::ops::{Deref, DerefMut};

use bytemuck::Pod;

use crate::cache::LINE;

/// Buffer size in bytes from which huge pages are requested, for keys and other data read in order.
const HUGE_MIN_BYTES: usize = 4 << 20;
/// Buffer size in bytes from which huge pages are requested for working memory. The steps of a
/// transform touch distant addresses, each on a page of its own.
const HUGE_WORK_MIN_BYTES: usize = 128 << 10;
/// Bytes of a huge page. A buffer shorter than [`HUGE_MIN_BYTES`] is rounded up to whole huge
/// pages. The end of a longer buffer lies in ordinary pages. A part of a key fills only a few huge
/// pages. Half a huge page of waste in each part would be a twentieth of a worker's memory.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Distance in cache lines between the possible starts of large buffers within their pages. The
/// start depends on the address of the page. Equal offsets in many buffers would otherwise map to
/// one cache set, which has room for only a few of them.
const START_STEP_LINES: usize = 9;
/// Number of different starts.
const STARTS: usize = 61;
/// Upper bound of the bytes before a start.
const START_BYTES_MAX: usize = STARTS * START_STEP_LINES * LINE;

/// A fixed number of elements. The first element lies at the start of a cache line.
///
/// The system supplies zeroed pages at the first access, to the threads that fill them.
pub struct Aligned<E> {
    memory: Memory<E>,
    len: usize,
}

enum Memory<E> {
    /// Elements, and the index of the first used element.
    Small(Vec<E>, usize),
    Large(memmap2::MmapMut, usize),
}

impl<E: Pod> Aligned<E> {
    /// Allocates `len` zeroed elements.
    pub fn new(len: usize) -> Self {
        Self::huge_from(HUGE_MIN_BYTES, len)
    }

    /// Allocates `len` zeroed elements of working memory that a thread keeps using. That memory is
    /// worth a huge page, even if most of the page stays empty.
    pub fn for_work(len: usize) -> Self {
        Self::huge_from(HUGE_WORK_MIN_BYTES, len)
    }

    fn huge_from(least: usize, len: usize) -> Self {
        const { assert!(size_of::<E>() > 0 && LINE.is_multiple_of(size_of::<E>()), "a line holds whole elements") };
        let bytes = len.checked_mul(size_of::<E>()).expect("a length that an address can have");
        // If the system refuses the mapping, an ordinary allocation follows, which aborts the
        // process if it fails as well.
        let mapped = if bytes < HUGE_MIN_BYTES {
            bytes.checked_next_multiple_of(HUGE_PAGE_BYTES)
        } else {
            bytes.checked_add(START_BYTES_MAX)
        };
        let large = mapped.filter(|_| bytes >= least).and_then(|mapped| memmap2::MmapMut::map_anon(mapped).ok());
        let memory = large.map_or_else(|| Self::small(len), |map| Self::large(advised(map), bytes));
        Self { memory, len }
    }

    fn large(map: memmap2::MmapMut, bytes: usize) -> Memory<E> {
        let beginning = map.as_ptr().addr() / HUGE_PAGE_BYTES % STARTS * START_STEP_LINES * LINE;
        let start = if beginning <= map.len() - bytes { beginning / size_of::<E>() } else { 0 };
        Memory::Large(map, start)
    }

    fn small(len: usize) -> Memory<E> {
        let elements = vec![E::zeroed(); len + LINE / size_of::<E>()];
        // An allocation may hold no element that starts a cache line. Loads are then slower but
        // correct.
        let start = Some(elements.as_ptr().align_offset(LINE)).filter(|start| *start < LINE).unwrap_or(0);
        Memory::Small(elements, start)
    }
}

/// Requests huge pages. On a system without them, access is slower but correct.
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
        let work = HUGE_WORK_MIN_BYTES / 8;
        for len in
            [0, 1, 7, 100, work - 1, work, work + 1, HUGE_MIN_BYTES / 8 - 1, HUGE_MIN_BYTES / 8, HUGE_MIN_BYTES / 8 + 3]
        {
            for mut buffer in [Aligned::<u64>::new(len), Aligned::for_work(len)] {
                assert_eq!((buffer.len(), buffer.as_ptr().align_offset(LINE)), (len, 0));
                assert!(buffer.iter().all(|word| *word == 0));
                buffer.iter_mut().for_each(|word| *word = 1);
            }
        }
    }
}
