//! Torus words to twisted complex points, and back.
//!
//! A polynomial of N coefficients is folded into N/2 complex points, coefficient j with j + N/2.

use cloakwork_params::Decomposition;
use tfhe_fft::c64;

use super::plan::Twist;
use crate::{
    simd::{Kernel, Simd},
    torus::Torus,
};

/// One level's digits of `X^rotation polynomial - polynomial`, or of the polynomial itself.
pub(super) struct DigitsToPoints<'a, T> {
    pub(super) polynomial: &'a [T],
    pub(super) rotation: Option<usize>,
    pub(super) digit: Digit<T>,
    pub(super) twist: &'a Twist,
    pub(super) points: &'a mut [c64],
    pub(super) ahead: &'a [f64],
}

/// How to cut one digit, in [-B/2, B/2), out of a word without looking at the others.
///
/// Adding B/2 at every level (and half of the first dropped bit, to round) turns the balanced digits
/// into plain bit fields that are B/2 too large. The representative of a tie may differ from
/// [`crate::decomposition`]'s; both recompose to the same rounded word.
#[derive(Clone, Copy)]
pub(super) struct Digit<T> {
    offset: T,
    /// Where the gadget's last digit begins.
    least: u32,
    shift: u32,
    mask: T,
    excess: f64,
}

impl<T: Torus> Digit<T> {
    /// Level 1 has the largest weight, q/B.
    pub(super) fn of_level(gadget: Decomposition, level: usize) -> Self {
        let base_log = gadget.base_log;
        let weight = |level: usize| T::BITS - base_log * level as u32;
        let rounding = 1 << (weight(gadget.levels) - 1);
        let halves = (1..=gadget.levels).map(|level| 1u64 << (weight(level) + base_log - 1));
        Self {
            offset: T::from_u64(halves.fold(rounding, |sum, half| sum.wrapping_add(half))),
            least: weight(gadget.levels),
            shift: weight(level),
            mask: T::from_u64((1 << base_log) - 1),
            excess: (1u64 << (base_log - 1)) as f64,
        }
    }

    #[inline(always)]
    fn cut(self, word: T) -> f64 {
        word.wrapping_add(self.offset).bit_field(self.shift, self.mask).small_to_f64() - self.excess
    }

    /// As [`Self::cut`], with halves rounded to even instead of up.
    ///
    /// A word that comes straight out of a product ends in zeros: a double has 53 bits, and most of them
    /// stand before the point. Halves are then common, and rounding all of them up shifts every
    /// coefficient alike, which a key of zeros and ones sums up. A word that products have been added to has no
    /// such zeros.
    #[inline(always)]
    fn cut_even(self, word: T) -> f64 {
        let odd = word.bit_field(self.least, T::from_u64(1));
        self.cut(word.wrapping_add(odd).wrapping_sub(T::from_u64(1)))
    }
}

impl<T: Torus> Kernel for DigitsToPoints<'_, T> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { polynomial, rotation, digit, twist, points, ahead } = self;
        let half = points.len();
        let (low, high) = polynomial.split_at(half);
        let mut ahead = Ahead::new(ahead, half);
        let Some(rotation) = rotation else {
            let words = low.iter().zip(high).zip(&twist.re).zip(&twist.im);
            for (point, (((low, high), re), im)) in points.iter_mut().zip(words) {
                *point = twisted::<S>(digit.cut_even(*low), digit.cut_even(*high), *re, *im);
            }
            return;
        };
        for segment in segments(2 * half, rotation) {
            for to in runs(segment.to.clone()) {
                ahead.fetch::<S>();
                let offset = to.start - segment.to.start;
                let rotated_low = &polynomial[segment.from + offset..][..to.len()];
                let rotated_high = &polynomial[segment.from_high + offset..][..to.len()];
                let rotated = rotated_low.iter().zip(rotated_high);
                let still = low[to.clone()].iter().zip(&high[to.clone()]);
                let twist = twist.re[to.clone()].iter().zip(&twist.im[to.clone()]);
                for (((point, rotated), still), twist) in points[to].iter_mut().zip(rotated).zip(still).zip(twist) {
                    let re = digit.cut(signed(*rotated.0, segment.sign_low).wrapping_sub(*still.0));
                    let im = digit.cut(signed(*rotated.1, segment.sign_high).wrapping_sub(*still.1));
                    *point = twisted::<S>(re, im, *twist.0, *twist.1);
                }
            }
        }
    }
}

/// Points converted between two looks ahead.
const RUN: usize = 64;

/// `range` in runs of up to [`RUN`].
#[inline(always)]
fn runs(range: std::ops::Range<usize>) -> impl Iterator<Item = std::ops::Range<usize>> {
    range.clone().step_by(RUN).map(move |start| start..(start + RUN).min(range.end))
}

