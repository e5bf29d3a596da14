//! Sums, differences and products of polynomials modulo one prime, word by word.

use std::marker::PhantomData;

use crate::{
    modulus::{Factor, Modulus},
    simd::{
        Level, passes_shared, prefetch_once,
        residues::{Arithmetic, GROUP, Multiplier, ResidueKernel, Residues},
        whole, whole_mut,
    },
};

/// Operations on residues of one prime, in slices of equal length: a multiple of [`STEP`] words.
/// Residues are fully reduced before and after each operation.
#[derive(Clone, Copy, Debug)]
pub struct Pointwise {
    modulus: Modulus,
    arithmetic: Arithmetic,
}

/// Words that are processed at once, on every instruction set.
pub const STEP: usize = 32;

impl Pointwise {
    /// Selects the best instruction set of this machine.
    pub fn new(modulus: Modulus) -> Self {
        Self::with_level(modulus, Level::detect())
    }

    /// Selects one instruction set.
    pub fn with_level(modulus: Modulus, level: Level) -> Self {
        Self { modulus, arithmetic: Arithmetic::fastest(level, modulus) }
    }

    /// The prime.
    pub fn modulus(&self) -> Modulus {
        self.modulus
    }

    /// `to += other`.
    pub fn add(&self, to: &mut [u64], other: &[u64]) {
        self.with_other::<Add>(to, other);
    }

    /// `to -= other`.
    pub fn sub(&self, to: &mut [u64], other: &[u64]) {
        self.with_other::<Sub>(to, other);
    }

    /// `to = other - to`.
    pub fn sub_from(&self, to: &mut [u64], other: &[u64]) {
        self.with_other::<SubFrom>(to, other);
    }

    /// `to *= other`.
    pub fn multiply(&self, to: &mut [u64], other: &[u64]) {
        self.with_other::<Multiply>(to, other);
    }

    /// `to += number`.
    pub fn add_constant(&self, to: &mut [u64], number: u64) {
        check(to.len(), to.len());
        self.arithmetic.run(AddConstant { modulus: self.modulus, number, to });
    }

    /// `to *= factor`.
    pub fn scale(&self, to: &mut [u64], factor: Factor) {
        check(to.len(), to.len());
        self.arithmetic.run(Scale { modulus: self.modulus, factor, to });
    }

    /// `to = (to - other) * factor`.
    pub fn sub_times(&self, to: &mut [u64], other: &[u64], factor: Factor) {
        check(to.len(), other.len());
        self.arithmetic.run(SubTimes { modulus: self.modulus, factor, to, other });
    }

    /// `to` becomes the sum of all products.
    pub fn sum_of_products(&self, pairs: &[[&[u64]; 2]], to: &mut [u64]) {
        let terms: Vec<(&[u64], [&[u64]; 1])> = pairs.iter().map(|[a, b]| (*a, [*b])).collect();
        check_terms(&terms, to.len());
        self.arithmetic.run(SumsOfProducts::<1, GROUP> { modulus: self.modulus, terms: &terms, to: [to] });
    }

    /// Two sums of products with common first factors, which are read once for both sums.
    pub fn sums_of_products(&self, terms: &[(&[u64], [&[u64]; 2])], to: [&mut [u64]; 2]) {
        check_terms(terms, to[0].len());
        check(to[0].len(), to[1].len());
        self.arithmetic.run(SumsOfProducts::<2, { GROUP / 2 }> { modulus: self.modulus, terms, to });
    }

    fn with_other<O: Operation>(&self, to: &mut [u64], other: &[u64]) {
        check(to.len(), other.len());
        self.arithmetic.run(WithOther { modulus: self.modulus, to, other, operation: PhantomData::<O> });
    }
}

fn check(to: usize, other: usize) {
    assert!(to == other && to.is_multiple_of(STEP), "slices of {to} and {other} words");
}

fn check_terms<const SUMS: usize>(terms: &[(&[u64], [&[u64]; SUMS])], len: usize) {
    for (common, others) in terms {
        check(len, common.len());
        others.iter().for_each(|other| check(len, other.len()));
    }
}

/// An operation on two residues in each lane.
trait Operation {
    fn apply<V: Residues>(to: V, other: V, prime: V::Prime, value: u64) -> V;
}

struct Add;
struct Sub;
struct SubFrom;
struct Multiply;

impl Operation for Add {
    #[inline(always)]
    fn apply<V: Residues>(to: V, other: V, _: V::Prime, value: u64) -> V {
        to.add(other).fold(V::splat(value))
    }
}

impl Operation for Sub {
    #[inline(always)]
    fn apply<V: Residues>(to: V, other: V, _: V::Prime, value: u64) -> V {
        to.add(V::splat(value)).sub(other).fold(V::splat(value))
    }
}

impl Operation for SubFrom {
    #[inline(always)]
    fn apply<V: Residues>(to: V, other: V, prime: V::Prime, value: u64) -> V {
        Sub::apply(other, to, prime, value)
    }
}

