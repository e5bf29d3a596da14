//! How a transform is split into passes, and the factors that each of them multiplies by.
//!
//! A polynomial modulo `X^N + 1` folds to one of N/2 complex coefficients modulo `X^(N/2) - i`. From there on a
//! pass of radix R splits each ring `X^M - e(t)`, with `e(t) = exp(2 pi i t)`, into R rings
//! `X^(M/R) - e((t + k)/R)`: coefficients M/R apart are multiplied by the powers of `e(t/R)`, then go through an
//! ordinary transform of length R. Nothing is ever reordered: ring k lies where the k-th part of its parent was.
//! A ring of one coefficient is a point of the spectrum.

use super::{ahead::Steps, circle};
use crate::{aligned::Aligned, simd::Level};

/// The passes for one size and width of vectors.
pub(super) struct Plan {
    /// Complex points, N/2.
    pub(super) points: usize,
    /// The instruction set whose vectors it is made for.
    pub(super) level: Level,
    /// Radix and factors of the first pass: the only one that sees torus words. Each factor fills a pair of vectors,
    /// so that the pass can take it from memory.
    pub(super) first: (usize, Aligned<f64>),
    /// The passes that go from memory to memory.
    pub(super) middle: Vec<Middle>,
    /// Radix of the half of the last pass that works on whole vectors, and its factors ring by ring.
    pub(super) across: (usize, Vec<EachFactor>),
    /// Factors of the half of the last pass that works within vectors, which differ from lane to lane: a pair of
    /// vectors for each of the points.
    pub(super) within: Aligned<f64>,
}

/// A pass from memory to memory.
pub(super) struct Middle {
    pub(super) radix: usize,
    /// Points of a ring before it.
    pub(super) ring: usize,
    /// `radix` for each ring.
    pub(super) factors: Vec<Factor>,
}

/// Real and imaginary part. The first factor of every ring is one, and is there for its place only.
pub(super) type Factor = [f64; 2];

/// The same for a whole vector, each part once for each time that it is multiplied by: an operand in memory is spread
/// over the lanes at no cost, a register takes a shuffle.
pub(super) type EachFactor = [f64; 4];

/// Vectors that the last pass takes at once.
pub(super) const GROUP: usize = 8;

/// Numbers of points that there are plans for.
pub(super) const POINTS: std::ops::RangeInclusive<usize> = 32..=1 << 16;

/// By log2 of the points, from 8 up, with eight lanes: radices of all passes but the one within vectors. Those of N = 2048 are
/// the fastest that were tried on Zen 4 (docs/performance.md). Other sizes begin with radix 4 as well, but for N = 1024: two
/// passes of radix 8 spare it one in the middle.
const EIGHT_LANES: [&[usize]; 9] = [
    &[4, 8],
    &[8, 8],
    &[4, 8, 4],
    &[4, 4, 4, 4],
    &[4, 8, 4, 4],
    &[4, 8, 8, 4],
    &[4, 8, 8, 8],
    &[4, 8, 8, 4, 4],
    &[4, 8, 8, 8, 4],
];

/// The same from 5 up, with four lanes.
const FOUR_LANES: [&[usize]; 12] = [
    &[1, 8],
    &[2, 8],
    &[4, 8],
    &[4, 4, 4],
    &[4, 8, 4],
    &[4, 8, 8],
    &[4, 8, 4, 4],
    &[4, 4, 4, 4, 4],
    &[4, 8, 4, 4, 4],
    &[4, 4, 4, 4, 4, 4],
    &[4, 8, 4, 4, 4, 4],
    &[4, 4, 4, 4, 4, 4, 4],
];

/// Least number of points that fills squares of eight by eight.
const EIGHT_LANES_MIN: usize = 256;

/// The level to use for so many points where `best` is the best one, and the radices.
fn radices(points: usize, best: Level) -> (Level, &'static [usize]) {
    let level = if points < EIGHT_LANES_MIN { best.narrow() } else { best };
    let log2 = points.ilog2() as usize;
    let radices = if level.lanes() == 8 { EIGHT_LANES[log2 - 8] } else { FOUR_LANES[log2 - 5] };
    (level, radices)
}

impl Plan {
    /// For the best level up to `best` that so many points can use.
    pub(super) fn new(points: usize, best: Level) -> Self {
        let (level, radices) = radices(points, best);
        let lanes = level.lanes();
        let [first, middle @ .., across] = radices else { unreachable!("every plan has at least two passes") };
        assert_eq!(radices.iter().product::<usize>() * lanes, points, "the passes split the ring to the end");
        assert!(points / first / lanes >= GROUP, "a ring of the first pass fills a group");
        // X^(N/2) = i.
        let mut rings = vec![0.25];
        let first = (*first, fill_vectors(lanes, &split(&mut rings, *first)));
        let middle = middle
            .iter()
            .map(|&radix| {
                let ring = points / rings.len();
                Middle { radix, ring, factors: split(&mut rings, radix) }
            })
            .collect();
        let each = |[re, im]: Factor| [re, im, im, re];
        let across = (*across, split(&mut rings, *across).into_iter().map(each).collect());
        let mut within = Aligned::new(2 * points);
        for (square, rings) in within.chunks_exact_mut(lanes * 2 * lanes).zip(rings.chunks_exact(lanes)) {
            for (power, vector) in square.chunks_exact_mut(2 * lanes).enumerate() {
                let (re, im) = vector.split_at_mut(lanes);
                for ((re, im), ring) in re.iter_mut().zip(im).zip(rings) {
                    [*re, *im] = factor(*ring, power, lanes);
                }
            }
        }
        Self { points, level, first, middle, across, within }
    }

    /// Of a product of `rows` polynomials that gives `columns`.
    pub(super) fn steps(&self, rows: usize, columns: usize) -> Steps {
        let vectors = self.points / self.level.lanes();
        let middle = self.middle.iter().map(|pass| vectors / pass.radix).sum::<usize>();
        let polynomials = rows + columns;
        Steps {
            groups: vectors / GROUP * polynomials,
            middle: middle * polynomials,
            end: vectors / self.first.0 * columns,
        }
    }
}

/// Each factor as a pair of vectors, of real and of imaginary parts.
fn fill_vectors(lanes: usize, factors: &[Factor]) -> Aligned<f64> {
    let mut filled = Aligned::new(factors.len() * 2 * lanes);
    for (part, vector) in factors.iter().flatten().zip(filled.chunks_exact_mut(lanes)) {
        vector.fill(*part);
    }
    filled
}

/// Splits every ring, and gives the factors for that.
fn split(rings: &mut Vec<f64>, radix: usize) -> Vec<Factor> {
    let factors = rings.iter().flat_map(|&ring| (0..radix).map(move |power| factor(ring, power, radix))).collect();
    *rings = rings.iter().flat_map(|&ring| (0..radix).map(move |k| (ring + k as f64) / radix as f64)).collect();
    factors
}

/// `e(ring * power / radix)`. All three are whole numbers over powers of two, so the angle is exact.
fn factor(ring: f64, power: usize, radix: usize) -> Factor {
    circle::point(ring * power as f64 / radix as f64)
}