/// A piece of the next key, brought closer a few cache lines at a time while this key is worked on: a
/// ciphertext alone would otherwise wait for memory at every step.
struct Ahead<'a> {
    key: &'a [f64],
    share: usize,
}

impl<'a> Ahead<'a> {
    #[inline(always)]
    fn new(key: &'a [f64], points: usize) -> Self {
        Self { key, share: key.len().div_ceil(points.div_ceil(RUN)).next_multiple_of(LINE) }
    }

    #[inline(always)]
    fn fetch<S: Simd>(&mut self) {
        let (now, later) = self.key.split_at(self.share.min(self.key.len()));
        now.chunks(LINE).for_each(|line| S::prefetch(line));
        self.key = later;
    }
}

/// Doubles in a cache line.
const LINE: usize = 8;

/// `word` for a sign of zero, `-word` for a sign of all ones.
#[inline(always)]
fn signed<T: Torus>(word: T, sign: T) -> T {
    word.xor(sign).wrapping_sub(sign)
}

#[inline(always)]
fn twisted<S: Simd>(re: f64, im: f64, twist_re: f64, twist_im: f64) -> c64 {
    c64 { re: S::mul_add(re, twist_re, -(im * twist_im)), im: S::mul_add(re, twist_im, im * twist_re) }
}

/// A run of points whose two coefficients both come from one unbroken run of the unrotated polynomial.
struct Segment<T> {
    to: std::ops::Range<usize>,
    from: usize,
    sign_low: T,
    from_high: usize,
    sign_high: T,
}

/// Splits N/2 points at the one place where the rotation by X^r wraps round.
#[inline(always)]
fn segments<T: Torus>(size: usize, rotation: usize) -> [Segment<T>; 2] {
    let half = size / 2;
    debug_assert!(rotation < 2 * size);
    // Coefficient j comes from j + start on a circle of 2N, whose second half is the negated first.
    let start = 2 * size - rotation;
    let cut = (half - start % half) % half;
    let piece = |to: std::ops::Range<usize>| {
        let place = |index: usize| {
            let index = index % (2 * size);
            (index % size, if index < size { T::default() } else { T::from_u64(u64::MAX) })
        };
        let (from, sign_low) = place(to.start + start);
        let (from_high, sign_high) = place(to.start + half + start);
        Segment { to, from, sign_low, from_high, sign_high }
    };
    [piece(0..cut), piece(cut..half)]
}

/// Adds the untwisted points, read as fractions of the torus, to `polynomial`, or overwrites it.
pub(super) struct PointsToTorus<'a, T> {
    pub(super) points: &'a [c64],
    pub(super) twist: &'a Twist,
    pub(super) polynomial: &'a mut [T],
    pub(super) accumulate: bool,
    pub(super) ahead: &'a [f64],
}

impl<T: Torus> Kernel for PointsToTorus<'_, T> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { points, twist, polynomial, accumulate, ahead } = self;
        let (low, high) = polynomial.split_at_mut(points.len());
        let mut ahead = Ahead::new(ahead, points.len());
        for run in runs(0..points.len()) {
            ahead.fetch::<S>();
            let words = low[run.clone()].iter_mut().zip(&mut high[run.clone()]);
            let twist = twist.re[run.clone()].iter().zip(&twist.im[run.clone()]);
            for ((low, high), (point, (twist_re, twist_im))) in words.zip(points[run].iter().zip(twist)) {
                let re = S::mul_add(point.re, *twist_re, point.im * twist_im);
                let im = S::mul_add(point.im, *twist_re, -(point.re * twist_im));
                let re = T::from_fraction::<S>(re - S::round(re));
                let im = T::from_fraction::<S>(im - S::round(im));
                *low = if accumulate { low.wrapping_add(re) } else { re };
                *high = if accumulate { high.wrapping_add(im) } else { im };
            }
        }
    }
}

/// Whole torus words, as signed fractions times `scale`.
pub(super) struct TorusToPoints<'a, T> {
    pub(super) polynomial: &'a [T],
    pub(super) scale: f64,
    pub(super) twist: &'a Twist,
    pub(super) points: &'a mut [c64],
}

impl<T: Torus> Kernel for TorusToPoints<'_, T> {
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { polynomial, scale, twist, points } = self;
        let (low, high) = polynomial.split_at(points.len());
        let words = low.iter().zip(high).zip(&twist.re).zip(&twist.im);
        for (point, (((low, high), re), im)) in points.iter_mut().zip(words) {
            *point = twisted::<S>(low.to_signed_f64() * scale, high.to_signed_f64() * scale, *re, *im);
        }
    }
}
