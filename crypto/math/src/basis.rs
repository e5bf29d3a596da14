//! Basis change in RNS: from the residues of a number modulo some primes to its residues modulo
//! other primes.

mod sums;

use self::sums::{New, Sums};
use crate::{
    modulus::{Factor, Modulus},
    pointwise::STEP,
    simd::{
        Level,
        residues::{GROUP, Group, Residues, WordArithmetic, WordKernel, Words},
        whole, whole_mut,
    },
};

/// A change of basis. Q is the product of the primes of the old basis.
///
/// A number x is given by y_i = x (Q / q_i)^-1 modulo q_i. The number equals the sum of all y_i Q /
/// q_i, less as many Q as bring the sum nearest to zero. The number of these Q is the sum of all
/// y_i / q_i, rounded. The result is exact, except for numbers within 2^-20 of halfway between two
/// multiples of Q: their result may be off by one Q.
pub struct BasisChange {
    old: Vec<Old>,
    new: Vec<New>,
    arithmetic: WordArithmetic,
}

/// A prime of the old basis.
struct Old {
    modulus: Modulus,
    /// (Q / q)^-1.
    prepare: Factor,
    /// Number of low bits to drop, so that a residue keeps at most [`KEPT_BITS`] bits.
    shift: u32,
    /// Factor that turns a shifted residue into the fraction residue / q, in units of
    /// 2^-[`PART_FRACTION_BITS`].
    part: u64,
}

/// Maximum number of primes in the old basis.
const OLD_PRIMES_MAX: usize = 8;
/// Leading bits of a residue that enter the estimate of how often Q is subtracted.
const KEPT_BITS: u32 = 30;
/// Fraction bits of the sum of the parts. A word has room for 32 parts.
const PART_FRACTION_BITS: u32 = 58;
/// Minimum number of bits of a prime in the old basis.
const OLD_PRIME_BITS_MIN: u32 = 28;

impl BasisChange {
    /// Prepares the change from `old` primes, up to eight of at least 28 bits, to `new` primes. All
    /// primes are different.
    pub fn new(old: &[Modulus], new: &[Modulus]) -> Self {
        Self::with_level(old, new, Level::detect())
    }

    /// Like [`Self::new`], on one instruction set.
    pub fn with_level(old: &[Modulus], new: &[Modulus], level: Level) -> Self {
        assert!(
            old.len() <= OLD_PRIMES_MAX && old.iter().all(|old| old.bits() >= OLD_PRIME_BITS_MIN),
            "a basis of {} primes",
            old.len()
        );
        let others = |modulus: Modulus, but: Option<Modulus>| {
            let factors = old.iter().filter(|old| Some(**old) != but).map(|old| modulus.reduce(old.value()));
            factors.fold(1, |product, factor| modulus.mul(product, factor))
        };
        let of_old = |modulus: &Modulus| {
            let shift = modulus.bits().saturating_sub(KEPT_BITS);
            let part = ((1_u128 << (PART_FRACTION_BITS + shift)) + u128::from(modulus.value() / 2))
                / u128::from(modulus.value());
            let prepare = modulus.factor(modulus.inverse(others(*modulus, Some(*modulus))));
            Old { modulus: *modulus, prepare, shift, part: part as u64 }
        };
        let of_new = |modulus: &Modulus| {
            let factors = old.iter().map(|old| (old.bits(), others(*modulus, Some(*old))));
            New::of(*modulus, level, factors, modulus.neg(others(*modulus, None)))
        };
        let (old, new) = (old.iter().map(of_old).collect(), new.iter().map(of_new).collect());
        Self { old, new, arithmetic: WordArithmetic::of(level) }
    }

    /// Factor that turns residues modulo the i-th old prime into y_i.
    pub fn prepare(&self, index: usize) -> Factor {
        self.old[index].prepare
    }

    /// The i-th new prime.
    pub fn modulus(&self, index: usize) -> Modulus {
        self.new[index].modulus()
    }

    /// Computes how often Q is subtracted for each coefficient, given all y_i.
    pub fn wraps(&self, prepared: &[&[u64]], to: &mut [u64]) {
        self.check(prepared, to.len());
        self.arithmetic.run(Wraps { old: &self.old, prepared, to });
    }

    /// Computes the residues modulo the new primes of these indices, given all y_i and
    /// [`Self::wraps`]. Several primes in one call share each read of the inputs.
    pub fn residues(&self, indices: &[usize], prepared: &[&[u64]], wraps: &[u64], to: &mut [&mut [u64]]) {
        assert_eq!(indices.len(), to.len());
        for to in &*to {
            self.check(prepared, to.len());
            assert_eq!(wraps.len(), to.len());
        }
        let (mut indices, mut to) = (indices, to);
        while let Some(first) = indices.first() {
            let arithmetic = self.new[*first].arithmetic();
            let alike = indices.iter().take_while(|index| self.new[**index].arithmetic() == arithmetic).count();
            let (now, later) = std::mem::take(&mut to).split_at_mut(alike);
            let new: Vec<&New> = indices[..alike].iter().map(|index| &self.new[*index]).collect();
            arithmetic.run(Sums { new: &new, prepared, wraps, to: now });
            (indices, to) = (&indices[alike..], later);
        }
    }

