//! The first pass, which turns torus words into complex coefficients on the way, and its inverse, which turns them
//! back.
//!
//! A pass of radix R takes 2 R words at once: R of the lower half of the polynomial are real parts, R of the upper
//! half imaginary ones.

use super::{
    accumulator::seal,
    complex::{Complex, Ring, transform},
    digit::Digit,
    plan::Plan,
};
use crate::{
    simd::{Blocks, BlocksMut, Kernel, Simd, Vector, Words},
    torus::Torus,
};

/// Calls `$function::<vector, word, radix, 2 * radix>` as the plan says.
macro_rules! by_radix {
    ($function:ident, $simd:ident, $job:ident) => {
        match $job.plan.first.0 {
            8 => $function::<$simd::F64, T, 8, 16>($job),
            4 if $simd::F64::LANES == 4 => $function::<$simd::F64, T, 4, 8>($job),
            2 if $simd::F64::LANES == 4 => $function::<$simd::F64, T, 2, 4>($job),
            1 if $simd::F64::LANES == 4 => $function::<$simd::F64, T, 1, 2>($job),
            radix => unreachable!("no plan begins with radix {radix}"),
        }
    };
}

/// Digits of a polynomial, or of `X^rotation polynomial - polynomial`.
pub struct FromDigits<'a, T> {
    pub(super) plan: &'a Plan,
    /// With its margin.
    pub(super) polynomial: &'a [T],
    pub(super) rotation: Option<usize>,
    pub(super) digit: Digit<T>,
    pub(super) points: &'a mut [f64],
}

impl<T: Torus> Kernel for FromDigits<'_, T> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        by_radix!(from_digits, S, self)
    }
}

#[inline(always)]
fn from_digits<V: Vector, T: Torus, const R: usize, const BLOCKS: usize>(job: FromDigits<'_, T>) {
    let FromDigits { plan, polynomial, rotation, digit, points } = job;
    match rotation {
        Some(rotation) if digit.above == 0 => {
            rotated::<V, T, R, BLOCKS, true>(plan, polynomial, rotation, digit, points);
        }
        Some(rotation) => rotated::<V, T, R, BLOCKS, false>(plan, polynomial, rotation, digit, points),
        None => {
            let len = 2 * plan.points / BLOCKS / V::LANES;
            let words = Blocks::new(T::Words::<V>::arrays(polynomial), len, len);
            forward::<V, _, R>(plan, &EvenDigits::<V, T, BLOCKS> { words, digit }, len, V::pairs_mut(points));
        }
    }
}

/// Coefficient j of the rotated polynomial comes from `j - rotation` on a circle of 2N words, whose second half is
/// the first half negated. As j runs, all blocks cross into their next one at the same moment.
#[inline(always)]
fn rotated<V: Vector, T: Torus, const R: usize, const BLOCKS: usize, const TOP: bool>(
    plan: &Plan,
    polynomial: &[T],
    rotation: usize,
    digit: Digit<T>,
    points: &mut [f64],
) {
    let circle = 4 * plan.points;
    debug_assert!(rotation < circle);
    let block = 2 * plan.points / BLOCKS;
    let mut at = 0;
    while at < block {
        let from = (circle + at - rotation) % circle;
        let run = (block - from % block).next_multiple_of(V::LANES).min(block - at);
        let run = Run { plan, polynomial, digit, at, offset: from % block, len: run, negated: from / block >= BLOCKS };
        // A constant distance in blocks fixes which of them wrap round: signs need no look-up.
        macro_rules! by_distance {
            ($($distance:literal)*) => {
                match from / block % BLOCKS {
                    $($distance => run.pass::<V, R, BLOCKS, TOP, $distance>(points),)*
                    _ => unreachable!("there are at most sixteen blocks"),
                }
            };
        }
        match BLOCKS {
            2 => by_distance!(0 1),
            4 => by_distance!(0 1 2 3),
            8 => by_distance!(0 1 2 3 4 5 6 7),
            _ => by_distance!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
        }
        at += run.len;
    }
}

/// Words of each block, from `at` on, whose rotated partners lie in one run from `offset` of some block on.
struct Run<'a, T> {
    plan: &'a Plan,
    polynomial: &'a [T],
    digit: Digit<T>,
    at: usize,
    offset: usize,
    len: usize,
    /// Is the first block's partner in the negated half of the circle?
    negated: bool,
}

