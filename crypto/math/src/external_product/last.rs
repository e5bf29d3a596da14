//! The last pass, group by group: across vectors, then within them, which a transposition turns into across again.

use super::{
    complex::{Complex, Ring, transform},
    plan::{Factor, GROUP, Plan},
};
use crate::simd::Vector;

/// A group in memory.
type Group<V> = [<V as Vector>::Pair; GROUP];

/// The pass on the group that begins at vector `at` of the whole.
#[inline(always)]
pub(super) fn last<V: Vector>(plan: &Plan, at: usize, from: &Group<V>, to: &mut Group<V>) {
    match (plan.across.0, V::LANES) {
        (4, 4) => units::<V, 4, 4, 4>(plan, at, from, to),
        (4, _) => units::<V, 4, 8, 8>(plan, at, from, to),
        (_, 4) => units::<V, 8, 4, 8>(plan, at, from, to),
        _ => units::<V, 8, 8, 8>(plan, at, from, to),
    }
}

/// The inverse of the pass, but for a factor, on `sum over r of digits[r] * key[r]`.
#[inline(always)]
pub(super) fn last_inverse<V: Vector, const ROWS: usize>(
    plan: &Plan,
    at: usize,
    digits: &[Group<V>; ROWS],
    key: &[[V::Pair; ROWS]; GROUP],
    to: &mut Group<V>,
) {
    match (plan.across.0, V::LANES) {
        (4, 4) => inverse_units::<V, 4, 4, 4, ROWS>(plan, at, digits, key, to),
        (4, _) => inverse_units::<V, 4, 8, 8, ROWS>(plan, at, digits, key, to),
        (_, 4) => inverse_units::<V, 8, 4, 8, ROWS>(plan, at, digits, key, to),
        _ => inverse_units::<V, 8, 8, 8, ROWS>(plan, at, digits, key, to),
    }
}

/// In units of vectors that depend on each other: rings of `ACROSS`, and squares of `LANES`.
#[inline(always)]
fn units<V: Vector, const ACROSS: usize, const LANES: usize, const UNIT: usize>(
    plan: &Plan,
    at: usize,
    from: &Group<V>,
    to: &mut Group<V>,
) {
    for unit in (0..GROUP).step_by(UNIT) {
        let (across, within) = factors::<V, UNIT>(plan, at + unit);
        let mut x = [Complex::<V>::zero(); UNIT];
        for first in (0..UNIT).step_by(ACROSS) {
            transform::<V, ACROSS, false>(&mut Across { from: &from[unit..], x: &mut x, factors: across, first });
        }
        for first in (0..UNIT).step_by(LANES) {
            transpose(&mut x[first..][..LANES]);
            transform::<V, LANES, false>(&mut Within { x: &x, to: &mut to[unit..], factors: within, first });
        }
    }
}

#[inline(always)]
fn inverse_units<V: Vector, const ACROSS: usize, const LANES: usize, const UNIT: usize, const ROWS: usize>(
    plan: &Plan,
    at: usize,
    digits: &[Group<V>; ROWS],
    key: &[[V::Pair; ROWS]; GROUP],
    to: &mut Group<V>,
) {
    for unit in (0..GROUP).step_by(UNIT) {
        let (across, within) = factors::<V, UNIT>(plan, at + unit);
        let mut x = [Complex::<V>::zero(); UNIT];
        for first in (0..UNIT).step_by(LANES) {
            let mut ring = InverseWithin { digits, key, at: unit + first, x: &mut x, factors: within, first };
            transform::<V, LANES, true>(&mut ring);
            transpose(&mut x[first..][..LANES]);
        }
        for first in (0..UNIT).step_by(ACROSS) {
            transform::<V, ACROSS, true>(&mut InverseAcross { x: &x, to: &mut to[unit..], factors: across, first });
        }
    }
}

/// The factors of both halves for the unit that begins at vector `at`.
#[inline(always)]
fn factors<V: Vector, const UNIT: usize>(plan: &Plan, at: usize) -> (&[Factor; UNIT], &[V::Pair; UNIT]) {
    let across = plan.across.1[at..][..UNIT].try_into().expect("cut to size");
    let within = V::pairs(&plan.within)[at..][..UNIT].try_into().expect("cut to size");
    (across, within)
}

