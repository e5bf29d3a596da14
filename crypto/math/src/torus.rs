//! The discretised torus: unsigned words whose wrap-around is the reduction modulo 1.

/// A torus word. Implemented for `u32` and `u64` only.
///
/// Moduli below the word's own (2^21 in a `u32`, say) keep their value in the top bits.
pub trait Torus: Copy + Default + PartialEq + Eq + std::fmt::Debug + Send + Sync + sealed::Sealed + 'static {
    /// Width of the word.
    const BITS: u32;

    /// Sum modulo the word.
    fn wrapping_add(self, other: Self) -> Self;
    /// Difference modulo the word.
    fn wrapping_sub(self, other: Self) -> Self;
    /// Negation modulo the word.
    fn wrapping_neg(self) -> Self;
    /// Product with an integer modulo the word.
    fn wrapping_mul(self, other: Self) -> Self;
    /// The low bits of `value`.
    fn from_u64(value: u64) -> Self;
    /// Zero-extended.
    fn to_u64(self) -> u64;
    /// Sign-extended: the representative in [-2^(BITS-1), 2^(BITS-1)).
    fn to_i64(self) -> i64;
    /// `value` modulo 1, scaled to the word and rounded to nearest. Exact for |value| < 2^51.
    fn from_torus_f64(value: f64) -> Self;

    /// The low bits of a signed integer.
    #[inline(always)]
    fn from_i64(value: i64) -> Self {
        Self::from_u64(value as u64)
    }

    /// The top `self_bits` of a word, rounded to nearest (ties up), as an integer below 2^log2.
    #[inline(always)]
    fn round_to_modulus(self, log2: u32) -> u64 {
        debug_assert!(0 < log2 && log2 < Self::BITS);
        self.wrapping_add(Self::from_u64(1 << (Self::BITS - 1 - log2))).to_u64() >> (Self::BITS - log2)
    }
}

/// Adding and subtracting this rounds an f64 of magnitude below 2^51 to the nearest integer, ties to
/// even, and leaves that integer in the low bits of the sum. Plain arithmetic, so it vectorises on
/// every instruction set.
pub(crate) const ROUND_MAGIC: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52

impl Torus for u32 {
    const BITS: u32 = 32;
    #[inline(always)]
    fn wrapping_add(self, other: Self) -> Self {
        u32::wrapping_add(self, other)
    }
    #[inline(always)]
    fn wrapping_sub(self, other: Self) -> Self {
        u32::wrapping_sub(self, other)
    }
    #[inline(always)]
    fn wrapping_neg(self) -> Self {
        u32::wrapping_neg(self)
    }
    #[inline(always)]
    fn wrapping_mul(self, other: Self) -> Self {
        u32::wrapping_mul(self, other)
    }
    #[inline(always)]
    fn from_u64(value: u64) -> Self {
        value as u32
    }
    #[inline(always)]
    fn to_u64(self) -> u64 {
        u64::from(self)
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        i64::from(self as i32)
    }
    #[inline(always)]
    fn from_torus_f64(value: f64) -> Self {
        let fraction = value - ((value + ROUND_MAGIC) - ROUND_MAGIC);
        (fraction * 4_294_967_296.0 + ROUND_MAGIC).to_bits() as u32
    }
}

impl Torus for u64 {
    const BITS: u32 = 64;
    #[inline(always)]
    fn wrapping_add(self, other: Self) -> Self {
        u64::wrapping_add(self, other)
    }
    #[inline(always)]
    fn wrapping_sub(self, other: Self) -> Self {
        u64::wrapping_sub(self, other)
    }
    #[inline(always)]
    fn wrapping_neg(self) -> Self {
        u64::wrapping_neg(self)
    }
    #[inline(always)]
    fn wrapping_mul(self, other: Self) -> Self {
        u64::wrapping_mul(self, other)
    }
    #[inline(always)]
    fn from_u64(value: u64) -> Self {
        value
    }
    #[inline(always)]
    fn to_u64(self) -> u64 {
        self
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        self as i64
    }
    #[inline(always)]
    fn from_torus_f64(value: f64) -> Self {
        // Two 32-bit halves, each within reach of the rounding constant; the split is exact.
        let fraction = value - ((value + ROUND_MAGIC) - ROUND_MAGIC);
        let scaled = fraction * 4_294_967_296.0;
        let high = scaled + ROUND_MAGIC;
        let low = (scaled - (high - ROUND_MAGIC)) * 4_294_967_296.0 + ROUND_MAGIC;
        (high.to_bits() << 32).wrapping_add(low.to_bits().wrapping_sub(ROUND_MAGIC.to_bits()))
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}