impl<T: Torus> Run<'_, T> {
    /// `DISTANCE` is how many blocks lie between a block and its partner.
    #[inline(always)]
    fn pass<V: Vector, const R: usize, const BLOCKS: usize, const TOP: bool, const DISTANCE: usize>(
        &self,
        points: &mut [f64],
    ) {
        let Self { plan, polynomial, digit, at, offset, len, negated } = *self;
        let (stride, len) = (2 * plan.points / BLOCKS / V::LANES, len / V::LANES);
        // Bits flipped and one more is the negative; the one goes with the digit's offset.
        let plus = (T::default(), digit.offset);
        let minus = (T::from_u64(u64::MAX), digit.offset.wrapping_add(T::from_u64(1)));
        let (before, after) = if negated { (minus, plus) } else { (plus, minus) };
        let source = Rotated::<V, T, BLOCKS, TOP, DISTANCE> {
            partners: Blocks::new(T::Words::<V>::arrays(&polynomial[offset..]), stride, len),
            own: Blocks::new(T::Words::<V>::arrays(&polynomial[at..]), stride, len),
            before: (T::Words::<V>::splat(before.0), T::Words::<V>::splat(before.1)),
            after: (T::Words::<V>::splat(after.0), T::Words::<V>::splat(after.1)),
            digit,
        };
        forward::<V, _, R>(plan, &source, len, V::pairs_mut(&mut points[2 * at..]));
    }
}

/// Whole words as signed numbers times `scale`, over what a digit of one is.
pub struct FromWords<'a, T> {
    pub(super) plan: &'a Plan,
    pub(super) polynomial: &'a [T],
    pub(super) scale: f64,
    pub(super) digit: Digit<T>,
    pub(super) points: &'a mut [f64],
}

impl<T: Torus> Kernel for FromWords<'_, T> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        by_radix!(from_words, S, self)
    }
}

#[inline(always)]
fn from_words<V: Vector, T: Torus, const R: usize, const BLOCKS: usize>(job: FromWords<'_, T>) {
    let FromWords { plan, polynomial, scale, digit, points } = job;
    let len = 2 * plan.points / BLOCKS / V::LANES;
    let words = Blocks::new(T::Words::<V>::arrays(polynomial), len, len);
    let scale = V::splat(scale / digit.unit::<V>());
    forward::<V, _, R>(plan, &Scaled::<V, T, BLOCKS> { words, scale }, len, V::pairs_mut(points));
}

/// Where the numbers come from that enter the first pass.
trait Source<V> {
    /// Those of vector `at` of a block.
    fn numbers(&self, block: usize, at: usize) -> V;
}

/// A vector's words in memory.
type Array<V, T> = <<T as crate::torus::sealed::Sealed>::Words<V> as Words<T, V>>::Array;

/// Digits of words less their rotated partners.
struct Rotated<'a, V: Vector, T: Torus, const BLOCKS: usize, const TOP: bool, const DISTANCE: usize> {
    partners: Blocks<'a, Array<V, T>, BLOCKS>,
    own: Blocks<'a, Array<V, T>, BLOCKS>,
    /// What to flip and what to add before the partners wrap round.
    before: (T::Words<V>, T::Words<V>),
    /// And after that.
    after: (T::Words<V>, T::Words<V>),
    digit: Digit<T>,
}

impl<V: Vector, T: Torus, const BLOCKS: usize, const TOP: bool, const DISTANCE: usize> Source<V>
    for Rotated<'_, V, T, BLOCKS, TOP, DISTANCE>
{
    #[inline(always)]
    fn numbers(&self, block: usize, at: usize) -> V {
        let (flip, add) = if block + DISTANCE < BLOCKS { self.before } else { self.after };
        let partner = T::Words::<V>::load(self.partners.get((block + DISTANCE) % BLOCKS, at));
        let own = T::Words::<V>::load(self.own.get(block, at));
        self.digit.cut::<V, TOP>(partner.xor(flip).sub(own).add(add))
    }
}

/// Digits, with halves rounded to even.
struct EvenDigits<'a, V: Vector, T: Torus, const BLOCKS: usize> {
    words: Blocks<'a, Array<V, T>, BLOCKS>,
    digit: Digit<T>,
}

impl<V: Vector, T: Torus, const BLOCKS: usize> Source<V> for EvenDigits<'_, V, T, BLOCKS> {
    #[inline(always)]
    fn numbers(&self, block: usize, at: usize) -> V {
        self.digit.cut_even::<V>(T::Words::<V>::load(self.words.get(block, at)))
    }
}

/// Signed numbers times a factor.
struct Scaled<'a, V: Vector, T: Torus, const BLOCKS: usize> {
    words: Blocks<'a, Array<V, T>, BLOCKS>,
    scale: V,
}

