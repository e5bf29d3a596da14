//! The first pass, which converts torus words to complex coefficients on the way, and its inverse,
//! which converts them back.
//!
//! A pass of radix R takes 2 R words at once. R words of the lower half of the polynomial are real
//! parts, and R words of the upper half are imaginary parts.

use super::{
    accumulator::seal,
    ahead::{Ahead, Fetch, Nothing},
    complex::{Complex, Ring, transform},
    digit::Digit,
    plan::Plan,
};
use crate::{
    simd::{Blocks, BlocksMut, Kernel, Pair, Simd, Vector, Words, whole, whole_mut},
    torus::Torus,
};

/// Calls `$function::<vector, word, radix, 2 * radix>` for the radix of the plan.
macro_rules! by_radix {
    ($function:ident, $simd:ident, $job:ident) => {
        match $job.plan.first.0 {
            8 if $simd::F64::LANES == 8 => $function::<$simd::F64, T, 8, 16>($job),
            4 => $function::<$simd::F64, T, 4, 8>($job),
            2 if $simd::F64::LANES == 4 => $function::<$simd::F64, T, 2, 4>($job),
            1 if $simd::F64::LANES == 4 => $function::<$simd::F64, T, 1, 2>($job),
            radix => unreachable!("no plan begins with radix {radix}"),
        }
    };
}

/// Transforms the digits of a polynomial, or of `X^rotation polynomial - polynomial`.
pub struct FromDigits<'a, T> {
    pub(super) plan: &'a Plan,
    /// The polynomial with its margin.
    pub(super) polynomial: &'a [T],
    pub(super) rotation: Option<usize>,
    /// Digit extraction by level.
    pub(super) digits: &'a [Digit<T>],
    /// Points of the first level. The points of each further level follow at a distance of
    /// `stride`.
    pub(super) points: &'a mut [f64],
    pub(super) stride: usize,
}

impl<T: Torus> Kernel for FromDigits<'_, T> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        by_radix!(from_digits, S, self)
    }
}

#[inline(always)]
fn from_digits<V: Vector, T: Torus, const R: usize, const BLOCKS: usize>(job: FromDigits<'_, T>) {
    if let Some(rotation) = job.rotation {
        return rotated::<V, T, R, BLOCKS>(job, rotation);
    }
    let FromDigits { plan, polynomial, rotation: _, digits, points, stride } = job;
    let len = 2 * plan.points / BLOCKS / V::LANES;
    for (digit, points) in digits.iter().zip(points.chunks_mut(stride)) {
        let words = Blocks::new(whole(polynomial), len, len);
        forward::<V, _, R>(plan, &EvenDigits::<V, T, BLOCKS> { words, digit: *digit }, len, whole_mut(points));
    }
}

/// Transforms a rotated difference. Coefficient j of the rotated polynomial comes from
/// `j - rotation` on a circle of 2N words, whose second half is the negated first half. As j grows,
/// all blocks cross into their next block at one j.
#[inline(always)]
fn rotated<V: Vector, T: Torus, const R: usize, const BLOCKS: usize>(mut job: FromDigits<'_, T>, rotation: usize) {
    let circle = 4 * job.plan.points;
    let block = 2 * job.plan.points / BLOCKS;
    let mut at = 0;
    while at < block {
        let from = (circle + at - rotation) % circle;
        let len = (block - from % block).next_multiple_of(V::LANES).min(block - at);
        let run = Run { job: &mut job, at, offset: from % block, len };
        // With the distance in blocks as a constant, the compiler knows which blocks are negated.
        // Signs then need no look-up and cost nothing.
        macro_rules! by_distance {
            ($($distance:literal)*) => {
                match from / block {
                    $($distance => run.pass::<V, R, BLOCKS, $distance>(),)*
                    _ => unreachable!("the circle has twice as many blocks as the polynomial"),
                }
            };
        }
        match BLOCKS {
            2 => by_distance!(0 1 2 3),
            4 => by_distance!(0 1 2 3 4 5 6 7),
            8 => by_distance!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
            _ => by_distance!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31),
        }
        at += len;
    }
}

/// Words of each block, starting at `at`, whose rotated partners are contiguous and start at
/// `offset` of some block.
struct Run<'a, 'j, T> {
    job: &'a mut FromDigits<'j, T>,
    at: usize,
    offset: usize,
    len: usize,
}

impl<T: Torus> Run<'_, '_, T> {
    /// Runs the pass. `DISTANCE` is the number of blocks on the circle between a block and its
    /// partner.
    #[inline(always)]
    fn pass<V: Vector, const R: usize, const BLOCKS: usize, const DISTANCE: usize>(self) {
        let Self { job, at, offset, len } = self;
        let FromDigits { plan, polynomial, rotation: _, digits, ref mut points, stride } = *job;
        let (apart, len) = (2 * plan.points / BLOCKS / V::LANES, len / V::LANES);
        let (partners, own) = (whole(&polynomial[offset..]), whole(&polynomial[at..]));
        for (digit, points) in digits.iter().zip(points.chunks_mut(stride)) {
            let words = Differences::<V, T, BLOCKS, DISTANCE> {
                partners: Blocks::new(partners, apart, len),
                own: Blocks::new(own, apart, len),
                more: T::Words::<V>::splat(digit.offset),
            };
            let points = whole_mut(&mut points[2 * at..]);
            if digit.above == 0 {
                forward::<V, _, R>(plan, &Digits::<V, T, BLOCKS, DISTANCE, true> { words, digit: *digit }, len, points);
            } else {
                forward::<V, _, R>(
                    plan,
                    &Digits::<V, T, BLOCKS, DISTANCE, false> { words, digit: *digit },
                    len,
                    points,
                );
            }
        }
    }
}

