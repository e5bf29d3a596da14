//! Sums of the residues of each old prime times constants, modulo new primes.

use std::ops::Range;

use bytemuck::Pod;

use super::OLD_PRIMES_MAX;
use crate::{
    modulus::Modulus,
    simd::{
        Level, prefetch_all_once,
        residues::{GROUP, LOW_BITS, Residues, WidePrime, WordArithmetic, WordKernel, Words},
        whole, whole_mut,
    },
};

/// A prime of the new basis.
pub(super) struct New {
    modulus: Modulus,
    arithmetic: WordArithmetic,
    /// Whether the prime is too wide for this arithmetic to reduce sums.
    is_wide: bool,
    /// Q / q for each prime of the old basis.
    factors: Vec<Constant>,
    /// 2^[`HALF_BITS`] Q / q for each old prime whose residues exceed the width of the multiplier.
    /// Those residues are split, and this factor belongs to their upper halves.
    upper: Vec<Option<Constant>>,
    /// -Q.
    wrap: Constant,
}

/// A constant factor: its low bits, then its upper bits, which are used for wide primes only.
type Constant = [u64; 2];

/// Bit at which a wide residue is split in two halves.
const HALF_BITS: u32 = 30;

impl New {
    /// Builds the constants from the bits of each old prime, its Q / q, and -Q.
    pub(super) fn of(modulus: Modulus, level: Level, old: impl Iterator<Item = (u32, u64)>, wrap: u64) -> Self {
        let arithmetic = WordArithmetic::of_constants(level);
        let bits = arithmetic.shape().1;
        let is_wide = modulus.bits() > bits - 2;
        let unit = if is_wide { 1 } else { arithmetic.unit(modulus) };
        let constant = |factor: u64| {
            let constant = modulus.mul(factor, unit);
            if is_wide { [constant & ((1 << LOW_BITS) - 1), constant >> LOW_BITS] } else { [constant, 0] }
        };
        let old: Vec<(u32, u64)> = old.collect();
        let upper = |(old_bits, factor): &(u32, u64)| {
            (*old_bits > bits - 2).then(|| constant(modulus.mul(*factor, modulus.reduce(1 << HALF_BITS))))
        };
        Self {
            modulus,
            arithmetic,
            is_wide,
            upper: old.iter().map(upper).collect(),
            factors: old.into_iter().map(|(_, factor)| constant(factor)).collect(),
            wrap: constant(wrap),
        }
    }

    pub(super) fn modulus(&self) -> Modulus {
        self.modulus
    }

    pub(super) fn arithmetic(&self) -> WordArithmetic {
        self.arithmetic
    }
}

/// Computes residues modulo several new primes that share one arithmetic.
pub(super) struct Sums<'a, 'b> {
    pub(super) new: &'a [&'a New],
    pub(super) prepared: &'a [&'a [u64]],
    pub(super) wraps: &'a [u64],
    pub(super) to: &'a mut [&'b mut [u64]],
}

/// Words of each old prime that are processed for all new primes before the next words. The tile of
/// all old primes fits half of a first-level cache.
pub(super) const TILE_WORDS: usize = 256;

impl WordKernel for Sums<'_, '_> {
    #[inline(always)]
    fn run<V: Words + Residues>(self) {
        // Prepared once, because a tile costs less than the divisions that prepare a prime.
        let mut primes = Vec::with_capacity(self.new.len());
        for new in self.new {
            primes.push((V::prime(new.modulus), WidePrime::new(new.modulus)));
        }
        let (len, count) = (self.wraps.len(), self.new.len());
        for start in (0..len).step_by(TILE_WORDS) {
            let end = len.min(start + TILE_WORDS);
            for (place, (new, to)) in self.new.iter().zip(&mut *self.to).enumerate() {
                // Prefetch the next tile in small parts, as data that is read once. The data is
                // read again for the next new primes, but other data displaces it from this core's
                // share of the shared cache before that. Bootstraps are faster if that cache is
                // left to other data.
                for prepared in self.prepared.iter().skip(place).step_by(count) {
                    prefetch_all_once(&prepared[end..len.min(end + TILE_WORDS)]);
                }
                let sums = Tile { new, prepared: self.prepared, wraps: whole(self.wraps), to: whole_mut(to) };
                sums.run::<V>(&primes[place], start / (V::COUNT * GROUP)..end / (V::COUNT * GROUP));
            }
        }
    }
}

/// The slices and constants of one new prime.
struct Tile<'a, G> {
    new: &'a New,
    prepared: &'a [&'a [u64]],
    wraps: &'a [G],
    to: &'a mut [G],
}

