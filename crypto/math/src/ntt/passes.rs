//! The passes over a polynomial: each pass processes a few levels of the tree in registers.
//!
//! The first passes take words that are far apart and go through the whole polynomial. From then
//! on, each block stays in the first-level cache until its values are complete. The last levels,
//! within vectors, take a square of vectors. A transposition turns rows into columns, so that these
//! levels work across vectors as well.
//!
//! Residues are not fully reduced between passes, and memory holds the representation of the
//! arithmetic. If the prime is small for its words, they have room for the sums of all forward
//! levels. If numbers are signed as well, they have room for the sums of one inverse pass.
//! Otherwise, the operand to which a product is added is settled (partially reduced) first. This
//! happens at each level, or, forward and with signed numbers, at the first level of a pass.

use super::table::Table;
use crate::{
    cache::LINE,
    modulus::Factor,
    simd::{
        BlocksMut, prefetch_all_once,
        residues::{Multiplier, ResidueKernel, Residues},
        whole, whole_mut,
    },
};

/// Words of a cache line.
const LINE_WORDS: usize = LINE / size_of::<u64>();
/// Maximum number of words that one pass combines.
const RADIX_MAX: usize = 8;

/// The passes from coefficients to blocks.
pub(super) struct Start<'a, 'b> {
    pub(super) table: &'a Table,
    pub(super) polynomials: &'a mut [&'b mut [u64]],
}

/// The passes from blocks to values: a range of blocks of each polynomial, beginning with the block
/// of word `first`.
pub(super) struct Finish<'a, 'b> {
    pub(super) table: &'a Table,
    pub(super) first: usize,
    pub(super) parts: &'a mut [&'b mut [u64]],
    /// Data that is read next, prefetched meanwhile.
    pub(super) next: &'a [&'a [u64]],
}

/// The passes from values to coefficients, each times `scale`.
pub(super) struct Inverse<'a, 'b> {
    pub(super) table: &'a Table,
    pub(super) scale: Factor,
    /// The values, if they are not in the polynomials.
    pub(super) values: Option<&'a [&'a [u64]]>,
    pub(super) polynomials: &'a mut [&'b mut [u64]],
}

impl ResidueKernel for Start<'_, '_> {
    #[inline(always)]
    fn run<V: Residues>(self) {
        let Self { table, polynomials } = self;
        let ring = Ring::<V>::new(table);
        for polynomial in polynomials {
            if is_roomy::<V>(table) {
                forward_levels::<V, false>(polynomial, 1, table.blocks(), table, ring);
            } else {
                forward_levels::<V, true>(polynomial, 1, table.blocks(), table, ring);
            }
        }
    }
}

impl ResidueKernel for Finish<'_, '_> {
    #[inline(always)]
    fn run<V: Residues>(self) {
        if is_roomy::<V>(self.table) { self.blocks::<V, false>() } else { self.blocks::<V, true>() }
    }
}

impl Finish<'_, '_> {
    #[inline(always)]
    fn blocks<V: Residues, const FOLDED: bool>(self) {
        let Self { table, first, parts, next } = self;
        let ring = Ring::<V>::new(table);
        let (len, square) = (table.block(), V::COUNT * V::COUNT);
        let words = parts.first().map_or(0, |part| part.len());
        // Prefetch a little for each square, to keep both memory and arithmetic busy.
        let wanted: usize = next.iter().map(|slice| slice.len()).sum();
        let at_once =
            wanted.div_ceil((parts.len() * words / square).max(1)).next_multiple_of(LINE_WORDS).max(LINE_WORDS);
        let mut next = next.iter().flat_map(|slice| slice.chunks(at_once));
        for start in (0..words).step_by(len) {
            let place = first + start;
            for part in parts.iter_mut() {
                let words = &mut part[start..][..len];
                forward_levels::<V, FOLDED>(words, table.blocks() + place / len, len / square, table, ring);
                for (part, words) in words.chunks_exact_mut(square).enumerate() {
                    if let Some(next) = next.next() {
                        prefetch_all_once(next);
                    }
                    forward_square::<V, FOLDED>(words, place / square + part, table, ring);
                }
            }
        }
    }
}