impl Operation for Multiply {
    #[inline(always)]
    fn apply<V: Residues>(to: V, other: V, prime: V::Prime, _: u64) -> V {
        V::reduce(V::add_product(V::no_products(), to, other), prime)
    }
}

struct WithOther<'a, O> {
    modulus: Modulus,
    to: &'a mut [u64],
    other: &'a [u64],
    operation: PhantomData<O>,
}

impl<O: Operation> ResidueKernel for WithOther<'_, O> {
    #[inline(always)]
    fn run<V: Residues>(self) {
        let (prime, value) = (V::prime(self.modulus), self.modulus.value());
        let (to, other): (&mut [V::Array], &[V::Array]) = (whole_mut(self.to), whole(self.other));
        for (to, other) in to.iter_mut().zip(other) {
            O::apply(V::load(to), V::load(other), prime, value).store(to);
        }
    }
}

struct AddConstant<'a> {
    modulus: Modulus,
    number: u64,
    to: &'a mut [u64],
}

impl ResidueKernel for AddConstant<'_> {
    #[inline(always)]
    fn run<V: Residues>(self) {
        let (number, value) = (V::splat(self.number), V::splat(self.modulus.value()));
        let to: &mut [V::Array] = whole_mut(self.to);
        for to in to {
            V::load(to).add(number).fold(value).store(to);
        }
    }
}

struct Scale<'a> {
    modulus: Modulus,
    factor: Factor,
    to: &'a mut [u64],
}

impl ResidueKernel for Scale<'_> {
    #[inline(always)]
    fn run<V: Residues>(self) {
        let (prime, factor) = (V::prime(self.modulus), Multiplier::splat(self.factor));
        let to: &mut [V::Array] = whole_mut(self.to);
        for to in to {
            V::load(to).multiply(factor, prime).least(V::EXCESS, self.modulus.value(), prime).store(to);
        }
    }
}

struct SubTimes<'a> {
    modulus: Modulus,
    factor: Factor,
    to: &'a mut [u64],
    other: &'a [u64],
}

impl ResidueKernel for SubTimes<'_> {
    #[inline(always)]
    fn run<V: Residues>(self) {
        let (prime, value) = (V::prime(self.modulus), self.modulus.value());
        let factor = Multiplier::splat(self.factor);
        let (to, other): (&mut [V::Array], &[V::Array]) = (whole_mut(self.to), whole(self.other));
        for (to, other) in to.iter_mut().zip(other) {
            let difference = V::load(to).add(V::splat(value)).sub(V::load(other));
            difference.multiply(factor, prime).least(V::EXCESS, value, prime).store(to);
        }
    }
}

struct SumsOfProducts<'a, const SUMS: usize, const VECTORS: usize> {
    modulus: Modulus,
    terms: &'a [(&'a [u64], [&'a [u64]; SUMS])],
    to: [&'a mut [u64]; SUMS],
}

impl<const SUMS: usize, const VECTORS: usize> ResidueKernel for SumsOfProducts<'_, SUMS, VECTORS> {
    #[inline(always)]
    fn run<V: Residues>(self) {
        if passes_shared() { self.sums::<V, true>() } else { self.sums::<V, false>() }
    }
}

impl<const SUMS: usize, const VECTORS: usize> SumsOfProducts<'_, SUMS, VECTORS> {
    #[inline(always)]
    fn sums<V: Residues, const PASSES_SHARED: bool>(mut self) {
        let (prime, value) = (V::prime(self.modulus), V::splat(self.modulus.value()));
        let groups = self.to[0].len() / (V::COUNT * VECTORS);
        for at in 0..groups {
            let mut totals = [[V::splat(0); VECTORS]; SUMS];
            for terms in self.terms.chunks(V::PRODUCTS_MAX) {
                let mut sums = [[V::no_products(); VECTORS]; SUMS];
                for (common, others) in terms {
                    let common: &[[V::Array; VECTORS]] = whole(common);
                    fetch_ahead::<_, VECTORS, PASSES_SHARED>(common, at);
                    for (sums, other) in sums.iter_mut().zip(others) {
                        let other: &[[V::Array; VECTORS]] = whole(other);
                        fetch_ahead::<_, VECTORS, PASSES_SHARED>(other, at);
                        for (sum, (a, b)) in sums.iter_mut().zip(common[at].iter().zip(&other[at])) {
                            *sum = V::add_product(*sum, V::load(a), V::load(b));
                        }
                    }
                }
                for (totals, sums) in totals.iter_mut().zip(sums) {
                    for (total, sum) in totals.iter_mut().zip(sums) {
                        *total = total.add(V::reduce(sum, prime)).fold(value);
                    }
                }
            }
            for (to, totals) in self.to.iter_mut().zip(totals) {
                let to: &mut [[V::Array; VECTORS]] = whole_mut(to);
                for (to, total) in to[at].iter_mut().zip(totals) {
                    total.store(to);
                }
            }
        }
    }
}

