//! What a kernel can do with a vector of residues.
//!
//! Which vectors there are follows from the instruction set and from the prime: where the processor multiplies 52 bits
//! at once, or doubles with a product that is not rounded, primes below 2^50 are faster than others.

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

/// A few numbers at once, which are words in memory.
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
    /// Rows become columns: [`Self::COUNT`] of each.
    fn transpose(rows: &mut [Self]);
}

/// Numbers that are words in lanes as well. All arithmetic is modulo the word.
pub(crate) trait Words: Lanes {
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

/// Numbers that are residues: each is one modulo a prime, though not always the least one.
pub(crate) trait Residues: Lanes {
    /// Bits of what is multiplied.
    const FRACTION_BITS: u32;
    /// Products that one [`Self::Sum`] takes.
    const PRODUCTS_MAX: usize;
    /// Products come out below this many times the prime, and differences of them have as much added where there is no sign.
    const EXCESS: u64;
    /// Have numbers a sign? Then they have room for the sums of three levels of a transform.
    const IS_SIGNED: bool = false;
    /// The prime, prepared.
    type Prime: Copy;
    /// A sum of products that is not reduced yet.
    type Sum: Copy;

    /// A prime prepared.
    fn prime(modulus: Modulus) -> Self::Prime;
    /// A factor as tables have it, in two words: itself, and its part of the prime.
    fn constant(factor: Factor) -> [u64; 2] {
        factor.constant(Self::FRACTION_BITS)
    }
    /// Half of a constant in every lane.
    #[inline(always)]
    fn splat_kept(word: u64) -> Self {
        Self::splat(word)
    }
    /// From memory, what [`Self::keep`] put there, or halves of constants.
    #[inline(always)]
    fn kept(from: &Self::Array) -> Self {
        Self::load(from)
    }
    /// To memory, where nobody else reads it.
    #[inline(always)]
    fn keep(self, to: &mut Self::Array) {
        self.store(to);
    }
    /// `self - other`, where other is less than `excess`.
    #[inline(always)]
    fn difference(self, other: Self, excess: Self) -> Self {
        self.add(excess).sub(other)
    }
    /// What is less than twice `excess` made less than that.
    #[inline(always)]
    fn settle(self, excess: Self, _: Self::Prime) -> Self {
        self.fold(excess)
    }
    /// The least residue of what is less than `below` times the prime of this value. `below` is a power of two.
    #[inline(always)]
    fn least(self, below: u64, value: u64, _: Self::Prime) -> Self {
        least(self, below, value)
    }
    /// The product with a factor, below [`Self::EXCESS`] times the prime, for numbers below 2^[`Self::FRACTION_BITS`].
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
        let [value, fraction] = V::constant(factor);
        Self { value: V::splat_kept(value), fraction: V::splat_kept(fraction) }
    }
}

/// A loop nest over residues, compiled once for each kind of vector. As with `super::Kernel`, all that it calls must be
/// inlined.
pub(crate) trait ResidueKernel {
    fn run<V: Residues>(self);
}

/// The same over residues that are words.
pub(crate) trait WordKernel {
    fn run<V: Words + Residues>(self);
}

/// Which vectors compute with a prime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arithmetic(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Words(WordArithmetic),
    #[cfg(target_arch = "x86_64")]
    Doubles,
}

impl Arithmetic {
    /// The fastest that `level` has for a prime of so many bits.
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

    /// Every one that `level` has for a prime.
    #[cfg(test)]
    pub(crate) fn all(level: Level, modulus: Modulus) -> Vec<Self> {
        let mut all = vec![Self(Kind::Words(WordArithmetic::of(level)))];
        all.extend(Some(Self::fastest(level, modulus)).filter(|fastest| !all.contains(fastest)));
        all
    }

    /// Numbers of a vector.
    pub(crate) fn count(self) -> usize {
        match self.0 {
            Kind::Words(words) => words.shape().0,
            #[cfg(target_arch = "x86_64")]
            Kind::Doubles => doubles::F4::COUNT,
        }
    }

    /// A factor as tables have it.
    pub(crate) fn constant(self, factor: Factor) -> [u64; 2] {
        match self.0 {
            Kind::Words(words) => factor.constant(words.shape().1),
            #[cfg(target_arch = "x86_64")]
            Kind::Doubles => doubles::F4::constant(factor),
        }
    }

    /// Name, for benchmark tables.
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
            // SAFETY: an `Arithmetic` of this kind is only made of a `Level` whose features were detected.
            #[cfg(target_arch = "x86_64")]
            Kind::Doubles => unsafe { run_doubles(kernel) },
        }
    }
}

/// A kernel that would take any residues, given words.
struct OfResidues<K>(K);

impl<K: ResidueKernel> WordKernel for OfResidues<K> {
    #[inline(always)]
    fn run<V: Words + Residues>(self) {
        self.0.run::<V>();
    }
}

/// Which vectors of words compute with a prime.
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
    /// Of `level`, for primes of any width.
    pub(crate) fn of(level: Level) -> Self {
        Self(match level.0 {
            Isa::Portable => WordKind::Portable,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => WordKind::Avx2,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => WordKind::Avx512,
        })
    }

    /// For sums of products with constants: also of primes that are too wide for it otherwise.
    pub(crate) fn of_constants(level: Level) -> Self {
        #[cfg(target_arch = "x86_64")]
        if level.0 == Isa::Avx512 && is_x86_feature_detected!("avx512ifma") {
            return Self(WordKind::Ifma);
        }
        Self::of(level)
    }

    /// Words of a vector, and bits of a factor's fraction.
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

    /// What constants are multiplied by for [`Residues::reduce_by_unit`].
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
            // SAFETY: a `WordArithmetic` of this kind is only made of a `Level` whose features were detected.
            #[cfg(target_arch = "x86_64")]
            WordKind::Avx2 => unsafe { run_avx2(kernel) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            WordKind::Avx512 => unsafe { run_avx512(kernel) },
            // SAFETY: as above, and IFMA was detected as well.
            #[cfg(target_arch = "x86_64")]
            WordKind::Ifma => unsafe { run_ifma(kernel) },
        }
    }
}

fn shape_of<V: Residues>() -> (usize, u32) {
    (V::COUNT, V::FRACTION_BITS)
}

/// Four times a prime fits the 52 bits that are multiplied at once, or a double.
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

impl<V: Words + Residues> WidePrime<V> {
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
fn least<V: Lanes>(words: V, below: u64, prime: u64) -> V {
    let mut words = words;
    let mut bound = below;
    while bound > 1 {
        bound /= 2;
        words = words.fold(V::splat(bound * prime));
    }
    words
}