impl ResidueKernel for Inverse<'_, '_> {
    #[inline(always)]
    fn run<V: Residues>(self) {
        if is_roomy_upwards::<V>(self.table) { self.levels::<V, false>() } else { self.levels::<V, true>() }
    }
}

impl Inverse<'_, '_> {
    #[inline(always)]
    fn levels<V: Residues, const SETTLED: bool>(self) {
        let Self { table, scale, values, polynomials } = self;
        let (ring, scale) = (Ring::<V>::new(table), Multiplier::splat(scale));
        let (len, square) = (table.block(), V::COUNT * V::COUNT);
        for block in 0..table.blocks() {
            for (index, polynomial) in polynomials.iter_mut().enumerate() {
                let words = &mut polynomial[block * len..][..len];
                let values = values.map(|values| &values[index][block * len..][..len]);
                for (part, words) in words.chunks_exact_mut(square).enumerate() {
                    let values = values.map(|values| &values[part * square..][..square]);
                    inverse_square::<V, SETTLED>(values, words, block * len / square + part, table, ring);
                }
                inverse_levels::<V, SETTLED>(words, table.blocks() + block, len / square, table, ring, scale);
            }
        }
        for polynomial in polynomials {
            inverse_levels::<V, SETTLED>(polynomial, 1, table.blocks(), table, ring, scale);
        }
    }
}

/// Splits the words of a node down to this number of parts.
#[inline(always)]
fn forward_levels<V: Residues, const FOLDED: bool>(
    words: &mut [u64],
    node: usize,
    parts: usize,
    table: &Table,
    ring: Ring<V>,
) {
    let mut done = 1;
    while done < parts {
        let radix = radix(parts / done);
        let len = words.len() / done;
        for (part, words) in words.chunks_exact_mut(len).enumerate() {
            match radix {
                2 => forward_pass::<V, 2, FOLDED>(words, node * done + part, table, ring),
                4 => forward_pass::<V, 4, FOLDED>(words, node * done + part, table, ring),
                _ => forward_pass::<V, RADIX_MAX, FOLDED>(words, node * done + part, table, ring),
            }
        }
        done *= radix;
    }
}

/// Merges this number of parts up to the words of a node.
#[inline(always)]
fn inverse_levels<V: Residues, const SETTLED: bool>(
    words: &mut [u64],
    node: usize,
    parts: usize,
    table: &Table,
    ring: Ring<V>,
    scale: Multiplier<V>,
) {
    let mut left = parts;
    while left > 1 {
        let radix = radix(left);
        left /= radix;
        let len = words.len() / left;
        for (part, words) in words.chunks_exact_mut(len).enumerate() {
            match radix {
                2 => inverse_pass::<V, 2, SETTLED>(words, node * left + part, table, ring, scale),
                4 => inverse_pass::<V, 4, SETTLED>(words, node * left + part, table, ring, scale),
                _ => inverse_pass::<V, RADIX_MAX, SETTLED>(words, node * left + part, table, ring, scale),
            }
        }
    }
}

/// Whether words have room for the sums of all levels. If not, the `FOLDED` variants settle
/// operands.
#[inline(always)]
fn is_roomy<V: Residues>(table: &Table) -> bool {
    let levels = u64::from(table.size_log2);
    (u128::from(table.modulus.value()) * u128::from(V::EXCESS * (levels + 1))) >> V::FRACTION_BITS == 0
}

/// Whether numbers are signed and have room for the sums of a pass upwards. If products are below b
/// p, sums reach 32 b p before they are settled, and b is about two thirds. Without the room, the
/// `SETTLED` variants settle every sum.
#[inline(always)]
fn is_roomy_upwards<V: Residues>(table: &Table) -> bool {
    V::IS_SIGNED && table.modulus.bits() + 5 <= V::FRACTION_BITS
}

/// Words that a pass combines if `parts` are left to split: eight, unless eight would leave a
/// single level.
#[inline(always)]
fn radix(parts: usize) -> usize {
    match parts {
        2 => 2,
        4 | 16 => 4,
        _ => RADIX_MAX,
    }
}

/// Constants of every step.
#[derive(Clone, Copy)]
struct Ring<V: Residues> {
    prime: V::Prime,
    value: u64,
    /// Upper bound of a product.
    excess: V,
    one: Multiplier<V>,
}