/// Distance in bytes between the prefetch of a polynomial and its use. There are more polynomials
/// than a hardware prefetcher follows.
const AHEAD_BYTES: usize = 1 << 10;

/// Prefetches the data after the group at `at`, mostly to the second-level cache only. Equal
/// offsets of many polynomials map to one set of the first-level cache, and would evict each other
/// there.
#[inline(always)]
fn fetch_ahead<A, const VECTORS: usize, const PASSES_SHARED: bool>(groups: &[[A; VECTORS]], at: usize) {
    if let Some(group) = groups.get(at + AHEAD_BYTES / size_of::<[A; VECTORS]>()) {
        for vector in group {
            prefetch_once::<_, PASSES_SHARED>(vector);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn modulus() -> impl Strategy<Value = Modulus> {
        let below = (27_u32..=60, any::<u64>()).prop_map(|(bits, seed)| (seed >> (64 - bits)) | 1 << (bits - 1) | 1);
        let near = prop_oneof![below, Just(0x1000_0000_006e_0001), Just((1 << 50) - 27), Just((1 << 50) + 4)];
        near.prop_map(|start: u64| (start..).find_map(Modulus::new).expect("a prime"))
    }

    /// Random residues in which the extreme values are frequent.
    fn residues(modulus: Modulus, seed: u64, len: usize) -> Vec<u64> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            match state >> 61 {
                0 => modulus.value() - 1,
                1 => 0,
                _ => modulus.reduce(state.rotate_left(29)),
            }
        };
        (0..len).map(|_| next()).collect()
    }

    proptest! {
        #[test]
        fn operations_match_scalar_results(modulus in modulus(), seed: u64, steps in 1..4_usize, pairs in 0..20_usize) {
            let len = steps * STEP;
            let (a, b) = (residues(modulus, seed, len), residues(modulus, !seed, len));
            let factor = modulus.factor(b[0]);
            let each = |of: &dyn Fn(u64, u64) -> u64| a.iter().zip(&b).map(|(a, b)| of(*a, *b)).collect::<Vec<u64>>();
            for level in Level::available() {
                let pointwise = Pointwise::with_level(modulus, level);
                let after = |run: &dyn Fn(&mut [u64])| {
                    let mut to = a.clone();
                    run(&mut to);
                    to
                };
                prop_assert_eq!(after(&|to| pointwise.add(to, &b)), each(&|a, b| modulus.add(a, b)));
                prop_assert_eq!(after(&|to| pointwise.sub(to, &b)), each(&|a, b| modulus.sub(a, b)));
                prop_assert_eq!(after(&|to| pointwise.sub_from(to, &b)), each(&|a, b| modulus.sub(b, a)));
                prop_assert_eq!(after(&|to| pointwise.multiply(to, &b)), each(&|a, b| modulus.mul(a, b)));
                prop_assert_eq!(after(&|to| pointwise.add_constant(to, b[0])), each(&|one, _| modulus.add(one, b[0])));
                prop_assert_eq!(after(&|to| pointwise.scale(to, factor)), each(&|a, _| factor.times(a)));
                let of_difference = each(&|a, b| factor.times(modulus.sub(a, b)));
                prop_assert_eq!(after(&|to| pointwise.sub_times(to, &b, factor)), of_difference);
                let many: Vec<[Vec<u64>; 2]> = (0..pairs as u64)
                    .map(|pair| [residues(modulus, seed ^ pair, len), residues(modulus, seed ^ pair << 32, len)])
                    .collect();
                let many: Vec<[&[u64]; 2]> = many.iter().map(|[a, b]| [&a[..], &b[..]]).collect();
                let sum = |at: usize| {
                    many.iter().fold(0, |sum, [a, b]| modulus.add(sum, modulus.mul(a[at], b[at])))
                };
                let expected: Vec<u64> = (0..len).map(sum).collect();
                prop_assert_eq!(after(&|to| pointwise.sum_of_products(&many, to)), &expected[..]);
                let both: Vec<(&[u64], [&[u64]; 2])> = many.iter().map(|[a, b]| (*a, [*b, *a])).collect();
                let squares = |at: usize| many.iter().fold(0, |sum, [a, _]| modulus.add(sum, modulus.mul(a[at], a[at])));
                let mut sums = [vec![0; len], vec![0; len]];
                let [first, second] = &mut sums;
                pointwise.sums_of_products(&both, [first, second]);
                prop_assert_eq!(sums, [expected.clone(), (0..len).map(squares).collect()]);
            }
        }
    }

    #[test]
    fn sums_of_the_greatest_products_do_not_overflow() {
        for modulus in [0x1000_0000_006e_0001, (1 << 50) - 27].map(|prime| Modulus::new(prime).expect("a prime")) {
            let greatest = vec![modulus.value() - 1; STEP];
            for level in Level::available() {
                let mut to = vec![0; STEP];
                Pointwise::with_level(modulus, level).sum_of_products(&[[&greatest[..], &greatest[..]]; 100], &mut to);
                assert_eq!(to, [100; STEP], "(q - 1)^2 is 1");
            }
        }
    }
}
