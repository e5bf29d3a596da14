//! Integers, with the types of programs.

use std::fmt;

use cloakwork_circuit::Type;
use zeroize::Zeroize;

/// A value of up to 256 bits, in two's complement. `Debug` does not print the value, which may be
/// secret.
#[derive(Clone, Copy, Default, PartialEq, Eq, Zeroize)]
pub struct Integer([u8; BYTES]);

const BYTES: usize = 32;

impl Integer {
    /// The digits of two bits of a value of the type, least significant first.
    pub fn digits(&self, ty: Type) -> impl Iterator<Item = u64> + '_ {
        (0..ty.blocks()).map(|place| u64::from(self.0[place / 4] >> (2 * (place % 4)) & 3))
    }

    /// The value of the type with these digits. Digits above 3 carry into the next digit.
    pub fn from_digits(digits: &[u64], ty: Type) -> Self {
        let mut value = Self::default();
        let mut carry = 0;
        for (place, digit) in digits.iter().enumerate().take(ty.blocks()) {
            let sum = digit + carry;
            value.0[place / 4] |= ((sum & 3) as u8) << (2 * (place % 4));
            carry = sum >> 2;
        }
        value.extended(ty)
    }

    /// The bytes of a value of the type, least significant first.
    pub fn bytes(&self, ty: Type) -> &[u8] {
        &self.0[..ty.blocks().div_ceil(4)]
    }

    /// The lowest 128 bits.
    pub(crate) fn low_bits(&self) -> u128 {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.0[..16]);
        u128::from_le_bytes(bytes)
    }

    /// Parses a decimal number, a hexadecimal number after `0x`, or `true` and `false`. Refuses
    /// values that the type does not have.
    pub fn parse(text: &str, ty: Type) -> Result<Self, String> {
        let (is_negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
        let (radix, digits) = digits.strip_prefix("0x").map_or((10, digits), |digits| (16, digits));
        let none = || format!("'{text}' is no {ty}{}", range(ty));
        let magnitude = match (ty, digits) {
            (Type::Bool, "true") => Self::from(1_u128),
            (Type::Bool, "false") => Self::default(),
            _ if digits.is_empty() => return Err(none()),
            _ => {
                let digit = |char: char| char.to_digit(radix).ok_or_else(none);
                let add = |sum: Self, char: char| sum.times_plus(radix, digit(char)?).ok_or_else(none);
                digits.chars().filter(|char| *char != '_').try_fold(Self::default(), add)?
            }
        };
        let value = if is_negative { magnitude.negative() } else { magnitude };
        // The value has the right sign, and truncation to the type does not change it.
        let fits =
            value.extended(ty) == value && (magnitude == Self::default() || value.is_negative(ty) == is_negative);
        if fits { Ok(value) } else { Err(none()) }
    }

    /// The value in decimal, or true or false for a boolean.
    pub fn display(&self, ty: Type) -> String {
        if ty == Type::Bool {
            return (*self != Self::default()).to_string();
        }
        let (mut rest, sign) = if self.is_negative(ty) { (self.negative(), "-") } else { (*self, "") };
        let mut digits = Vec::new();
        while rest != Self::default() || digits.is_empty() {
            digits.push(char::from(b'0' + rest.divide_by_ten()));
        }
        let digits: String = digits.into_iter().rev().collect();
        format!("{sign}{digits}")
    }

    fn is_negative(&self, ty: Type) -> bool {
        ty.is_signed() && self.0[BYTES - 1] >= 0x80
    }

    /// Truncates to the type, and extends with zeros or the sign.
    fn extended(mut self, ty: Type) -> Self {
        let bits = ty.bits().unwrap_or(1) as usize;
        let is_set = |value: &Self, bit: usize| value.0[bit / 8] >> (bit % 8) & 1 == 1;
        let fill = ty.is_signed() && is_set(&self, bits - 1);
        for bit in bits..8 * BYTES {
            self.0[bit / 8] &= !(1 << (bit % 8));
            self.0[bit / 8] |= u8::from(fill) << (bit % 8);
        }
        self
    }

    fn negative(mut self) -> Self {
        let mut carry = true;
        for byte in &mut self.0 {
            (*byte, carry) = (!*byte).overflowing_add(carry.into());
        }
        self
    }

    fn times_plus(mut self, factor: u32, digit: u32) -> Option<Self> {
        let mut carry = digit;
        for byte in &mut self.0 {
            let value = u32::from(*byte) * factor + carry;
            (*byte, carry) = (value as u8, value >> 8);
        }
        (carry == 0).then_some(self)
    }

    /// Divides by ten, and returns the remainder.
    fn divide_by_ten(&mut self) -> u8 {
        let mut left = 0;
        for byte in self.0.iter_mut().rev() {
            let value = left << 8 | u32::from(*byte);
            (*byte, left) = ((value / 10) as u8, value % 10);
        }
        left as u8
    }
}