impl<V: Residues> Ring<V> {
    #[inline(always)]
    fn new(table: &Table) -> Self {
        let modulus = table.modulus;
        let excess = V::splat(V::EXCESS * modulus.value());
        Self { prime: V::prime(modulus), value: modulus.value(), excess, one: Multiplier::splat(modulus.factor(1)) }
    }
}

/// Runs the levels of the tree below `node`, log2 `RADIX` of them, over the words of that node.
#[inline(always)]
fn forward_pass<V: Residues, const RADIX: usize, const FOLDED: bool>(
    words: &mut [u64],
    node: usize,
    table: &Table,
    ring: Ring<V>,
) {
    let factors = factors_below::<V>(RADIX, node, table);
    let vectors = words.len() / RADIX / V::COUNT;
    let mut blocks = BlocksMut::<V::Array, RADIX>::new(whole_mut(words), vectors, vectors);
    for at in 0..vectors {
        let mut parts = [ring.excess; RADIX];
        for (index, part) in parts.iter_mut().enumerate() {
            // At the root, the words are plain residues: no pass has stored them yet.
            *part = if node == 1 { V::load(blocks.get(index, at)) } else { V::kept(blocks.get(index, at)) };
        }
        forward_tree::<V, FOLDED>(&mut parts, &factors, ring);
        for (index, part) in parts.into_iter().enumerate() {
            part.keep(blocks.get(index, at));
        }
    }
}

/// Runs the levels upwards. Node 1 is the last node: its words become the result.
#[inline(always)]
fn inverse_pass<V: Residues, const RADIX: usize, const SETTLED: bool>(
    words: &mut [u64],
    node: usize,
    table: &Table,
    ring: Ring<V>,
    scale: Multiplier<V>,
) {
    let factors = factors_below::<V>(RADIX, node, table);
    let vectors = words.len() / RADIX / V::COUNT;
    let mut blocks = BlocksMut::<V::Array, RADIX>::new(whole_mut(words), vectors, vectors);
    for at in 0..vectors {
        let mut parts = [ring.excess; RADIX];
        for (index, part) in parts.iter_mut().enumerate() {
            *part = V::kept(blocks.get(index, at));
        }
        inverse_tree::<V, SETTLED>(&mut parts, &factors, ring);
        for (index, part) in parts.into_iter().enumerate() {
            if node == 1 {
                let scaled = part.multiply(scale, ring.prime);
                scaled.least(V::EXCESS, ring.value, ring.prime).store(blocks.get(index, at));
            } else {
                part.keep(blocks.get(index, at));
            }
        }
    }
}

/// Runs the last levels of a square and reduces the residues fully.
#[inline(always)]
fn forward_square<V: Residues, const FOLDED: bool>(words: &mut [u64], square: usize, table: &Table, ring: Ring<V>) {
    let node = (1 << table.size_log2) / (V::COUNT * V::COUNT) + square;
    let rows: &mut [V::Array] = whole_mut(words);
    let mut parts = [ring.excess; RADIX_MAX];
    let parts = &mut parts[..V::COUNT];
    for (part, row) in parts.iter_mut().zip(&*rows) {
        *part = V::kept(row);
    }
    forward_tree::<V, FOLDED>(parts, &factors_below::<V>(V::COUNT, node, table), ring);
    V::transpose(parts);
    forward_tree::<V, FOLDED>(parts, &factors_within::<V>(square, table), ring);
    V::transpose(parts);
    for (part, row) in parts.iter().zip(rows) {
        let done = if FOLDED || V::IS_SIGNED {
            part.least(2 * V::EXCESS, ring.value, ring.prime)
        } else {
            part.multiply(ring.one, ring.prime).least(V::EXCESS, ring.value, ring.prime)
        };
        done.store(row);
    }
}

