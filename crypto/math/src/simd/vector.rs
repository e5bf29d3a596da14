//! What a kernel can do with a vector of doubles, and with as many torus words.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
mod portable;

use bytemuck::Pod;

/// Two vectors in memory.
pub(crate) type Pair<V> = [<V as Vector>::Array; 2];

/// A slice as pairs of vectors or as words of one, up to the last whole one.
#[inline(always)]
pub(crate) fn whole<E: Pod, A: Pod>(elements: &[E]) -> &[A] {
    let len = size_of::<A>() / size_of::<E>();
    bytemuck::cast_slice(&elements[..elements.len() / len * len])
}

/// As [`whole`], to be written.
#[inline(always)]
pub(crate) fn whole_mut<E: Pod, A: Pod>(elements: &mut [E]) -> &mut [A] {
    let len = size_of::<A>() / size_of::<E>();
    let end = elements.len() / len * len;
    bytemuck::cast_slice_mut(&mut elements[..end])
}

/// A few doubles at once.
pub trait Vector: Copy {
    /// How many.
    const LANES: usize;
    /// The same in memory.
    type Array: Pod;
    /// As many torus words of 32 bits.
    type U32: Words<u32, Self>;
    /// As many torus words of 64 bits.
    type U64: Words<u64, Self>;

    /// The same in every lane.
    fn splat(value: f64) -> Self;
    /// From memory.
    fn load(from: &Self::Array) -> Self;
    /// To memory.
    fn store(self, to: &mut Self::Array);
    /// `self + other`.
    fn add(self, other: Self) -> Self;
    /// `self - other`.
    fn sub(self, other: Self) -> Self;
    /// `self * other`.
    fn mul(self, other: Self) -> Self;
    /// `self * b + c`.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// `self * b - c`.
    fn mul_sub(self, b: Self, c: Self) -> Self;
    /// `c - self * b`.
    fn neg_mul_add(self, b: Self, c: Self) -> Self;
    /// One column of a square of [`Self::LANES`] rows. What several columns have in common is worked out once, and each
    /// next to what uses it: a whole transposition in one place would keep everything behind it waiting.
    fn column(rows: &[Self], index: usize) -> Self;
}

/// A few torus words at once. All arithmetic is modulo the word.
pub trait Words<T, V>: Copy {
    /// The same in memory.
    type Array: Pod;

    /// The same in every lane.
    fn splat(word: T) -> Self;
    /// From memory.
    fn load(from: &Self::Array) -> Self;
    /// To memory.
    fn store(self, to: &mut Self::Array);
    /// `self + other`.
    fn add(self, other: Self) -> Self;
    /// `self - other`.
    fn sub(self, other: Self) -> Self;
    /// Bits that are in both.
    fn and(self, other: Self) -> Self;
    /// Bits that are in one but not in the other.
    fn xor(self, other: Self) -> Self;
    /// Multiplied by 2^`bits`.
    fn shift_up(self, bits: u32) -> Self;
    /// Divided by 2^`bits`, without a remainder.
    fn shift_down(self, bits: u32) -> Self;
    /// The top `bits` of each word, as a signed number times [`Self::unit_of_top_bits`].
    fn top_bits(self, bits: u32) -> V;
    /// What [`Self::top_bits`] gives for one: each kind of vector has a scale that costs it nothing.
    fn unit_of_top_bits(bits: u32) -> f64;
    /// The whole word, as a signed number, rounded to a double.
    fn to_signed(self) -> V;
    /// Numbers of turns, of magnitude below 2^51, as torus words.
    fn from_turns(turns: V) -> Self;
}

/// Adding and subtracting this rounds a double of magnitude below 2^51 to the nearest integer, ties to even, and
/// leaves that integer in the low bits of the sum.
const ROUND: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52
/// The exponent of 2^52, whose last mantissa bit is worth one.
pub(in crate::simd) const UNITS: u64 = 0x4330_0000_0000_0000;
