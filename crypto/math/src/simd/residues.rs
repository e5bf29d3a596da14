//! What a kernel can do with a vector of residues.
//!
//! Which vectors there are follows from the instruction set and from the prime: where the processor multiplies 52 bits
//! at once, primes below 2^50 are faster than others.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod halves;
#[cfg(target_arch = "x86_64")]
mod ifma;
mod portable;

use bytemuck::Pod;

use super::{Isa, Level};
use crate::modulus::{Factor, Modulus};

/// A few words at once. All arithmetic is modulo the word.
pub(crate) trait Lanes: Copy {
    /// How many.
    const COUNT: usize;
    /// The same in memory.
    type Array: Pod;

    /// The same in every lane.
    fn splat(word: u64) -> Self;
    /// From memory.
    fn load(from: &Self::Array) -> Self;
    /// To memory.
    fn store(self, to: &mut Self::Array);
    /// `self + other`.
    fn add(self, other: Self) -> Self;
    /// `self - other`.
    fn sub(self, other: Self) -> Self;
    /// `self - bound` where that is not negative, and `self` elsewhere. The difference is below 2^63, and the bound is.
    fn fold(self, bound: Self) -> Self;
    /// Bits that are in both.
    fn and(self, other: Self) -> Self;
    /// Multiplied by 2^`bits`.
    fn shift_up(self, bits: u32) -> Self;
    /// Divided by 2^`bits`, rounded down.
    fn shift_down(self, bits: u32) -> Self;
    /// `self * other`.
    fn multiply_low(self, other: Self) -> Self;
    /// The product of the low halves.
    fn multiply_halves(self, other: Self) -> Self;
    /// Rows become columns: [`Self::COUNT`] of each.
    fn transpose(rows: &mut [Self]);
    /// Word i is word `from[i]` of these; each is below 8.
    #[inline(always)]
    fn permute(words: &[u64; 8], from: &[u64; 8]) -> [u64; 8] {
        let mut permuted = [0; 8];
        for (to, from) in permuted.iter_mut().zip(from) {
            *to = words[*from as usize % 8];
        }
        permuted
    }
}

/// Words that are residues: each is a number modulo a prime, though not always the least one.
pub(crate) trait Residues: Lanes {
    /// Bits of a factor's fraction; what is multiplied has as many.
    const FRACTION_BITS: u32;
    /// Products that one [`Self::Sum`] takes.
    const PRODUCTS_MAX: usize;
    /// Products come out below this many times the prime.
    const EXCESS: u64;
    /// The prime, prepared.
    type Prime: Copy;
    /// A sum of products that is not reduced yet.
    type Sum: Copy;

    /// A prime prepared.
    fn prime(modulus: Modulus) -> Self::Prime;
    /// The product with a factor, below [`Self::EXCESS`] times the prime, for words below 2^[`Self::FRACTION_BITS`].
    fn multiply(self, factor: Multiplier<Self>, prime: Self::Prime) -> Self;
    /// The same where only the low [`Self::FRACTION_BITS`] matter, of what is multiplied and of the product.
    #[inline(always)]
    fn multiply_low_bits(self, factor: Multiplier<Self>, prime: Self::Prime) -> Self {
        self.multiply(factor, prime)
    }
    /// No products.
    fn no_products() -> Self::Sum;
    /// `sum` and a * b. Both are at most `modulus::VALUE_MAX`; where [`Self::FRACTION_BITS`] is 52, both are below 2^50.
    fn add_product(sum: Self::Sum, a: Self, b: Self) -> Self::Sum;
    /// What up to [`Self::PRODUCTS_MAX`] products come to, as least residues.
    fn reduce(sum: Self::Sum, prime: Self::Prime) -> Self;
    /// The sum of what is below 2^[`LOW_BITS`] in each product, and of what is above, where products are of so many bits.
    fn parts(_: Self::Sum) -> [Self; 2] {
        unreachable!("other products have other parts")
    }
    /// As [`Self::reduce`], over [`Arithmetic::unit`], which may be less work: of constants times up to eight words below 2^50, and any
    /// others below 2^30.
    #[inline(always)]
    fn reduce_by_unit(sum: Self::Sum, prime: Self::Prime) -> Self {
        Self::reduce(sum, prime)
    }
}

/// Vectors that are worked on side by side, so that what is looked up for them is looked up once.
pub(crate) type Group<V> = [<V as Lanes>::Array; GROUP];
/// How many those are.
pub(crate) const GROUP: usize = 4;

/// Factors, one a lane, and their parts of the prime.
#[derive(Clone, Copy)]
pub(crate) struct Multiplier<V> {
    pub(crate) value: V,
    pub(crate) fraction: V,
}

impl<V: Residues> Multiplier<V> {
    /// The same factor in every lane.
    #[inline(always)]
    pub(crate) fn splat(factor: Factor) -> Self {
        Self { value: V::splat(factor.value()), fraction: V::splat(factor.fraction(V::FRACTION_BITS)) }
    }
}

/// A loop nest over residues, compiled once for each kind of vector. As with `super::Kernel`, all that it calls must be
/// inlined.
pub(crate) trait ResidueKernel {
    fn run<V: Residues>(self);
}

/// Which vectors compute with a prime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arithmetic(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Ifma,
}