impl<A: Pod> Tile<'_, [A; GROUP]> {
    /// Processes some groups, with the number of old primes as a constant, so that all factors stay
    /// in registers.
    #[inline(always)]
    fn run<V: Words + Residues<Array = A>>(self, prime: &(V::Prime, WidePrime<V>), groups: Range<usize>) {
        match self.prepared.len() {
            1 => self.halved_or_not::<V, 1>(prime, groups),
            2 => self.halved_or_not::<V, 2>(prime, groups),
            3 => self.halved_or_not::<V, 3>(prime, groups),
            4 => self.halved_or_not::<V, 4>(prime, groups),
            5 => self.halved_or_not::<V, 5>(prime, groups),
            6 => self.halved_or_not::<V, 6>(prime, groups),
            7 => self.halved_or_not::<V, 7>(prime, groups),
            _ => self.halved_or_not::<V, OLD_PRIMES_MAX>(prime, groups),
        }
    }

    #[inline(always)]
    fn halved_or_not<V: Words + Residues<Array = A>, const OLD: usize>(
        self,
        prime: &(V::Prime, WidePrime<V>),
        groups: Range<usize>,
    ) {
        // An arithmetic that multiplies whole words needs neither halves nor upper bits of
        // constants.
        if V::FRACTION_BITS == u64::BITS {
            return self.sums::<V, OLD, false, false>(prime, groups);
        }
        match (self.new.upper.iter().any(Option::is_some), self.new.is_wide) {
            (false, false) => self.sums::<V, OLD, false, false>(prime, groups),
            (false, true) => self.sums::<V, OLD, false, true>(prime, groups),
            (true, false) => self.sums::<V, OLD, true, false>(prime, groups),
            (true, true) => self.sums::<V, OLD, true, true>(prime, groups),
        }
    }

    /// `HALVED` means that residues of some old primes are split in halves. `WIDE` means that the
    /// new prime is too wide for the arithmetic to reduce sums.
    #[inline(always)]
    fn sums<V: Words + Residues<Array = A>, const OLD: usize, const HALVED: bool, const WIDE: bool>(
        self,
        (prime, wide): &(V::Prime, WidePrime<V>),
        groups: Range<usize>,
    ) {
        let Self { new, prepared, wraps, to } = self;
        let (prime, wide) = (*prime, *wide);
        let mask = V::splat((1 << HALF_BITS) - 1);
        let wrap = splat::<V>(new.wrap);
        let mut words: [&[[A; GROUP]]; OLD] = [&[]; OLD];
        let mut factors = [[V::splat(0); 2]; OLD];
        let (mut upper, mut is_halved) = (factors, [false; OLD]);
        for index in 0..OLD {
            words[index] = &whole(prepared[index])[groups.clone()];
            factors[index] = splat(new.factors[index]);
            if let (true, Some(constant)) = (HALVED, new.upper[index]) {
                (upper[index], is_halved[index]) = (splat(constant), true);
            }
        }
        for (at, (wraps, to)) in wraps[groups.clone()].iter().zip(&mut to[groups]).enumerate() {
            let mut sums = [Sum::<V, WIDE> { low: V::no_products(), top: V::splat(0) }; GROUP];
            for (sum, wraps) in sums.iter_mut().zip(wraps) {
                *sum = sum.with(V::load(wraps), wrap);
            }
            // Iteration by index lets the compiler unroll the loop and keep all factors in
            // registers.
            for index in 0..OLD {
                let full = const { (V::PRODUCTS_MAX - 1) / if HALVED { 2 } else { 1 } };
                if !WIDE && index > 0 && index.is_multiple_of(full) {
                    // The sums hold the maximum number of products: reduce them and continue with
                    // the result.
                    for sum in &mut sums {
                        sum.low = V::add_product(V::no_products(), V::reduce(sum.low, prime), V::splat(1));
                    }
                }
                for (sum, words) in sums.iter_mut().zip(&words[index][at]) {
                    let words = V::load(words);
                    if is_halved[index] {
                        *sum = sum.with(words.and(mask), factors[index]);
                        *sum = sum.with(words.shift_down(HALF_BITS), upper[index]);
                    } else {
                        *sum = sum.with(words, factors[index]);
                    }
                }
            }
            for (to, sum) in to.iter_mut().zip(sums) {
                let sum = if WIDE { wide.reduce(sum.low, sum.top) } else { V::reduce_by_unit(sum.low, prime) };
                sum.store(to);
            }
        }
    }
}

#[inline(always)]
fn splat<V: Residues>([low, top]: Constant) -> [V; 2] {
    [V::splat(low), V::splat(top)]
}

/// Sums of the products with the low bits of constants and, for wide primes, with their upper bits.
#[derive(Clone, Copy)]
struct Sum<V: Residues, const WIDE: bool> {
    low: V::Sum,
    top: V,
}

impl<V: Words + Residues, const WIDE: bool> Sum<V, WIDE> {
    /// For wide primes, `top` stays below 2^63: up to eight whole words are below 2^50, and all
    /// other words are halves.
    #[inline(always)]
    fn with(self, word: V, [low, top]: [V; 2]) -> Self {
        let top = if WIDE { self.top.add(word.multiply_low(top)) } else { self.top };
        Self { low: V::add_product(self.low, word, low), top }
    }
}
