//! Four lanes in scalar arithmetic, which the compiler vectorises as far as the target allows.

use std::array::from_fn;

use super::{ROUND, UNITS, Vector, Words};

impl Vector for [f64; 4] {
    const LANES: usize = 4;
    type Array = [f64; 4];
    type U32 = [u32; 4];
    type U64 = [u64; 4];

    #[inline(always)]
    fn splat(value: f64) -> Self {
        [value; 4]
    }
    #[inline(always)]
    fn load(from: &[f64; 4]) -> Self {
        *from
    }
    #[inline(always)]
    fn store(self, to: &mut [f64; 4]) {
        *to = self;
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        from_fn(|lane| self[lane] + other[lane])
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        from_fn(|lane| self[lane] - other[lane])
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        from_fn(|lane| self[lane] * other[lane])
    }
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        from_fn(|lane| self[lane] * b[lane] + c[lane])
    }
    #[inline(always)]
    fn mul_sub(self, b: Self, c: Self) -> Self {
        from_fn(|lane| self[lane] * b[lane] - c[lane])
    }
    #[inline(always)]
    fn neg_mul_add(self, b: Self, c: Self) -> Self {
        from_fn(|lane| c[lane] - self[lane] * b[lane])
    }
    #[inline(always)]
    fn column(rows: &[Self], index: usize) -> Self {
        from_fn(|row| rows[row][index])
    }
}

impl Words<u32, [f64; 4]> for [u32; 4] {
    type Array = [u32; 4];

    #[inline(always)]
    fn splat(word: u32) -> Self {
        [word; 4]
    }
    #[inline(always)]
    fn load(from: &[u32; 4]) -> Self {
        *from
    }
    #[inline(always)]
    fn store(self, to: &mut [u32; 4]) {
        *to = self;
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        from_fn(|lane| self[lane].wrapping_add(other[lane]))
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        from_fn(|lane| self[lane].wrapping_sub(other[lane]))
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        from_fn(|lane| self[lane] & other[lane])
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        from_fn(|lane| self[lane] ^ other[lane])
    }
    #[inline(always)]
    fn shift_up(self, bits: u32) -> Self {
        self.map(|word| word << bits)
    }
    #[inline(always)]
    fn shift_down(self, bits: u32) -> Self {
        self.map(|word| word >> bits)
    }
    #[inline(always)]
    fn top_bits(self, bits: u32) -> [f64; 4] {
        self.map(|word| f64::from((word & (u32::MAX << (32 - bits))) as i32))
    }
    #[inline(always)]
    fn unit_of_top_bits(bits: u32) -> f64 {
        f64::from(32 - bits).exp2()
    }
    #[inline(always)]
    fn to_signed(self) -> [f64; 4] {
        self.map(|word| f64::from(word as i32))
    }
    #[inline(always)]
    fn from_turns(turns: [f64; 4]) -> Self {
        turns.map(|turns| ((turns - (turns + ROUND - ROUND)) * 4_294_967_296.0 + ROUND).to_bits() as u32)
    }
}

impl Words<u64, [f64; 4]> for [u64; 4] {
    type Array = [u64; 4];

    #[inline(always)]
    fn splat(word: u64) -> Self {
        [word; 4]
    }
    #[inline(always)]
    fn load(from: &[u64; 4]) -> Self {
        *from
    }
    #[inline(always)]
    fn store(self, to: &mut [u64; 4]) {
        *to = self;
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        from_fn(|lane| self[lane].wrapping_add(other[lane]))
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        from_fn(|lane| self[lane].wrapping_sub(other[lane]))
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        from_fn(|lane| self[lane] & other[lane])
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        from_fn(|lane| self[lane] ^ other[lane])
    }
    #[inline(always)]
    fn shift_up(self, bits: u32) -> Self {
        self.map(|word| word << bits)
    }
    #[inline(always)]
    fn shift_down(self, bits: u32) -> Self {
        self.map(|word| word >> bits)
    }
    #[inline(always)]
    fn top_bits(self, bits: u32) -> [f64; 4] {
        // The exclusive or places the number in the mantissa of 2^52 and flips its sign bit, which
        // then has a positive weight. The subtraction removes 2^52 and that weight.
        let half = 1 << (bits - 1);
        let above = f64::from_bits(UNITS | half);
        self.map(|word| f64::from_bits((word >> (64 - bits)) ^ (UNITS | half)) - above)
    }
    #[inline(always)]
    fn unit_of_top_bits(_: u32) -> f64 {
        1.0
    }
    #[inline(always)]
    fn to_signed(self) -> [f64; 4] {
        self.map(|word| word as i64 as f64)
    }
    #[inline(always)]
    fn from_turns(turns: [f64; 4]) -> Self {
        // Between 1 and 2, the mantissa counts units of 2^-52 of a turn. The count is half a turn
        // too large, which the exclusive or corrects.
        turns.map(|turns| ((turns - (turns + ROUND - ROUND) + 1.5).to_bits() << 12) ^ (1 << 63))
    }
}
