//! Complex numbers and their small transforms. A number is a vector of real parts and a vector of
//! imaginary parts, stored as a pair.

use super::plan::{EachFactor, Factor, GROUP};
use crate::simd::{Pair, Vector};

/// A complex number per lane.
///
/// Operations are written in the order in which they should start, with independent operations side
/// by side. The compiler keeps this order, and a processor looks ahead by only about sixty
/// operations.
#[derive(Clone, Copy)]
pub(super) struct Complex<V> {
    pub(super) re: V,
    pub(super) im: V,
}

impl<V: Vector> Complex<V> {
    #[inline(always)]
    pub(super) fn zero() -> Self {
        Self { re: V::splat(0.0), im: V::splat(0.0) }
    }
    #[inline(always)]
    pub(super) fn splat(factor: Factor) -> Self {
        Self { re: V::splat(factor[0]), im: V::splat(factor[1]) }
    }
    #[inline(always)]
    pub(super) fn load([re, im]: &Pair<V>) -> Self {
        Self { re: V::load(re), im: V::load(im) }
    }
    #[inline(always)]
    pub(super) fn store(self, [re, im]: &mut Pair<V>) {
        self.re.store(re);
        self.im.store(im);
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self { re: self.re.add(other.re), im: self.im.add(other.im) }
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self { re: self.re.sub(other.re), im: self.im.sub(other.im) }
    }
    /// One column of a square of vectors.
    #[inline(always)]
    pub(super) fn column(rows: &[Self], index: usize) -> Self {
        let (mut re, mut im) = ([V::splat(0.0); GROUP], [V::splat(0.0); GROUP]);
        for row in 0..V::LANES {
            (re[row], im[row]) = (rows[row].re, rows[row].im);
        }
        Self { re: V::column(&re[..V::LANES], index), im: V::column(&im[..V::LANES], index) }
    }
    /// `self + i * other`.
    #[inline(always)]
    fn add_turned(self, other: Self) -> Self {
        Self { re: self.re.sub(other.im), im: self.im.add(other.re) }
    }
    /// `self - i * other`.
    #[inline(always)]
    fn sub_turned(self, other: Self) -> Self {
        Self { re: self.re.add(other.im), im: self.im.sub(other.re) }
    }
    #[inline(always)]
    pub(super) fn mul(self, factor: Self) -> Self {
        let (re, im) = (self.im.mul(factor.im), self.im.mul(factor.re));
        Self { re: self.re.mul_sub(factor.re, re), im: self.re.mul_add(factor.im, im) }
    }
    /// The product with the conjugate of `factor`.
    #[inline(always)]
    pub(super) fn mul_conjugate(self, factor: Self) -> Self {
        let (re, im) = (self.im.mul(factor.im), self.re.mul(factor.im));
        Self { re: self.re.mul_add(factor.re, re), im: self.im.mul_sub(factor.re, im) }
    }
    /// The product with a number that is equal in all lanes.
    #[inline(always)]
    pub(super) fn mul_by_each(self, [re, im, im_again, re_again]: &EachFactor) -> Self {
        let (by_im, by_re) = (self.im.mul(V::splat(*im)), self.im.mul(V::splat(*re_again)));
        Self { re: self.re.mul_sub(V::splat(*re), by_im), im: self.re.mul_add(V::splat(*im_again), by_re) }
    }
    /// The product with the conjugate of a number that is equal in all lanes.
    #[inline(always)]
    pub(super) fn mul_conjugate_by_each(self, [re, im, im_again, re_again]: &EachFactor) -> Self {
        let (im_by, re_by) = (self.im.mul(V::splat(*im)), self.re.mul(V::splat(*im_again)));
        Self { re: self.re.mul_add(V::splat(*re), im_by), im: self.im.mul_sub(V::splat(*re_again), re_by) }
    }
    /// `self + a * b`.
    #[inline(always)]
    pub(super) fn add_product(self, a: Self, b: Self) -> Self {
        let (re, im) = (a.re.mul_add(b.re, self.re), a.re.mul_add(b.im, self.im));
        Self { re: a.im.neg_mul_add(b.im, re), im: a.im.mul_add(b.re, im) }
    }
}

