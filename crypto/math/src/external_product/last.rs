//! The last pass, group by group: first across vectors, then within vectors. A transposition turns
//! the second half into work across vectors as well.

use super::{
    complex::{Complex, Ring, transform},
    plan::{EachFactor, GROUP, Plan},
};
use crate::simd::{Pair, Vector, whole};

/// A group in memory.
type Group<V> = [Pair<V>; GROUP];

/// The last pass with its twiddle factors.
pub(super) struct LastPass<'a, V: Vector> {
    radix: usize,
    across: &'a [EachFactor],
    within: &'a [Pair<V>],
}

impl<'a, V: Vector> LastPass<'a, V> {
    #[inline(always)]
    pub(super) fn new(plan: &'a Plan) -> Self {
        Self { radix: plan.across.0, across: &plan.across.1, within: whole(&plan.within) }
    }

    /// Runs the pass on the group that begins at vector `at` of the polynomial.
    #[inline(always)]
    pub(super) fn forward(&self, at: usize, from: &Group<V>, to: &mut Group<V>) {
        match (self.radix, V::LANES) {
            (4, 4) => self.forward_units::<4, 4, 4>(at, from, to),
            (4, _) => self.forward_units::<4, 8, 8>(at, from, to),
            (_, 4) => self.forward_units::<8, 4, 8>(at, from, to),
            _ => self.forward_units::<8, 8, 8>(at, from, to),
        }
    }

    /// Runs the inverse of the pass, up to a constant factor, on
    /// `sum over r of digits[r] * key[r]`.
    #[inline(always)]
    pub(super) fn inverse<const ROWS: usize>(
        &self,
        at: usize,
        digits: &[Group<V>; ROWS],
        key: &[[Pair<V>; ROWS]; GROUP],
        to: &mut Group<V>,
    ) {
        match (self.radix, V::LANES) {
            (4, 4) => self.inverse_units::<4, 4, 4, ROWS>(at, digits, key, to),
            (4, _) => self.inverse_units::<4, 8, 8, ROWS>(at, digits, key, to),
            (_, 4) => self.inverse_units::<8, 4, 8, ROWS>(at, digits, key, to),
            _ => self.inverse_units::<8, 8, 8, ROWS>(at, digits, key, to),
        }
    }

    /// Works in units of vectors that depend on each other: rings of `ACROSS` vectors, and squares
    /// of `LANES` vectors.
    #[inline(always)]
    fn forward_units<const ACROSS: usize, const LANES: usize, const UNIT: usize>(
        &self,
        at: usize,
        from: &Group<V>,
        to: &mut Group<V>,
    ) {
        for unit in (0..GROUP).step_by(UNIT) {
            let (across, within) = self.factors::<UNIT>(at + unit);
            let mut x = [Complex::<V>::zero(); UNIT];
            for first in (0..UNIT).step_by(ACROSS) {
                transform::<V, ACROSS, false>(&mut Across { from: &from[unit..], x: &mut x, factors: across, first });
            }
            for first in (0..UNIT).step_by(LANES) {
                transform::<V, LANES, false>(&mut Within { x: &x, to: &mut to[unit..], factors: within, first });
            }
        }
    }

    #[inline(always)]
    fn inverse_units<const ACROSS: usize, const LANES: usize, const UNIT: usize, const ROWS: usize>(
        &self,
        at: usize,
        digits: &[Group<V>; ROWS],
        key: &[[Pair<V>; ROWS]; GROUP],
        to: &mut Group<V>,
    ) {
        for unit in (0..GROUP).step_by(UNIT) {
            let (across, within) = self.factors::<UNIT>(at + unit);
            let mut x = [Complex::<V>::zero(); UNIT];
            for first in (0..UNIT).step_by(LANES) {
                let mut ring = InverseWithin { digits, key, at: unit + first, x: &mut x, factors: within, first };
                transform::<V, LANES, true>(&mut ring);
            }
            for first in (0..UNIT).step_by(ACROSS) {
                transform::<V, ACROSS, true>(&mut InverseAcross { x: &x, to: &mut to[unit..], factors: across, first });
            }
        }
    }