impl<V: Vector, T: Torus, const BLOCKS: usize> Source<V> for Scaled<'_, V, T, BLOCKS> {
    #[inline(always)]
    fn numbers(&self, block: usize, at: usize) -> V {
        T::Words::<V>::load(self.words.get(block, at)).to_signed().mul(self.scale)
    }
}

/// Passes `len` vectors of each block.
#[inline(always)]
fn forward<V: Vector, S: Source<V>, const R: usize>(plan: &Plan, source: &S, len: usize, points: &mut [V::Pair]) {
    let mut points = BlocksMut::new(points, plan.points / R / V::LANES, len);
    let factors = factors::<V, R>(plan);
    for at in 0..len {
        transform::<V, R, false>(&mut Forward { source, factors, points: &mut points, at });
    }
}

#[inline(always)]
fn factors<V: Vector, const R: usize>(plan: &Plan) -> &[V::Pair; R] {
    V::pairs(&plan.first.1).try_into().expect("a factor for each block")
}

struct Forward<'a, 'p, V: Vector, S, const R: usize> {
    source: &'a S,
    factors: &'a [V::Pair; R],
    points: &'a mut BlocksMut<'p, V::Pair, R>,
    at: usize,
}

impl<V: Vector, S: Source<V>, const R: usize> Ring<V> for Forward<'_, '_, V, S, R> {
    #[inline(always)]
    fn get(&mut self, index: usize) -> Complex<V> {
        let (re, im) = (self.source.numbers(index, self.at), self.source.numbers(index + R, self.at));
        let number = Complex { re, im };
        if index == 0 { number } else { number.mul(Complex::load(&self.factors[index])) }
    }
    #[inline(always)]
    fn put(&mut self, index: usize, value: Complex<V>) {
        value.store(self.points.get(index, self.at));
    }
}

/// The inverse: points as torus words, added to a polynomial or put in its place.
pub struct ToWords<'a, T> {
    pub(super) plan: &'a Plan,
    pub(super) points: &'a [f64],
    /// With its margin, which is renewed.
    pub(super) polynomial: &'a mut [T],
    pub(super) accumulate: bool,
}

impl<T: Torus> Kernel for ToWords<'_, T> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        by_radix!(to_words, S, self)
    }
}

#[inline(always)]
fn to_words<V: Vector, T: Torus, const R: usize, const BLOCKS: usize>(job: ToWords<'_, T>) {
    if job.accumulate {
        inverse::<V, T, R, BLOCKS, true>(job);
    } else {
        inverse::<V, T, R, BLOCKS, false>(job);
    }
}

#[inline(always)]
fn inverse<V: Vector, T: Torus, const R: usize, const BLOCKS: usize, const ACCUMULATE: bool>(job: ToWords<'_, T>) {
    let ToWords { plan, points, polynomial, accumulate: _ } = job;
    let len = 2 * plan.points / BLOCKS / V::LANES;
    let points = Blocks::new(V::pairs(points), len, len);
    let mut words = BlocksMut::<_, BLOCKS>::new(T::Words::<V>::arrays_mut(polynomial), len, len);
    let factors = factors::<V, R>(plan);
    for at in 0..len {
        let mut x = [Complex::zero(); R];
        transform::<V, R, true>(&mut Inverse { points: &points, factors, x: &mut x, at });
        for block in 0..BLOCKS {
            let turns = if block < R { x[block % R].re } else { x[block % R].im };
            let to = words.get(block, at);
            let new = T::Words::<V>::from_turns(turns);
            (if ACCUMULATE { T::Words::<V>::load(to).add(new) } else { new }).store(to);
        }
    }
    seal(2 * plan.points, polynomial);
}

/// Conversion waits until the transform is done: registers are too few for both.
struct Inverse<'a, 'p, V: Vector, const R: usize> {
    points: &'a Blocks<'p, V::Pair, R>,
    factors: &'a [V::Pair; R],
    x: &'a mut [Complex<V>; R],
    at: usize,
}

impl<V: Vector, const R: usize> Ring<V> for Inverse<'_, '_, V, R> {
    #[inline(always)]
    fn get(&mut self, index: usize) -> Complex<V> {
        Complex::load(self.points.get(index, self.at))
    }
    #[inline(always)]
    fn put(&mut self, index: usize, value: Complex<V>) {
        let factor = &self.factors[index];
        self.x[index] = if index == 0 { value } else { value.mul_conjugate(Complex::load(factor)) };
    }
}
