//! Operations of a kernel on a vector of residues.
//!
//! The vector type depends on the instruction set and on the prime. Primes below 2^50 are faster
//! than others if the processor multiplies 52 bits at once, or multiplies doubles without rounding
//! the product.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod doubles;
mod halves;
#[cfg(target_arch = "x86_64")]
mod ifma;
mod portable;

use bytemuck::Pod;

use super::{Isa, Level};
use crate::modulus::{Factor, Modulus};

/// A vector of numbers, which are words in memory.
pub(crate) trait Lanes: Copy {
    /// Number of lanes.
    const COUNT: usize;
    /// The vector in memory.
    type Array: Pod;

    /// A vector with this number in every lane.
    fn splat(word: u64) -> Self;
    /// Loads from memory.
    fn load(from: &Self::Array) -> Self;
    /// Stores to memory.
    fn store(self, to: &mut Self::Array);
    /// `self + other`.
    fn add(self, other: Self) -> Self;
    /// `self - other`.
    fn sub(self, other: Self) -> Self;
    /// `self - bound` if that is not negative, and `self` otherwise. Both the difference and the
    /// bound are below 2^63.
    fn fold(self, bound: Self) -> Self;
    /// Transposes a square of [`Self::COUNT`] rows.
    fn transpose(rows: &mut [Self]);
}

/// Numbers that are words in the lanes as well. All arithmetic is modulo the word.
pub(crate) trait Words: Lanes {
    /// Bitwise and.
    fn and(self, other: Self) -> Self;
    /// Multiplied by 2^`bits`.
    fn shift_up(self, bits: u32) -> Self;
    /// Divided by 2^`bits`, rounded down.
    fn shift_down(self, bits: u32) -> Self;
    /// `self * other`.
    fn multiply_low(self, other: Self) -> Self;
    /// The product of the low halves.
    fn multiply_halves(self, other: Self) -> Self;
    /// Word i of the result is word `from[i]` of `words`. Each index is below 8.
    #[inline(always)]
    fn permute(words: &[u64; 8], from: &[u64; 8]) -> [u64; 8] {
        let mut permuted = [0; 8];
        for (to, from) in permuted.iter_mut().zip(from) {
            *to = words[*from as usize % 8];
        }
        permuted
    }
}

/// Numbers that represent residues modulo a prime, not always as the least residue.
pub(crate) trait Residues: Lanes {
    /// Number of bits of an operand that the multiplier uses.
    const FRACTION_BITS: u32;
    /// Maximum number of products in one [`Self::Sum`].
    const PRODUCTS_MAX: usize;
    /// Bound of products, as a multiple of the prime. Unsigned differences of products have this
    /// bound added.
    const EXCESS: u64;
    /// Whether numbers are signed. Signed numbers have room for the sums of three levels of a
    /// transform.
    const IS_SIGNED: bool = false;
    /// The prime in prepared form.
    type Prime: Copy;
    /// A sum of products before reduction.
    type Sum: Copy;

    /// Prepares a prime.
    fn prime(modulus: Modulus) -> Self::Prime;
    /// A factor as two words in the form of the tables: the factor, and its quotient by the prime.
    fn constant(factor: Factor) -> [u64; 2] {
        factor.constant(Self::FRACTION_BITS)
    }
    /// A vector with one of the two words of a constant in every lane.
    #[inline(always)]
    fn splat_kept(word: u64) -> Self {
        Self::splat(word)
    }
    /// Loads numbers that [`Self::keep`] stored, or words of constants.
    #[inline(always)]
    fn kept(from: &Self::Array) -> Self {
        Self::load(from)
    }
    /// Stores numbers in the arithmetic's own representation, which only [`Self::kept`] reads.
    #[inline(always)]
    fn keep(self, to: &mut Self::Array) {
        self.store(to);
    }
    /// `self - other`, for `other` below `excess`.
    #[inline(always)]
    fn difference(self, other: Self, excess: Self) -> Self {
        self.add(excess).sub(other)
    }
    /// Reduces a number below twice `excess` to a number below `excess`.
    #[inline(always)]
    fn settle(self, excess: Self, _: Self::Prime) -> Self {
        self.fold(excess)
    }
    /// The least residue of a number below `below` times the prime `value`. `below` is a power of
    /// two.
    #[inline(always)]
    fn least(self, below: u64, value: u64, _: Self::Prime) -> Self {
        least(self, below, value)
    }
    /// The product with a factor, below [`Self::EXCESS`] times the prime, for numbers below
    /// 2^[`Self::FRACTION_BITS`].
    fn multiply(self, factor: Multiplier<Self>, prime: Self::Prime) -> Self;
    /// Like [`Self::multiply`], if only the low [`Self::FRACTION_BITS`] of the operand and of the
    /// product matter.
    #[inline(always)]
    fn multiply_low_bits(self, factor: Multiplier<Self>, prime: Self::Prime) -> Self {
        self.multiply(factor, prime)
    }
    /// The empty sum.
    fn no_products() -> Self::Sum;
    /// `sum` plus a * b. Both factors are at most `modulus::VALUE_MAX`. If [`Self::FRACTION_BITS`]
    /// is 52, both factors are below 2^50.
    fn add_product(sum: Self::Sum, a: Self, b: Self) -> Self::Sum;
    /// Reduces a sum of up to [`Self::PRODUCTS_MAX`] products to least residues.
    fn reduce(sum: Self::Sum, prime: Self::Prime) -> Self;
    /// For products with a split at 2^[`LOW_BITS`], the sum of the low parts of the products, and
    /// the sum of the upper parts.
    fn parts(_: Self::Sum) -> [Self; 2] {
        unreachable!("other products have other parts")
    }
    /// Like [`Self::reduce`], divided by [`WordArithmetic::unit`], which may be less work. The sum
    /// has constants times up to eight words below 2^50, and all other words are below 2^30.
    #[inline(always)]
    fn reduce_by_unit(sum: Self::Sum, prime: Self::Prime) -> Self {
        Self::reduce(sum, prime)
    }
}