    /// The twiddle factors of both halves for the unit that begins at vector `at`.
    #[inline(always)]
    fn factors<const UNIT: usize>(&self, at: usize) -> (&'a [EachFactor; UNIT], &'a [Pair<V>; UNIT]) {
        let across = self.across[at..][..UNIT].try_into().expect("cut to size");
        let within = self.within[at..][..UNIT].try_into().expect("cut to size");
        (across, within)
    }
}

/// Transforms one ring of whole vectors, from memory.
struct Across<'a, V: Vector, const UNIT: usize> {
    from: &'a [Pair<V>],
    x: &'a mut [Complex<V>; UNIT],
    factors: &'a [EachFactor; UNIT],
    first: usize,
}

impl<V: Vector, const UNIT: usize> Ring<V> for Across<'_, V, UNIT> {
    #[inline(always)]
    fn get(&mut self, index: usize) -> Complex<V> {
        let number = Complex::load(&self.from[self.first + index]);
        if index == 0 { number } else { number.mul_by_each(&self.factors[self.first + index]) }
    }
    #[inline(always)]
    fn put(&mut self, index: usize, value: Complex<V>) {
        self.x[self.first + index] = value;
    }
}

/// Transforms the columns of one square, to memory.
struct Within<'a, V: Vector, const UNIT: usize> {
    x: &'a [Complex<V>; UNIT],
    to: &'a mut [Pair<V>],
    factors: &'a [Pair<V>; UNIT],
    first: usize,
}

impl<V: Vector, const UNIT: usize> Ring<V> for Within<'_, V, UNIT> {
    #[inline(always)]
    fn get(&mut self, index: usize) -> Complex<V> {
        let number = Complex::column(&self.x[self.first..][..V::LANES], index);
        if index == 0 { number } else { number.mul(Complex::load(&self.factors[self.first + index])) }
    }
    #[inline(always)]
    fn put(&mut self, index: usize, value: Complex<V>) {
        value.store(&mut self.to[self.first + index]);
    }
}

/// Transforms the products with the key over one square.
struct InverseWithin<'a, V: Vector, const ROWS: usize, const UNIT: usize> {
    digits: &'a [Group<V>; ROWS],
    key: &'a [[Pair<V>; ROWS]; GROUP],
    /// First vector of the square within the group.
    at: usize,
    x: &'a mut [Complex<V>; UNIT],
    factors: &'a [Pair<V>; UNIT],
    first: usize,
}

impl<V: Vector, const ROWS: usize, const UNIT: usize> Ring<V> for InverseWithin<'_, V, ROWS, UNIT> {
    #[inline(always)]
    fn get(&mut self, index: usize) -> Complex<V> {
        let (at, key) = (self.at + index, &self.key[self.at + index]);
        let mut sum = Complex::load(&self.digits[0][at]).mul(Complex::load(&key[0]));
        for row in 1..ROWS {
            sum = sum.add_product(Complex::load(&self.digits[row][at]), Complex::load(&key[row]));
        }
        sum
    }
    #[inline(always)]
    fn put(&mut self, index: usize, value: Complex<V>) {
        let factor = &self.factors[self.first + index];
        self.x[self.first + index] = if index == 0 { value } else { value.mul_conjugate(Complex::load(factor)) };
    }
}

/// Transforms one ring of whole vectors, which are the columns of squares, to memory.
struct InverseAcross<'a, V: Vector, const UNIT: usize> {
    x: &'a [Complex<V>; UNIT],
    to: &'a mut [Pair<V>],
    factors: &'a [EachFactor; UNIT],
    first: usize,
}

impl<V: Vector, const UNIT: usize> Ring<V> for InverseAcross<'_, V, UNIT> {
    #[inline(always)]
    fn get(&mut self, index: usize) -> Complex<V> {
        let at = self.first + index;
        Complex::column(&self.x[at / V::LANES * V::LANES..][..V::LANES], at % V::LANES)
    }
    #[inline(always)]
    fn put(&mut self, index: usize, value: Complex<V>) {
        let factor = &self.factors[self.first + index];
        let number = if index == 0 { value } else { value.mul_conjugate_by_each(factor) };
        number.store(&mut self.to[self.first + index]);
    }
}