impl Arithmetic {
    /// The fastest that `level` has for a prime of so many bits.
    pub(crate) fn fastest(level: Level, modulus: Modulus) -> Self {
        #[cfg(target_arch = "x86_64")]
        if level.0 == Isa::Avx512 && modulus.bits() <= IFMA_BITS_MAX && is_x86_feature_detected!("avx512ifma") {
            return Self(Kind::Ifma);
        }
        Self::of_words(level)
    }

    /// Every one that `level` has for a prime.
    #[cfg(test)]
    pub(crate) fn all(level: Level, modulus: Modulus) -> Vec<Self> {
        let mut all = vec![Self::of_words(level)];
        all.extend(Some(Self::fastest(level, modulus)).filter(|fastest| !all.contains(fastest)));
        all
    }

    /// For sums of products with constants: also of primes that are too wide for it otherwise.
    pub(crate) fn of_constants(level: Level) -> Self {
        #[cfg(target_arch = "x86_64")]
        if level.0 == Isa::Avx512 && is_x86_feature_detected!("avx512ifma") {
            return Self(Kind::Ifma);
        }
        Self::of_words(level)
    }

    /// For what is not arithmetic modulo a prime.
    pub(crate) fn of_words(level: Level) -> Self {
        Self(match level.0 {
            Isa::Portable => Kind::Portable,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Kind::Avx2,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Kind::Avx512,
        })
    }

    /// Words of a vector, and bits of a factor's fraction.
    pub(crate) fn shape(self) -> (usize, u32) {
        match self.0 {
            Kind::Portable => shape_of::<portable::W4>(),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => shape_of::<avx2::W4>(),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => shape_of::<avx512::W8<64>>(),
            #[cfg(target_arch = "x86_64")]
            Kind::Ifma => shape_of::<avx512::W8<52>>(),
        }
    }

    /// What constants are multiplied by for [`Residues::reduce_by_unit`].
    pub(crate) fn unit(self, modulus: Modulus) -> u64 {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Ifma => modulus.reduce(1 << LOW_BITS),
            _ => 1,
        }
    }

    /// Name, for benchmark tables.
    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Kind::Ifma => "ifma",
        }
    }

    /// Runs `kernel`.
    #[inline]
    pub(crate) fn run<K: ResidueKernel>(self, kernel: K) {
        match self.0 {
            Kind::Portable => run_portable(kernel),
            // SAFETY: an `Arithmetic` of this kind is only made of a `Level` whose features were detected.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { run_avx2(kernel) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => unsafe { run_avx512(kernel) },
            // SAFETY: as above, and IFMA was detected as well.
            #[cfg(target_arch = "x86_64")]
            Kind::Ifma => unsafe { run_ifma(kernel) },
        }
    }
}

fn shape_of<V: Residues>() -> (usize, u32) {
    (V::COUNT, V::FRACTION_BITS)
}

/// Four times a prime fits the 52 bits that are multiplied at once.
const IFMA_BITS_MAX: u32 = 50;

#[inline(never)]
fn run_portable<K: ResidueKernel>(kernel: K) {
    kernel.run::<portable::W4>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_avx2<K: ResidueKernel>(kernel: K) {
    kernel.run::<avx2::W4>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
fn run_avx512<K: ResidueKernel>(kernel: K) {
    kernel.run::<avx512::W8<64>>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512ifma")]
fn run_ifma<K: ResidueKernel>(kernel: K) {
    kernel.run::<avx512::W8<52>>();
}

/// Low bits that [`Residues::parts`] has apart.
pub(crate) const LOW_BITS: u32 = 52;

/// A prime of more than 50 bits, prepared for sums whose products are of 52 bits.
#[derive(Clone, Copy)]
pub(crate) struct WidePrime<V> {
    value: V,
    /// 2^[`LOW_BITS`], as a factor.
    unit: Multiplier<V>,
    least: u64,
}

impl<V: Residues> WidePrime<V> {
    #[inline(always)]
    pub(crate) fn new(modulus: Modulus) -> Self {
        let unit = modulus.factor(modulus.reduce(1 << LOW_BITS));
        let unit = Multiplier { value: V::splat(unit.value()), fraction: V::splat(unit.fraction(u64::BITS)) };
        Self { value: V::splat(modulus.value()), unit, least: modulus.value() }
    }

    /// What a sum and 2^[`LOW_BITS`] times `top` come to, as least residues. `top` and the upper part of the sum are below
    /// 2^63 together.
    #[inline(always)]
    pub(crate) fn reduce(self, sum: V::Sum, top: V) -> V {
        let [low, upper] = V::parts(sum);
        let upper = upper.add(top).add(low.shift_down(LOW_BITS));
        // Both parts come to less than four times the prime.
        let low = low.and(V::splat((1 << LOW_BITS) - 1));
        least(low.add(halves::multiply(upper, self.unit, self.value)), 2 * halves::EXCESS, self.least)
    }
}

/// `words`, which are less than `below` times `prime`, made least. `below` is a power of two.
#[inline(always)]
pub(crate) fn least<V: Residues>(words: V, below: u64, prime: u64) -> V {
    let mut words = words;
    let mut bound = below;
    while bound > 1 {
        bound /= 2;
        words = words.fold(V::splat(bound * prime));
    }
    words
}