/// Vectors that are processed side by side, so that they share look-ups.
pub(crate) type Group<V> = [<V as Lanes>::Array; GROUP];
/// Number of vectors in a group.
pub(crate) const GROUP: usize = 4;

/// Factors, one for each lane, and their quotients by the prime.
#[derive(Clone, Copy)]
pub(crate) struct Multiplier<V> {
    pub(crate) value: V,
    pub(crate) fraction: V,
}

impl<V: Residues> Multiplier<V> {
    /// A multiplier with this factor in every lane.
    #[inline(always)]
    pub(crate) fn splat(factor: Factor) -> Self {
        let [value, fraction] = V::constant(factor);
        Self { value: V::splat_kept(value), fraction: V::splat_kept(fraction) }
    }
}

/// A loop nest over residues, compiled once for each vector type. As with `super::Kernel`, every
/// function that it calls must be inlined.
pub(crate) trait ResidueKernel {
    fn run<V: Residues>(self);
}

/// Like [`ResidueKernel`], over residues that are words.
pub(crate) trait WordKernel {
    fn run<V: Words + Residues>(self);
}

/// The vector type for a prime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arithmetic(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Words(WordArithmetic),
    #[cfg(target_arch = "x86_64")]
    Doubles,
}

impl Arithmetic {
    /// The fastest arithmetic of `level` for a prime of this size.
    pub(crate) fn fastest(level: Level, modulus: Modulus) -> Self {
        #[cfg(target_arch = "x86_64")]
        if modulus.bits() <= NARROW_BITS_MAX {
            match level.0 {
                Isa::Avx2 => return Self(Kind::Doubles),
                Isa::Avx512 => return Self(Kind::Words(WordArithmetic::of_constants(level))),
                Isa::Portable => {}
            }
        }
        Self(Kind::Words(WordArithmetic::of(level)))
    }

    /// Every arithmetic of `level` for a prime.
    #[cfg(test)]
    pub(crate) fn all(level: Level, modulus: Modulus) -> Vec<Self> {
        let mut all = vec![Self(Kind::Words(WordArithmetic::of(level)))];
        all.extend(Some(Self::fastest(level, modulus)).filter(|fastest| !all.contains(fastest)));
        all
    }

    /// Numbers in a vector.
    pub(crate) fn count(self) -> usize {
        match self.0 {
            Kind::Words(words) => words.shape().0,
            #[cfg(target_arch = "x86_64")]
            Kind::Doubles => doubles::F4::COUNT,
        }
    }

    /// A factor in the form of the tables.
    pub(crate) fn constant(self, factor: Factor) -> [u64; 2] {
        match self.0 {
            Kind::Words(words) => factor.constant(words.shape().1),
            #[cfg(target_arch = "x86_64")]
            Kind::Doubles => doubles::F4::constant(factor),
        }
    }

    /// Name of the arithmetic, for benchmark tables.
    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            Kind::Words(words) => words.name(),
            #[cfg(target_arch = "x86_64")]
            Kind::Doubles => "avx2, doubles",
        }
    }

    /// Runs `kernel`.
    #[inline]
    pub(crate) fn run<K: ResidueKernel>(self, kernel: K) {
        match self.0 {
            Kind::Words(words) => words.run(OfResidues(kernel)),
            // SAFETY: an `Arithmetic` of this kind is only created from a `Level` whose features
            // were detected.
            #[cfg(target_arch = "x86_64")]
            Kind::Doubles => unsafe { run_doubles(kernel) },
        }
    }
}

/// Adapts a kernel over any residues to residues that are words.
struct OfResidues<K>(K);

impl<K: ResidueKernel> WordKernel for OfResidues<K> {
    #[inline(always)]
    fn run<V: Words + Residues>(self) {
        self.0.run::<V>();
    }
}

/// The vector type of words for a prime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WordArithmetic(WordKind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WordKind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Ifma,
}

impl WordArithmetic {
    /// The arithmetic of `level` for primes of any width.
    pub(crate) fn of(level: Level) -> Self {
        Self(match level.0 {
            Isa::Portable => WordKind::Portable,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => WordKind::Avx2,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => WordKind::Avx512,
        })
    }