    fn check(&self, prepared: &[&[u64]], len: usize) {
        assert!(prepared.len() == self.old.len() && len.is_multiple_of(STEP), "{} polynomials", prepared.len());
        assert!(prepared.iter().all(|polynomial| polynomial.len() == len), "polynomials of one length");
        debug_assert!(
            prepared.iter().zip(&self.old).all(|(words, old)| words.iter().all(|word| *word < old.modulus.value())),
            "least residues"
        );
    }
}

struct Wraps<'a> {
    old: &'a [Old],
    prepared: &'a [&'a [u64]],
    to: &'a mut [u64],
}

impl WordKernel for Wraps<'_> {
    #[inline(always)]
    fn run<V: Words + Residues>(self) {
        let to: &mut [Group<V>] = whole_mut(self.to);
        for (at, to) in to.iter_mut().enumerate() {
            let mut sums = [V::splat(1 << (PART_FRACTION_BITS - 1)); GROUP];
            for (old, prepared) in self.old.iter().zip(self.prepared) {
                let (prepared, part): (&[Group<V>], _) = (whole(prepared), V::splat(old.part));
                for (sum, words) in sums.iter_mut().zip(&prepared[at]) {
                    *sum = sum.add(V::load(words).shift_down(old.shift).multiply_halves(part));
                }
            }
            for (to, sum) in to.iter_mut().zip(sums) {
                sum.shift_down(PART_FRACTION_BITS).store(to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{sums::TILE_WORDS, *};

    /// Different primes with the given numbers of bits, in the given order.
    fn primes(bits: &[u32]) -> Vec<Modulus> {
        let mut found: Vec<Modulus> = vec![];
        for bits in bits {
            let mut below = (1..).filter_map(|k| Modulus::new((1_u64 << bits) + 1 - 2 * k));
            found.extend(below.find(|modulus| !found.contains(modulus)));
        }
        found
    }

    proptest! {
        #[test]
        fn residues_of_both_bases_represent_the_same_number(
            old in prop::collection::vec(28_u32..=60, 1..=OLD_PRIMES_MAX),
            new in prop::collection::vec(28_u32..=60, 1..=4),
            seed in prop::collection::vec(any::<u64>(), 64),
        ) {
            let (old, new) = (primes(&old), primes(&new));
            // Numbers with known residues: products of a few words, of both signs, far from
            // halfway.
            let bits: u32 = old.iter().map(|old| old.bits() - 1).sum();
            let number = |index: usize| {
                let wide = (i128::from(seed[index] as i64) * i128::from(seed[index / 2] >> 8)) >> 1;
                wide >> 127_u32.saturating_sub(bits.saturating_sub(2))
            };
            // More numbers than one tile has.
            let numbers: Vec<i128> = (0..TILE_WORDS + 64).map(|index| number(7 * index % 64)).collect();
            for level in Level::available() {
                let change = BasisChange::with_level(&old, &new, level);
                let prepared: Vec<Vec<u64>> = old
                    .iter()
                    .enumerate()
                    .map(|(index, old)| {
                        numbers.iter().map(|number| change.prepare(index).times(old.of_signed(*number))).collect()
                    })
                    .collect();
                let prepared: Vec<&[u64]> = prepared.iter().map(Vec::as_slice).collect();
                let (mut wraps, mut residues) = (vec![0; numbers.len()], vec![vec![0; numbers.len()]; new.len()]);
                change.wraps(&prepared, &mut wraps);
                let indices: Vec<usize> = (0..new.len()).collect();
                let mut to: Vec<&mut [u64]> = residues.iter_mut().map(Vec::as_mut_slice).collect();
                change.residues(&indices, &prepared, &wraps, &mut to);
                for (new, residues) in new.iter().zip(residues) {
                    let expected: Vec<u64> = numbers.iter().map(|number| new.of_signed(*number)).collect();
                    prop_assert_eq!(residues, expected, "{:?}", level);
                }
            }
        }
    }

    #[test]
    fn the_greatest_residues_do_not_overflow() {
        for bits in [60, 50] {
            let primes = primes(&[[bits; OLD_PRIMES_MAX].as_slice(), &[50, 45, 59, 54]].concat());
            let (old, new) = primes.split_at(OLD_PRIMES_MAX);
            greatest_residues_fit(old, new);
        }
    }

    fn greatest_residues_fit(old: &[Modulus], new: &[Modulus]) {
        let prepared: Vec<Vec<u64>> = old.iter().map(|old| vec![old.value() - 1; STEP]).collect();
        let prepared: Vec<&[u64]> = prepared.iter().map(Vec::as_slice).collect();
        for level in Level::available() {
            let change = BasisChange::with_level(old, new, level);
            let (mut wraps, mut residues) = (vec![0; STEP], vec![0; STEP]);
            change.wraps(&prepared, &mut wraps);
            assert_eq!(wraps, [OLD_PRIMES_MAX as u64; STEP], "each part is nearly one");
            for (index, new) in new.iter().enumerate() {
                // The expected sum is -Q / q, summed over the old primes.
                let others = |but: &Modulus| {
                    let factors = old.iter().filter(|old| *old != but);
                    factors.fold(1, |product, old| new.mul(product, new.reduce(old.value())))
                };
                let expected = old.iter().fold(0, |sum, old| new.sub(sum, others(old)));
                change.residues(&[index], &prepared, &wraps, &mut [&mut residues]);
                assert_eq!(residues, [expected; STEP]);
            }
        }
    }
}