/// Runs the first levels upwards. The input is fully reduced: `values`, or `words` if there are
/// none.
#[inline(always)]
fn inverse_square<V: Residues, const SETTLED: bool>(
    values: Option<&[u64]>,
    words: &mut [u64],
    square: usize,
    table: &Table,
    ring: Ring<V>,
) {
    let node = (1 << table.size_log2) / (V::COUNT * V::COUNT) + square;
    let mut parts = [ring.excess; RADIX_MAX];
    let parts = &mut parts[..V::COUNT];
    let values: &[V::Array] = whole(values.unwrap_or(words));
    for (part, row) in parts.iter_mut().zip(values) {
        *part = V::load(row);
    }
    let rows: &mut [V::Array] = whole_mut(words);
    V::transpose(parts);
    inverse_tree::<V, SETTLED>(parts, &factors_within::<V>(square, table), ring);
    V::transpose(parts);
    inverse_tree::<V, SETTLED>(parts, &factors_below::<V>(V::COUNT, node, table), ring);
    for (part, row) in parts.iter().zip(rows) {
        part.keep(row);
    }
}

/// Factors of a small tree: its root at index 1, and the children of index i at 2i and 2i + 1.
type Factors<V> = [Multiplier<V>; RADIX_MAX];

#[inline(always)]
fn factors_below<V: Residues>(radix: usize, node: usize, table: &Table) -> Factors<V> {
    let mut factors = [Multiplier { value: V::splat(0), fraction: V::splat(0) }; RADIX_MAX];
    for level in 0..radix.ilog2() {
        for place in 0..1 << level {
            let [value, fraction] = table.node((node << level) + place);
            factors[(1 << level) + place] =
                Multiplier { value: V::splat_kept(value), fraction: V::splat_kept(fraction) };
        }
    }
    factors
}

#[inline(always)]
fn factors_within<V: Residues>(square: usize, table: &Table) -> Factors<V> {
    let vectors: &[V::Array] = whole(table.square(square, V::COUNT));
    let mut factors = [Multiplier { value: V::splat(0), fraction: V::splat(0) }; RADIX_MAX];
    for (factor, roots) in factors[1..].iter_mut().zip(vectors.chunks_exact(2)) {
        *factor = Multiplier { value: V::kept(&roots[0]), fraction: V::kept(&roots[1]) };
    }
    factors
}

/// Runs each level of a small tree: the upper half of a node's parts plus and minus its root times
/// the lower half. Signed numbers have room for the sums of one tree.
#[inline(always)]
fn forward_tree<V: Residues, const FOLDED: bool>(parts: &mut [V], factors: &Factors<V>, ring: Ring<V>) {
    if FOLDED && V::IS_SIGNED {
        let half = parts.len() / 2;
        for upper in &mut parts[..half] {
            *upper = upper.settle(ring.excess, ring.prime);
        }
    }
    for level in 0..parts.len().ilog2() {
        let half = parts.len() >> (level + 1);
        for (place, pair) in parts.chunks_exact_mut(2 * half).enumerate() {
            let (upper, lower) = pair.split_at_mut(half);
            for (upper, lower) in upper.iter_mut().zip(lower) {
                let factor = factors[(1 << level) + place];
                let product = if FOLDED {
                    lower.multiply(factor, ring.prime)
                } else {
                    // No later step reads bits above those that are multiplied.
                    lower.multiply_low_bits(factor, ring.prime)
                };
                let kept = if FOLDED && !V::IS_SIGNED { upper.settle(ring.excess, ring.prime) } else { *upper };
                *upper = kept.add(product);
                *lower = kept.difference(product, ring.excess);
            }
        }
    }
}

/// Runs each level upwards: the sum of two halves, and their difference times the root. Products
/// and settled sums are below the bound of a product. Every sum is settled, or, if signed numbers
/// have room for all sums of a tree, only the sum that is never multiplied.
#[inline(always)]
fn inverse_tree<V: Residues, const SETTLED: bool>(parts: &mut [V], factors: &Factors<V>, ring: Ring<V>) {
    for level in (0..parts.len().ilog2()).rev() {
        let half = parts.len() >> (level + 1);
        for (place, pair) in parts.chunks_exact_mut(2 * half).enumerate() {
            let (upper, lower) = pair.split_at_mut(half);
            for (upper, lower) in upper.iter_mut().zip(lower) {
                let (sum, difference) = (upper.add(*lower), upper.difference(*lower, ring.excess));
                *upper = if SETTLED { sum.settle(ring.excess, ring.prime) } else { sum };
                *lower = difference.multiply(factors[(1 << level) + place], ring.prime);
            }
        }
    }
    if !SETTLED {
        parts[0] = parts[0].settle(ring.excess, ring.prime);
    }
}
