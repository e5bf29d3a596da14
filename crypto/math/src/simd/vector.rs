//! Operations of a kernel on a vector of doubles, and on an equal number of torus words.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
mod portable;

use bytemuck::Pod;

/// Two vectors in memory.
pub(crate) type Pair<V> = [<V as Vector>::Array; 2];

/// A slice as pairs of vectors or as vectors of words, without an incomplete last element.
#[inline(always)]
pub(crate) fn whole<E: Pod, A: Pod>(elements: &[E]) -> &[A] {
    let len = size_of::<A>() / size_of::<E>();
    bytemuck::cast_slice(&elements[..elements.len() / len * len])
}

/// Like [`whole`], for writing.
#[inline(always)]
pub(crate) fn whole_mut<E: Pod, A: Pod>(elements: &mut [E]) -> &mut [A] {
    let len = size_of::<A>() / size_of::<E>();
    let end = elements.len() / len * len;
    bytemuck::cast_slice_mut(&mut elements[..end])
}

/// A vector of doubles.
pub trait Vector: Copy {
    /// Number of lanes.
    const LANES: usize;
    /// The vector in memory.
    type Array: Pod;
    /// A vector of torus words of 32 bits, with an equal number of lanes.
    type U32: Words<u32, Self>;
    /// A vector of torus words of 64 bits, with an equal number of lanes.
    type U64: Words<u64, Self>;

    /// A vector with this value in every lane.
    fn splat(value: f64) -> Self;
    /// Loads from memory.
    fn load(from: &Self::Array) -> Self;
    /// Stores to memory.
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
    /// One column of a square of [`Self::LANES`] rows. The compiler computes intermediate results
    /// that several columns share only once, next to their use. A whole transposition at one point
    /// would delay all operations behind it.
    fn column(rows: &[Self], index: usize) -> Self;
}

/// A vector of torus words. All arithmetic is modulo the word.
pub trait Words<T, V>: Copy {
    /// The vector in memory.
    type Array: Pod;

    /// A vector with this word in every lane.
    fn splat(word: T) -> Self;
    /// Loads from memory.
    fn load(from: &Self::Array) -> Self;
    /// Stores to memory.
    fn store(self, to: &mut Self::Array);
    /// `self + other`.
    fn add(self, other: Self) -> Self;
    /// `self - other`.
    fn sub(self, other: Self) -> Self;
    /// Bitwise and.
    fn and(self, other: Self) -> Self;
    /// Bitwise exclusive or.
    fn xor(self, other: Self) -> Self;
    /// Multiplied by 2^`bits`.
    fn shift_up(self, bits: u32) -> Self;
    /// Divided by 2^`bits`, rounded down.
    fn shift_down(self, bits: u32) -> Self;
    /// The top `bits` of each word, as a signed number times [`Self::unit_of_top_bits`].
    fn top_bits(self, bits: u32) -> V;
    /// The result of [`Self::top_bits`] for the number one. Each vector type has the scale that
    /// costs it nothing.
    fn unit_of_top_bits(bits: u32) -> f64;
    /// The whole word, as a signed number, rounded to a double.
    fn to_signed(self) -> V;
    /// Converts numbers of turns, of magnitude below 2^51, to torus words.
    fn from_turns(turns: V) -> Self;
}

/// Rounding constant. Adding and subtracting it rounds a double of magnitude below 2^51 to the
/// nearest integer, ties to even. The low bits of the sum hold that integer.
const ROUND: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52
/// Bits of the double 2^52, whose last mantissa bit has the weight one.
pub(in crate::simd) const UNITS: u64 = 0x4330_0000_0000_0000;
