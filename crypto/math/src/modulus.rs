//! Arithmetic modulo a prime that fits a word.

use std::hint::black_box;

/// An odd prime up to [`VALUE_MAX`]. Its methods compute with one residue at a time, for tables and
/// for checks. Operations on whole polynomials are in [`crate::pointwise`] and [`crate::ntt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Modulus(u64);

/// The greatest value of a prime. Primes of 60 bits and the first primes above them are allowed,
/// and eight times this value fits a word.
pub const VALUE_MAX: u64 = (1 << 60) + (1 << 40);

impl Modulus {
    /// The modulus of this value, if it is an odd prime up to [`VALUE_MAX`].
    pub fn new(value: u64) -> Option<Self> {
        (value % 2 == 1 && value <= VALUE_MAX && is_prime(value)).then_some(Self(value))
    }

    /// The prime itself.
    pub fn value(self) -> u64 {
        self.0
    }

    /// Number of bits of the prime.
    pub fn bits(self) -> u32 {
        u64::BITS - self.0.leading_zeros()
    }

    /// a + b.
    pub fn add(self, a: u64, b: u64) -> u64 {
        let sum = a + b;
        if sum < self.0 { sum } else { sum - self.0 }
    }

    /// a - b.
    pub fn sub(self, a: u64, b: u64) -> u64 {
        self.add(a, self.neg(b))
    }

    /// -a.
    pub fn neg(self, a: u64) -> u64 {
        if a == 0 { 0 } else { self.0 - a }
    }

    /// a * b.
    pub fn mul(self, a: u64, b: u64) -> u64 {
        (u128::from(a) * u128::from(b) % u128::from(self.0)) as u64
    }

    /// a to the power of `exponent`.
    pub fn pow(self, a: u64, mut exponent: u64) -> u64 {
        let (mut power, mut result) = (a, 1);
        while exponent > 0 {
            if exponent % 2 == 1 {
                result = self.mul(result, power);
            }
            power = self.mul(power, power);
            exponent /= 2;
        }
        result
    }

    /// The multiplicative inverse of a, for a that is not 0.
    pub fn inverse(self, a: u64) -> u64 {
        assert_ne!(a % self.0, 0, "zero has no inverse");
        self.pow(a, self.0 - 2)
    }

    /// The residue of any word.
    pub fn reduce(self, word: u64) -> u64 {
        word % self.0
    }

    /// The residue of a signed number that is public. Secret numbers need [`Self::constant_time`].
    pub fn of_signed(self, number: i128) -> u64 {
        // The division of a number that is longer than a word takes ten times as long, and nearly
        // all numbers fit a word.
        match i64::try_from(number) {
            Ok(word) => word.rem_euclid(self.0 as i64) as u64,
            Err(_) => number.rem_euclid(i128::from(self.0)) as u64,
        }
    }

    /// Prepares arithmetic with secret numbers.
    pub fn constant_time(self) -> ConstantTime {
        let residue = |log2: u32| self.pow(self.reduce(2), u64::from(log2));
        ConstantTime { modulus: self.0, one: self.factor(1), word: self.factor(residue(64)), wrap: residue(128) }
    }

    /// The representative of least magnitude, in the same time for every residue.
    pub fn to_signed(self, residue: u64) -> i64 {
        residue as i64 - (self.0 as i64 & mask(residue > self.0 / 2) as i64)
    }

    /// The least number of multiplicative order `order`, for a power of two that divides q - 1.
    pub fn least_root_of_unity(self, order: u64) -> Option<u64> {
        if !order.is_power_of_two() || order < 2 || !(self.0 - 1).is_multiple_of(order) {
            return None;
        }
        let power = |base| self.pow(base, (self.0 - 1) / order);
        // Half of all bases give a root of the full order.
        let root = (2..).map(power).find(|root| self.pow(*root, order / 2) == self.0 - 1)?;
        let step = self.factor(self.mul(root, root));
        let roots = std::iter::successors(Some(root), |last| Some(step.times(*last)));
        roots.take(order as usize / 2).min()
    }

    /// Prepares `value` for repeated multiplication.
    pub fn factor(self, value: u64) -> Factor {
        debug_assert!(value < self.0);
        Factor { value, fraction: ((u128::from(value) << 64) / u128::from(self.0)) as u64, modulus: self.0 }
    }
}

/// Arithmetic modulo a prime that takes the same time for all numbers, as secret numbers need:
/// without divisions and without branches.
#[derive(Clone, Copy, Debug)]
pub struct ConstantTime {
    modulus: u64,
    one: Factor,
    /// The residue of 2^64.
    word: Factor,
    /// The residue of 2^128.
    wrap: u64,
}

impl ConstantTime {
    /// The residue of any word.
    pub fn of_word(&self, word: u64) -> u64 {
        self.times(self.one, word)
    }

    /// The residue of a signed number.
    pub fn of_signed(&self, number: i128) -> u64 {
        let [low, high] = [self.times(self.one, number as u64), self.times(self.word, (number >> 64) as u64)];
        // The bits of a negative number are 2^128 too much as an unsigned number.
        self.sub(self.reduced(low + high), self.wrap & (number >> 127) as u64)
    }

    /// a - b.
    pub fn sub(&self, a: u64, b: u64) -> u64 {
        self.reduced(a + self.modulus - b)
    }

    /// The product of a factor modulo this prime with any word.
    pub fn times(&self, factor: Factor, word: u64) -> u64 {
        self.reduced(factor.times_below_twice(word))
    }

    /// The residue of a number below twice the prime.
    fn reduced(&self, number: u64) -> u64 {
        number - (self.modulus & mask(number >= self.modulus))
    }
}