    /// The arithmetic of `level` for sums of products with constants. This arithmetic also serves
    /// primes that are otherwise too wide for it.
    pub(crate) fn of_constants(level: Level) -> Self {
        #[cfg(target_arch = "x86_64")]
        if level.0 == Isa::Avx512 && is_x86_feature_detected!("avx512ifma") {
            return Self(WordKind::Ifma);
        }
        Self::of(level)
    }

    /// Words in a vector, and bits of a factor's fraction.
    pub(crate) fn shape(self) -> (usize, u32) {
        match self.0 {
            WordKind::Portable => shape_of::<portable::W4>(),
            #[cfg(target_arch = "x86_64")]
            WordKind::Avx2 => shape_of::<avx2::W4>(),
            #[cfg(target_arch = "x86_64")]
            WordKind::Avx512 => shape_of::<avx512::W8<64>>(),
            #[cfg(target_arch = "x86_64")]
            WordKind::Ifma => shape_of::<avx512::W8<52>>(),
        }
    }

    /// Factor of the constants for [`Residues::reduce_by_unit`].
    pub(crate) fn unit(self, modulus: Modulus) -> u64 {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            WordKind::Ifma => modulus.reduce(1 << LOW_BITS),
            _ => 1,
        }
    }

    fn name(self) -> &'static str {
        match self.0 {
            WordKind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            WordKind::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            WordKind::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            WordKind::Ifma => "ifma",
        }
    }

    /// Runs `kernel`.
    #[inline]
    pub(crate) fn run<K: WordKernel>(self, kernel: K) {
        match self.0 {
            WordKind::Portable => run_portable(kernel),
            // SAFETY: a `WordArithmetic` of this kind is only created from a `Level` whose features
            // were detected.
            #[cfg(target_arch = "x86_64")]
            WordKind::Avx2 => unsafe { run_avx2(kernel) },
            // SAFETY: a `WordArithmetic` of this kind is only created from a `Level` whose features
            // were detected.
            #[cfg(target_arch = "x86_64")]
            WordKind::Avx512 => unsafe { run_avx512(kernel) },
            // SAFETY: a `WordArithmetic` of this kind is only created from a `Level` whose features
            // were detected, after the detection of IFMA.
            #[cfg(target_arch = "x86_64")]
            WordKind::Ifma => unsafe { run_ifma(kernel) },
        }
    }
}

fn shape_of<V: Residues>() -> (usize, u32) {
    (V::COUNT, V::FRACTION_BITS)
}

/// Maximum bits of a narrow prime. Four times a narrow prime fits the 52 bits that are multiplied
/// at once, or the mantissa of a double.
const NARROW_BITS_MAX: u32 = 50;

#[inline(never)]
fn run_portable<K: WordKernel>(kernel: K) {
    kernel.run::<portable::W4>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_avx2<K: WordKernel>(kernel: K) {
    kernel.run::<avx2::W4>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_doubles<K: ResidueKernel>(kernel: K) {
    kernel.run::<doubles::F4>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
fn run_avx512<K: WordKernel>(kernel: K) {
    kernel.run::<avx512::W8<64>>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn run_ifma<K: WordKernel>(kernel: K) {
    kernel.run::<avx512::W8<52>>();
}

/// Bit at which [`Residues::parts`] splits products.
pub(crate) const LOW_BITS: u32 = 52;

/// A prime of more than 50 bits, prepared for sums of products with a 52-bit multiplier.
#[derive(Clone, Copy)]
pub(crate) struct WidePrime<V> {
    value: V,
    /// 2^[`LOW_BITS`], as a factor.
    unit: Multiplier<V>,
    least: u64,
}

impl<V: Words + Residues> WidePrime<V> {
    #[inline(always)]
    pub(crate) fn new(modulus: Modulus) -> Self {
        let unit = modulus.factor(modulus.reduce(1 << LOW_BITS));
        let unit = Multiplier { value: V::splat(unit.value()), fraction: V::splat(unit.fraction(u64::BITS)) };
        Self { value: V::splat(modulus.value()), unit, least: modulus.value() }
    }

    /// Least residues of a sum plus 2^[`LOW_BITS`] times `top`. `top` plus the upper part of the
    /// sum is below 2^63.
    #[inline(always)]
    pub(crate) fn reduce(self, sum: V::Sum, top: V) -> V {
        let [low, upper] = V::parts(sum);
        let upper = upper.add(top).add(low.shift_down(LOW_BITS));
        // The sum of both parts is below eight times the prime, four times for each part.
        let low = low.and(V::splat((1 << LOW_BITS) - 1));
        least(low.add(halves::multiply(upper, self.unit, self.value)), 2 * halves::EXCESS, self.least)
    }
}

/// Reduces `words`, which are below `below` times `prime`, to least residues. `below` is a power of
/// two.
#[inline(always)]
fn least<V: Lanes>(words: V, below: u64, prime: u64) -> V {
    let mut words = words;
    let mut bound = below;
    while bound > 1 {
        bound /= 2;
        words = words.fold(V::splat(bound * prime));
    }
    words
}