/// Input and output of a transform, one number at a time, in the order in which the transform
/// proceeds. The work before and after the transform then overlaps with its additions, on execution
/// units that would otherwise be idle.
pub(super) trait Ring<V: Vector> {
    fn get(&mut self, index: usize) -> Complex<V>;
    fn put(&mut self, index: usize, value: Complex<V>);
}

/// Computes `put(k) = sum of get(j) e(j k / R)`, or with `e(-j k / R)` if `INVERSE`, for R of 1, 2,
/// 4 or 8.
#[inline(always)]
pub(super) fn transform<V: Vector, const R: usize, const INVERSE: bool>(ring: &mut impl Ring<V>) {
    match R {
        1 => {
            let only = ring.get(0);
            ring.put(0, only);
        }
        2 => {
            let (a, b) = (ring.get(0), ring.get(1));
            ring.put(0, a.add(b));
            ring.put(1, a.sub(b));
        }
        4 => {
            let [a, b, c, d] = quarter::<V, INVERSE>(ring, [0, 1, 2, 3]);
            ring.put(0, a);
            ring.put(1, b);
            ring.put(2, c);
            ring.put(3, d);
        }
        _ => transform8::<V, INVERSE>(ring),
    }
}

/// The transform of length 4.
#[inline(always)]
fn quarter<V: Vector, const INVERSE: bool>(ring: &mut impl Ring<V>, [a, b, c, d]: [usize; 4]) -> [Complex<V>; 4] {
    let (a, c) = (ring.get(a), ring.get(c));
    let (even, even_minus) = (a.add(c), a.sub(c));
    let (b, d) = (ring.get(b), ring.get(d));
    let (odd, odd_minus) = (b.add(d), b.sub(d));
    let [first, third] = turned::<V, INVERSE>(even_minus, odd_minus);
    [even.add(odd), first, even.sub(odd), third]
}

/// Returns `a + i b` and `a - i b`, or in reverse order if `INVERSE`.
#[inline(always)]
fn turned<V: Vector, const INVERSE: bool>(a: Complex<V>, b: Complex<V>) -> [Complex<V>; 2] {
    if INVERSE { [a.sub_turned(b), a.add_turned(b)] } else { [a.add_turned(b), a.sub_turned(b)] }
}

#[inline(always)]
fn transform8<V: Vector, const INVERSE: bool>(ring: &mut impl Ring<V>) {
    let even = quarter::<V, INVERSE>(ring, [0, 2, 4, 6]);
    let odd = quarter::<V, INVERSE>(ring, [1, 3, 5, 7]);
    ring.put(0, even[0].add(odd[0]));
    ring.put(4, even[0].sub(odd[0]));
    let [second, sixth] = turned::<V, INVERSE>(even[2], odd[2]);
    ring.put(2, second);
    ring.put(6, sixth);
    // Multiply by e(1/8) and e(3/8): form the sum and difference of the parts, and fuse the factor
    // sqrt(1/2) into the next addition.
    let root = V::splat(std::f64::consts::FRAC_1_SQRT_2);
    let (sum, difference) = (odd[1].re.add(odd[1].im), odd[1].re.sub(odd[1].im));
    let (re, im) = if INVERSE { (sum, difference) } else { (difference, sum) };
    let [plus, minus] = [re.mul_add(root, even[1].re), re.neg_mul_add(root, even[1].re)];
    let [im_plus, im_minus] = [im.mul_add(root, even[1].im), im.neg_mul_add(root, even[1].im)];
    ring.put(1, Complex { re: plus, im: if INVERSE { im_minus } else { im_plus } });
    ring.put(5, Complex { re: minus, im: if INVERSE { im_plus } else { im_minus } });
    let (sum, difference) = (odd[3].re.add(odd[3].im), odd[3].re.sub(odd[3].im));
    let (re, im) = if INVERSE { (difference, sum) } else { (sum, difference) };
    let [plus, minus] = [re.mul_add(root, even[3].re), re.neg_mul_add(root, even[3].re)];
    let [im_plus, im_minus] = [im.mul_add(root, even[3].im), im.neg_mul_add(root, even[3].im)];
    ring.put(3, Complex { re: minus, im: if INVERSE { im_minus } else { im_plus } });
    ring.put(7, Complex { re: plus, im: if INVERSE { im_plus } else { im_minus } });
}