/// All ones for true, and zero for false. The compiler sees no condition: it would make a branch of
/// one that it finds unlikely.
pub fn mask(condition: bool) -> u64 {
    black_box(u64::from(condition)).wrapping_neg()
}

/// A constant factor modulo a prime. Its precomputed quotient saves the division in a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor {
    value: u64,
    fraction: u64,
    modulus: u64,
}

impl Factor {
    /// The factor itself.
    pub fn value(self) -> u64 {
        self.value
    }

    /// The prime.
    pub(crate) fn modulus(self) -> u64 {
        self.modulus
    }

    /// The factor, and the quotient factor / prime in units of 2^-`bits`.
    pub(crate) fn constant(self, bits: u32) -> [u64; 2] {
        [self.value, self.fraction(bits)]
    }

    /// The quotient factor / prime, rounded down, in units of 2^-`bits`, for at most 64 bits.
    pub fn fraction(self, bits: u32) -> u64 {
        self.fraction >> (u64::BITS - bits)
    }

    /// The product with any word.
    pub fn times(self, word: u64) -> u64 {
        let rest = self.times_below_twice(word);
        if rest < self.modulus { rest } else { rest - self.modulus }
    }

    /// The product with any word, or the prime more than that.
    fn times_below_twice(self, word: u64) -> u64 {
        let quotient = ((u128::from(word) * u128::from(self.fraction)) >> 64) as u64;
        word.wrapping_mul(self.value).wrapping_sub(quotient.wrapping_mul(self.modulus))
    }
}

/// Whether `number` is prime, exact for every word: the Miller-Rabin test with the first twelve
/// primes as bases.
pub fn is_prime(number: u64) -> bool {
    const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    if number < 2 || BASES.iter().any(|base| number != *base && number.is_multiple_of(*base)) {
        return false;
    }
    let mul = |a: u64, b: u64| (u128::from(a) * u128::from(b) % u128::from(number)) as u64;
    let twos = (number - 1).trailing_zeros();
    let odd = (number - 1) >> twos;
    BASES.iter().filter(|base| **base != number).all(|base| {
        let mut power = (0..64).rev().fold(1, |power, bit| {
            let square = mul(power, power);
            if odd >> bit & 1 == 1 { mul(square, *base) } else { square }
        });
        let start = power;
        start == 1
            || (0..twos).any(|_| {
                let found = power == number - 1;
                power = mul(power, power);
                found
            })
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pseudoprimes_are_not_primes() {
        let sieve: Vec<u64> = (0..2000).filter(|n| *n > 1 && (2..*n).all(|divisor| n % divisor != 0)).collect();
        assert_eq!((0..2000).filter(|n| is_prime(*n)).collect::<Vec<_>>(), sieve);
        // Carmichael numbers, squares, and the least strong pseudoprime to the first nine prime
        // bases.
        for composite in [561, 41_041, 825_265, 4_294_967_291 * 4_294_967_291, 3_825_123_056_546_413_051] {
            assert!(!is_prime(composite), "{composite}");
        }
        assert!(is_prime(18_446_744_073_709_551_557), "the greatest prime of 64 bits");
        assert!(is_prime(0x10000000006e0001) && is_prime(0x3ffffffd20001));
        assert_eq!(Modulus::new(2), None);
        assert_eq!(Modulus::new(18_446_744_073_709_551_557), None);
    }

    #[test]
    fn the_least_root_of_unity_has_its_order() {
        let modulus = Modulus::new(257).unwrap();
        for order in [2_u64, 4, 16, 256] {
            let has_order = |x: u64| modulus.pow(x, order) == 1 && modulus.pow(x, order / 2) != 1;
            assert_eq!(modulus.least_root_of_unity(order), (1..257).find(|x| has_order(*x)));
        }
        assert_eq!(modulus.least_root_of_unity(512), None);
    }

    proptest! {
        #[test]
        fn factors_multiply_as_division_does(bits in 3_u32..=60, seed: u64, word: u64) {
            let prime = (seed >> (64 - bits) | 1..).find(|n| is_prime(*n)).unwrap();
            let Some(modulus) = Modulus::new(prime) else { return Ok(()) };
            let value = modulus.reduce(seed.rotate_left(32));
            prop_assert_eq!(modulus.factor(value).times(word), modulus.mul(value, modulus.reduce(word)));
            if value != 0 {
                prop_assert_eq!(modulus.mul(value, modulus.inverse(value)), 1);
            }
            prop_assert_eq!(modulus.of_signed(i128::from(modulus.to_signed(value))), value);
            let constant_time = modulus.constant_time();
            let long = i128::from(word as i64) << 60 | i128::from(seed >> 4);
            for number in [long, -long, long >> 50, i128::MAX, i128::MIN, 0, -1] {
                prop_assert_eq!(modulus.of_signed(number), number.rem_euclid(i128::from(prime)) as u64);
                prop_assert_eq!(constant_time.of_signed(number), modulus.of_signed(number));
            }
            prop_assert_eq!(constant_time.of_word(word), modulus.reduce(word));
            prop_assert_eq!(constant_time.sub(value, modulus.reduce(word)), modulus.sub(value, modulus.reduce(word)));
            prop_assert_eq!(constant_time.times(modulus.factor(value), word), modulus.factor(value).times(word));
            let signed = i128::from(word as i64);
            for multiple in [1 << 64, -(1 << 64), i128::from(i64::MAX), i128::from(i64::MIN)] {
                prop_assert_eq!(modulus.of_signed(signed), modulus.of_signed(signed + multiple * i128::from(prime)));
            }
        }
    }
}
