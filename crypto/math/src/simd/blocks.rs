//! Several runs of one slice at a fixed distance, which one step of a transform reads or writes at
//! once.
//!
//! The bounds of all blocks are checked at construction. The inner loop of a kernel then needs only
//! one comparison for all blocks.

use std::marker::PhantomData;

/// `COUNT` runs of `run` elements. The first run starts with the slice, and each further run starts
/// `stride` elements after the previous start.
pub(crate) struct Blocks<'a, E, const COUNT: usize> {
    start: *const E,
    stride: usize,
    run: usize,
    slice: PhantomData<&'a [E]>,
}

impl<'a, E, const COUNT: usize> Blocks<'a, E, COUNT> {
    #[inline(always)]
    pub(crate) fn new(slice: &'a [E], stride: usize, run: usize) -> Self {
        check::<COUNT>(slice.len(), stride, run);
        Self { start: slice.as_ptr(), stride, run, slice: PhantomData }
    }

    /// Element `at` of a block.
    #[inline(always)]
    pub(crate) fn get(&self, block: usize, at: usize) -> &'a E {
        assert!(block < COUNT && at < self.run);
        // SAFETY: the element lies within the block, and `check` ensured that all blocks lie within
        // the slice.
        unsafe { &*self.start.add(block * self.stride + at) }
    }
}

/// Like [`Blocks`], for writing.
pub(crate) struct BlocksMut<'a, E, const COUNT: usize> {
    start: *mut E,
    stride: usize,
    run: usize,
    slice: PhantomData<&'a mut [E]>,
}

impl<'a, E, const COUNT: usize> BlocksMut<'a, E, COUNT> {
    #[inline(always)]
    pub(crate) fn new(slice: &'a mut [E], stride: usize, run: usize) -> Self {
        check::<COUNT>(slice.len(), stride, run);
        Self { start: slice.as_mut_ptr(), stride, run, slice: PhantomData }
    }

    /// Element `at` of a block.
    #[inline(always)]
    pub(crate) fn get(&mut self, block: usize, at: usize) -> &mut E {
        assert!(block < COUNT && at < self.run);
        // SAFETY: the element lies within the block, and `check` ensured that all blocks lie within
        // the slice. No other reference can reach the slice while `self` is borrowed.
        unsafe { &mut *self.start.add(block * self.stride + at) }
    }
}

/// Checks that all blocks lie within `len` elements.
#[inline(always)]
fn check<const COUNT: usize>(len: usize, stride: usize, run: usize) {
    let last = stride.checked_mul(COUNT - 1).and_then(|start| start.checked_add(run));
    assert!(last.is_some_and(|end| end <= len), "{COUNT} blocks of {run}, {stride} apart, in {len} elements");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_addressed_by_block_and_index() {
        let mut elements: Vec<usize> = (0..20).collect();
        let blocks = Blocks::<_, 3>::new(&elements[1..], 6, 5);
        assert_eq!([(0, 0), (0, 4), (2, 0), (2, 4)].map(|(block, at)| *blocks.get(block, at)), [1, 5, 13, 17]);
        let mut blocks = BlocksMut::<_, 2>::new(&mut elements, 10, 10);
        *blocks.get(1, 9) = 0;
        assert_eq!(elements[18..], [18, 0]);
    }

    #[test]
    #[should_panic = "assertion failed"]
    fn an_index_beyond_the_block_panics() {
        Blocks::<_, 2>::new(&[0; 20], 10, 5).get(0, 5);
    }

    #[test]
    #[should_panic = "3 blocks of 7, 7 apart, in 20 elements"]
    fn blocks_must_fit_the_slice() {
        Blocks::<_, 3>::new(&[0; 20], 7, 7);
    }

    #[test]
    #[should_panic = "apart"]
    fn a_distance_beyond_the_address_space_does_not_fit() {
        BlocksMut::<_, 3>::new(&mut [0; 20], usize::MAX, 7);
    }
}
