//! The twiddle factors of a transform, which are roots of unity.
//!
//! The steps of a transform form a tree. Node 1 is the whole polynomial, modulo X^N - psi^N. Node n
//! splits into 2n and 2n + 1, modulo X^t - w and X^t + w, where w is the node's root.

use crate::{
    aligned::Aligned,
    cache::LINE,
    modulus::Modulus,
    simd::{prefetch, residues::Arithmetic, whole},
};

/// Distance in squares between the prefetch of roots and their use.
const AHEAD_SQUARES: usize = 4;

/// Words of a block. With its roots, a block takes half of a first-level cache of 32 KiB.
const BLOCK_WORDS: usize = 1 << 10;

/// The roots of every node, in the order of the passes.
pub(super) struct Table {
    pub(super) modulus: Modulus,
    pub(super) size_log2: u32,
    /// Root and fraction of each node with more than a vector of words.
    nodes: Vec<[u64; 2]>,
    /// Roots of the nodes with less than two vectors of words, by square of a vector's lanes, then
    /// by node within the square. Each entry has the roots of all lanes, then the fractions.
    squares: Aligned<u64>,
}

impl Table {
    /// Builds the table of a primitive root of order 2N, for vectors of the arithmetic's lanes.
    pub(super) fn new(modulus: Modulus, size_log2: u32, root: u64, arithmetic: Arithmetic) -> Self {
        let (size, count) = (1_usize << size_log2, arithmetic.count());
        let step = modulus.factor(root);
        let powers: Vec<u64> = std::iter::successors(Some(1), |last| Some(step.times(*last))).take(size).collect();
        let root = |node: usize| arithmetic.constant(modulus.factor(powers[exponent(node, size_log2)]));
        let nodes = (0..size / count).map(|node| root(node.max(1))).collect();
        let mut squares = Aligned::new(size / (count * count) * (count - 1) * 2 * count);
        for (square, words) in squares.chunks_exact_mut((count - 1) * 2 * count).enumerate() {
            for (within, words) in (1..).zip(words.chunks_exact_mut(2 * count)) {
                let (values, fractions) = words.split_at_mut(count);
                for lane in 0..count {
                    // The lane's own tree starts below the nodes that the words of the square
                    // share.
                    let top = size / count + square * count + lane;
                    [values[lane], fractions[lane]] = root(descendant(top, within));
                }
            }
        }
        Self { modulus, size_log2, nodes, squares }
    }

    /// Words of a block, which stay in the first-level cache until they are complete.
    pub(super) fn block(&self) -> usize {
        BLOCK_WORDS.min(1 << self.size_log2)
    }

    /// Number of blocks.
    pub(super) fn blocks(&self) -> usize {
        (1 << self.size_log2) / self.block()
    }

    /// Root and fraction of a node with more than a vector of words.
    #[inline(always)]
    pub(super) fn node(&self, node: usize) -> [u64; 2] {
        self.nodes[node]
    }

    /// The roots within a square: by node, the roots of all lanes and their fractions.
    #[inline(always)]
    pub(super) fn square(&self, square: usize, count: usize) -> &[u64] {
        let words = (count - 1) * 2 * count;
        let (_, from_here) = self.squares.split_at(square * words);
        // The tables of all primes together exceed the cache, so prefetch the roots.
        if let Some(ahead) = from_here.get(AHEAD_SQUARES * words..(AHEAD_SQUARES + 1) * words) {
            let lines: &[[u64; LINE / size_of::<u64>()]] = whole(ahead);
            for line in lines {
                prefetch(line);
            }
        }
        &from_here[..words]
    }
}

/// The node at index `within` of the tree below `top`, where `top` itself has index 1.
fn descendant(top: usize, within: usize) -> usize {
    let depth = within.ilog2();
    (top << depth) + within - (1 << depth)
}

/// The exponent of a node's root. The i-th of m nodes on a level has the exponent (2 r(i) + 1) N /
/// 2m, where r reverses the bits of i.
fn exponent(node: usize, size_log2: u32) -> usize {
    let depth = node.ilog2();
    let place = node - (1 << depth);
    let reversed = if depth == 0 { 0 } else { place.reverse_bits() >> (usize::BITS - depth) };
    (2 * reversed + 1) << (size_log2 - depth - 1)
}