/// Transforms whole words as signed numbers times `scale`, divided by the unit of `digit`.
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
    let words = Blocks::new(whole(polynomial), len, len);
    let scale = V::splat(scale / digit.unit::<V>());
    forward::<V, _, R>(plan, &Scaled::<V, T, BLOCKS> { words, scale }, len, whole_mut(points));
}

/// Supplies the numbers that enter the first pass.
trait Source<V> {
    /// The numbers of vector `at` of a block.
    fn numbers(&self, block: usize, at: usize) -> V;
}

/// A vector of words in memory.
type Array<V, T> = <<T as crate::torus::sealed::Sealed>::Words<V> as Words<T, V>>::Array;

/// The rotated partners minus the words themselves, plus a constant.
struct Differences<'a, V: Vector, T: Torus, const BLOCKS: usize, const DISTANCE: usize> {
    partners: Blocks<'a, Array<V, T>, BLOCKS>,
    own: Blocks<'a, Array<V, T>, BLOCKS>,
    more: T::Words<V>,
}

impl<V: Vector, T: Torus, const BLOCKS: usize, const DISTANCE: usize> Differences<'_, V, T, BLOCKS, DISTANCE> {
    #[inline(always)]
    fn get(&self, block: usize, at: usize) -> T::Words<V> {
        let on_circle = block + DISTANCE;
        let partner = T::Words::<V>::load(self.partners.get(on_circle % BLOCKS, at));
        let own = T::Words::<V>::load(self.own.get(block, at));
        let negated = on_circle / BLOCKS == 1;
        if negated { self.more.sub(partner.add(own)) } else { partner.sub(own).add(self.more) }
    }
}

/// The digits of one level. `TOP` means that no other digit lies above them.
struct Digits<'a, V: Vector, T: Torus, const BLOCKS: usize, const DISTANCE: usize, const TOP: bool> {
    words: Differences<'a, V, T, BLOCKS, DISTANCE>,
    digit: Digit<T>,
}

impl<V: Vector, T: Torus, const BLOCKS: usize, const DISTANCE: usize, const TOP: bool> Source<V>
    for Digits<'_, V, T, BLOCKS, DISTANCE, TOP>
{
    #[inline(always)]
    fn numbers(&self, block: usize, at: usize) -> V {
        self.digit.cut::<V, TOP>(self.words.get(block, at))
    }
}

/// Digits with ties rounded to even.
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

/// Runs the pass over `len` vectors of each block.
#[inline(always)]
fn forward<V: Vector, S: Source<V>, const R: usize>(plan: &Plan, source: &S, len: usize, points: &mut [Pair<V>]) {
    let mut points = BlocksMut::new(points, plan.points / R / V::LANES, len);
    let factors = factors::<V, R>(plan);
    for at in 0..len {
        transform::<V, R, false>(&mut Forward { source, factors, points: &mut points, at });
    }
}

#[inline(always)]
fn factors<V: Vector, const R: usize>(plan: &Plan) -> &[Pair<V>; R] {
    whole(&plan.first.1).try_into().expect("a factor for each block")
}

struct Forward<'a, 'p, V: Vector, S, const R: usize> {
    source: &'a S,
    factors: &'a [Pair<V>; R],
    points: &'a mut BlocksMut<'p, Pair<V>, R>,
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

/// The inverse pass: converts points to torus words, and adds the words to a polynomial or replaces
/// it.
pub struct ToWords<'a, T> {
    pub(super) plan: &'a Plan,
    pub(super) points: &'a [f64],
    /// The polynomial with its margin, which is rewritten.
    pub(super) polynomial: &'a mut [T],
    pub(super) accumulate: bool,
    pub(super) ahead: Ahead<'a>,
}

impl<T: Torus> Kernel for ToWords<'_, T> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        by_radix!(to_words, S, self)
    }
}

#[inline(always)]
fn to_words<V: Vector, T: Torus, const R: usize, const BLOCKS: usize>(job: ToWords<'_, T>) {
    let ahead = job.ahead;
    match (job.accumulate, ahead.is_often()) {
        (true, true) => inverse::<V, T, R, BLOCKS, true>(job, ahead),
        (true, false) => inverse::<V, T, R, BLOCKS, true>(job, Nothing),
        (false, _) => inverse::<V, T, R, BLOCKS, false>(job, Nothing),
    }
}

#[inline(always)]
fn inverse<V: Vector, T: Torus, const R: usize, const BLOCKS: usize, const ACCUMULATE: bool>(
    job: ToWords<'_, T>,
    mut ahead: impl Fetch,
) {
    let ToWords { plan, points, polynomial, accumulate: _, ahead: _ } = job;
    let len = 2 * plan.points / BLOCKS / V::LANES;
    let points = Blocks::new(whole(points), len, len);
    let mut words = BlocksMut::<_, BLOCKS>::new(whole_mut(polynomial), len, len);
    let factors = factors::<V, R>(plan);
    for at in 0..len {
        ahead.fetch();
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

/// The conversion to words runs after the transform, because there are too few registers for both.
struct Inverse<'a, 'p, V: Vector, const R: usize> {
    points: &'a Blocks<'p, Pair<V>, R>,
    factors: &'a [Pair<V>; R],
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