/// The range of a type, if it is short enough for a message.
fn range(ty: Type) -> String {
    match ty {
        Type::Uint(bits @ ..=64) => format!(": {} to {}", 0, u64::MAX >> (64 - bits)),
        Type::Int(bits @ ..=64) => format!(": {} to {}", i64::MIN >> (64 - bits), i64::MAX >> (64 - bits)),
        Type::Bool => ": true or false".to_owned(),
        _ => String::new(),
    }
}

impl From<u128> for Integer {
    fn from(value: u128) -> Self {
        let mut bytes = [0; BYTES];
        bytes[..16].copy_from_slice(&value.to_le_bytes());
        Self(bytes)
    }
}

impl From<i128> for Integer {
    fn from(value: i128) -> Self {
        let mut bytes = [if value < 0 { 0xff } else { 0 }; BYTES];
        bytes[..16].copy_from_slice(&value.to_le_bytes());
        Self(bytes)
    }
}

impl fmt::Debug for Integer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Integer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, ty: Type) -> Result<String, String> {
        let value = Integer::parse(text, ty)?;
        let digits: Vec<u64> = value.digits(ty).collect();
        assert!(Integer::from_digits(&digits, ty) == value, "the digits are the value's");
        Ok(value.display(ty))
    }

    #[test]
    fn values_are_parsed_and_displayed() {
        let long = "115792089237316195423570985008687907853269984665640564039457584007913129639935";
        for (text, ty, expected) in [
            ("0", Type::Uint(2), "0"),
            ("3", Type::Uint(2), "3"),
            ("-2", Type::Int(2), "-2"),
            ("255", Type::Uint(8), "255"),
            ("0xff", Type::Uint(8), "255"),
            ("1_000", Type::Uint(10), "1000"),
            ("-128", Type::Int(8), "-128"),
            ("127", Type::Int(8), "127"),
            ("-0", Type::Int(8), "0"),
            ("true", Type::Bool, "true"),
            (long, Type::Uint(256), long),
            ("-1", Type::Int(256), "-1"),
        ] {
            assert_eq!(shown(text, ty).as_deref(), Ok(expected), "{text} as {ty}");
        }
    }

    #[test]
    fn values_outside_the_type_are_refused() {
        for (text, ty) in [
            ("", Type::Uint(8)),
            ("-", Type::Int(8)),
            ("x", Type::Uint(8)),
            ("256", Type::Uint(8)),
            ("-1", Type::Uint(8)),
            ("128", Type::Int(8)),
            ("-129", Type::Int(8)),
            ("2", Type::Bool),
            ("115792089237316195423570985008687907853269984665640564039457584007913129639936", Type::Uint(256)),
        ] {
            let problem = shown(text, ty).expect_err("it holds none such");
            assert!(problem.starts_with(&format!("'{text}' is no {ty}")), "{problem}");
        }
    }

    #[test]
    fn refusals_state_the_range_of_the_type() {
        assert_eq!(shown("300", Type::Uint(8)), Err("'300' is no u8: 0 to 255".to_owned()));
        assert_eq!(shown("40", Type::Int(6)), Err("'40' is no i6: -32 to 31".to_owned()));
    }

    #[test]
    fn digits_carry_into_the_next_digit() {
        assert!(Integer::from_digits(&[7, 3, 0, 0], Type::Uint(8)) == Integer::from(19_u128));
        assert!(Integer::from_digits(&[4, 3, 3, 3], Type::Int(8)) == Integer::default());
    }
}
