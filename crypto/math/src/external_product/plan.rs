//! The split of a transform into passes, and the twiddle factors of each pass.
//!
//! A polynomial modulo `X^N + 1` folds to a polynomial of N/2 complex coefficients modulo
//! `X^(N/2) - i`. From there, a pass of radix R splits each ring `X^M - e(t)`, with
//! `e(t) = exp(2 pi i t)`, into R rings `X^(M/R) - e((t + k)/R)`. Coefficients M/R apart are
//! multiplied by the powers of `e(t/R)`, then go through an ordinary transform of length R. No
//! coefficient is ever reordered: ring k replaces the k-th part of its parent. A ring of one
//! coefficient is a point of the spectrum.

use super::ahead::Steps;
use crate::{aligned::Aligned, reals::circle_point, simd::Level};

/// The passes for one size and one vector width.
pub(super) struct Plan {
    /// Number of complex points, N/2.
    pub(super) points: usize,
    /// Instruction set that defines the vector width.
    pub(super) level: Level,
    /// Radix and factors of the first pass, the only pass that reads torus words. Each factor fills
    /// a pair of vectors, so that the pass can load it from memory.
    pub(super) first: (usize, Aligned<f64>),
    /// The passes that read and write points in memory.
    pub(super) middle: Vec<Middle>,
    /// Radix and factors, ring by ring, of the half of the last pass that works on whole vectors.
    pub(super) across: (usize, Vec<EachFactor>),
    /// Factors of the half of the last pass that works within vectors. These factors differ from
    /// lane to lane: one pair of vectors for every vector of points.
    pub(super) within: Aligned<f64>,
}

/// A pass that reads and writes points in memory.
pub(super) struct Middle {
    pub(super) radix: usize,
    /// Points of a ring before the pass.
    pub(super) ring: usize,
    /// The factors: `radix` for each ring.
    pub(super) factors: Vec<Factor>,
}

/// Real and imaginary part of a twiddle factor. The first factor of every ring is one and is stored
/// only to keep the indices regular.
pub(super) type Factor = [f64; 2];

/// A factor that is equal in all lanes, with each part repeated once per multiplication. A
/// broadcast from memory costs nothing, but a broadcast from a register takes a shuffle.
pub(super) type EachFactor = [f64; 4];

/// Vectors that the last pass processes at once.
pub(super) const GROUP: usize = 8;

/// Numbers of points with a plan.
pub(super) const POINTS: std::ops::RangeInclusive<usize> = 32..=1 << 16;

/// Radices by log2 of the points, from 8 up, for eight lanes, without the radix within vectors. The
/// radices for N = 2048 are the fastest of those that were tried on Zen 4 (docs/performance.md).
/// Other sizes begin with radix 4 as well, except N = 1024: two passes of radix 8 save it a middle
/// pass.
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

/// Radices by log2 of the points, from 5 up, for four lanes.
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

/// Minimum number of points that fills squares of eight by eight.
const EIGHT_LANES_MIN: usize = 256;

/// The level to use for this number of points if `best` is the best level, and the radices.
fn radices(points: usize, best: Level) -> (Level, &'static [usize]) {
    let level = if points < EIGHT_LANES_MIN { best.narrow() } else { best };
    let log2 = points.ilog2() as usize;
    let radices = if level.lanes() == 8 { EIGHT_LANES[log2 - 8] } else { FOUR_LANES[log2 - 5] };
    (level, radices)
}

impl Plan {
    /// Plans with the best level up to `best` that this number of points can use.
    pub(super) fn new(points: usize, best: Level) -> Self {
        let (level, radices) = radices(points, best);
        let lanes = level.lanes();
        let [first, middle @ .., across] = radices else { unreachable!("every plan has at least two passes") };
        assert_eq!(radices.iter().product::<usize>() * lanes, points, "the passes split the ring to the end");
        assert!(points / first / lanes >= GROUP, "a ring of the first pass fills a group");
        // X^(N/2) = i, so the first ring has t = 1/4.
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

    /// Steps of a product of `rows` polynomials with `columns` result polynomials.
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

/// Expands each factor to a pair of vectors, of real and of imaginary parts.
fn fill_vectors(lanes: usize, factors: &[Factor]) -> Aligned<f64> {
    let mut filled = Aligned::new(factors.len() * 2 * lanes);
    for (part, vector) in factors.iter().flatten().zip(filled.chunks_exact_mut(lanes)) {
        vector.fill(*part);
    }
    filled
}

/// Splits every ring and returns the factors of the split.
fn split(rings: &mut Vec<f64>, radix: usize) -> Vec<Factor> {
    let factors = rings.iter().flat_map(|&ring| (0..radix).map(move |power| factor(ring, power, radix))).collect();
    *rings = rings.iter().flat_map(|&ring| (0..radix).map(move |k| (ring + k as f64) / radix as f64)).collect();
    factors
}

/// Computes `e(ring * power / radix)`. All three numbers are integers over powers of two, so the
/// angle is exact.
fn factor(ring: f64, power: usize, radix: usize) -> Factor {
    circle_point(ring * power as f64 / radix as f64)
}