/// From memory, over one ring of whole vectors.
struct Across<'a, V: Vector, const UNIT: usize> {
    from: &'a [V::Pair],
    x: &'a mut [Complex<V>; UNIT],
    factors: &'a [Factor; UNIT],
    first: usize,
}

impl<V: Vector, const UNIT: usize> Ring<V> for Across<'_, V, UNIT> {
    #[inline(always)]
    fn get(&mut self, index: usize) -> Complex<V> {
        let number = Complex::load(&self.from[self.first + index]);
        if index == 0 { number } else { number.mul(Complex::splat(self.factors[self.first + index])) }
    }
    #[inline(always)]
    fn put(&mut self, index: usize, value: Complex<V>) {
        self.x[self.first + index] = value;
    }
}

/// Over one square that has been transposed, to memory.
struct Within<'a, V: Vector, const UNIT: usize> {
    x: &'a [Complex<V>; UNIT],
    to: &'a mut [V::Pair],
    factors: &'a [V::Pair; UNIT],
    first: usize,
}

impl<V: Vector, const UNIT: usize> Ring<V> for Within<'_, V, UNIT> {
    #[inline(always)]
    fn get(&mut self, index: usize) -> Complex<V> {
        let number = self.x[self.first + index];
        if index == 0 { number } else { number.mul(Complex::load(&self.factors[self.first + index])) }
    }
    #[inline(always)]
    fn put(&mut self, index: usize, value: Complex<V>) {
        value.store(&mut self.to[self.first + index]);
    }
}

/// From the products with the key, over one square.
struct InverseWithin<'a, V: Vector, const ROWS: usize, const UNIT: usize> {
    digits: &'a [Group<V>; ROWS],
    key: &'a [[V::Pair; ROWS]; GROUP],
    /// Where in the group the square begins.
    at: usize,
    x: &'a mut [Complex<V>; UNIT],
    factors: &'a [V::Pair; UNIT],
    first: usize,
}

impl<V: Vector, const ROWS: usize, const UNIT: usize> Ring<V> for InverseWithin<'_, V, ROWS, UNIT> {
    #[inline(always)]
    fn get(&mut self, index: usize) -> Complex<V> {
        let mut sum = Complex::zero();
        for row in 0..ROWS {
            let digits = Complex::load(&self.digits[row][self.at + index]);
            sum = sum.add_product(digits, Complex::load(&self.key[self.at + index][row]));
        }
        sum
    }
    #[inline(always)]
    fn put(&mut self, index: usize, value: Complex<V>) {
        let factor = &self.factors[self.first + index];
        self.x[self.first + index] = if index == 0 { value } else { value.mul_conjugate(Complex::load(factor)) };
    }
}

/// Over one ring of whole vectors, to memory.
struct InverseAcross<'a, V: Vector, const UNIT: usize> {
    x: &'a [Complex<V>; UNIT],
    to: &'a mut [V::Pair],
    factors: &'a [Factor; UNIT],
    first: usize,
}

impl<V: Vector, const UNIT: usize> Ring<V> for InverseAcross<'_, V, UNIT> {
    #[inline(always)]
    fn get(&mut self, index: usize) -> Complex<V> {
        self.x[self.first + index]
    }
    #[inline(always)]
    fn put(&mut self, index: usize, value: Complex<V>) {
        let factor = self.factors[self.first + index];
        let number = if index == 0 { value } else { value.mul_conjugate(Complex::splat(factor)) };
        number.store(&mut self.to[self.first + index]);
    }
}

/// Of a square.
#[inline(always)]
fn transpose<V: Vector>(x: &mut [Complex<V>]) {
    let mut part = [V::splat(0.0); GROUP];
    for row in 0..V::LANES {
        part[row] = x[row].re;
    }
    V::transpose(&mut part[..V::LANES]);
    for row in 0..V::LANES {
        (x[row].re, part[row]) = (part[row], x[row].im);
    }
    V::transpose(&mut part[..V::LANES]);
    for row in 0..V::LANES {
        x[row].im = part[row];
    }
}
