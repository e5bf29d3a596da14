//! Types of values.

use std::fmt;

use crate::wire;

/// Type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// One shortint block.
    Block,
    /// One bit.
    Bool,
    /// An unsigned integer of this many bits.
    Uint(u32),
    /// A signed integer in two's complement, of this many bits.
    Int(u32),
}

/// Content of a row of a list: a value, or an array of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowType {
    /// Type of the value, or of each element.
    pub ty: Type,
    /// Number of elements of an array; `None` for a single value.
    pub length: Option<usize>,
}

impl RowType {
    /// A single value if `length` is 0, otherwise an array of `length` values.
    pub(crate) fn new(ty: Type, length: u32) -> Self {
        Self { ty, length: (length > 0).then_some(length as usize) }
    }

    /// Length as encoded in a message: 0 for a single value.
    pub fn wire_length(self) -> u32 {
        self.length.unwrap_or(0) as u32
    }

    /// Number of values in a row.
    pub fn values(self) -> usize {
        self.length.unwrap_or(1)
    }

    /// Number of blocks in a row.
    pub fn blocks(self) -> usize {
        self.values().saturating_mul(self.ty.blocks())
    }
}

/// Bits of a digit of an integer.
const DIGIT_BITS: u32 = 2;
/// Bits of the longest integers.
const BITS_MAX: u32 = 256;

impl Type {
    /// Decodes a type from a message.
    pub(crate) fn read(ty: wire::Type, bits: u32) -> Result<Self, String> {
        match ty {
            wire::Type::Block => Ok(Self::Block),
            wire::Type::Bool => Ok(Self::Bool),
            wire::Type::Uint | wire::Type::Int
                if !(1..=BITS_MAX).contains(&bits) || !bits.is_multiple_of(DIGIT_BITS) =>
            {
                Err(format!("an integer of {bits} bits: expected an even number from 2 to {BITS_MAX}"))
            }
            wire::Type::Uint => Ok(Self::Uint(bits)),
            wire::Type::Int => Ok(Self::Int(bits)),
            wire::Type::Vector => Err("a vector: only sets of CKKS have them".to_owned()),
            wire::Type::Unspecified => Err("it has no type".to_owned()),
        }
    }

    /// Largest value of a block of a bit or of an integer. A block on its own has its own degree.
    pub fn degree(self) -> Option<u32> {
        match self {
            Self::Block => None,
            Self::Bool => Some(1),
            Self::Uint(_) | Self::Int(_) => Some((1 << DIGIT_BITS) - 1),
        }
    }

    /// The encoding of the type in a message, and its number of bits.
    pub fn wire(self) -> (wire::Type, u32) {
        match self {
            Self::Block => (wire::Type::Block, 0),
            Self::Bool => (wire::Type::Bool, 0),
            Self::Uint(bits) => (wire::Type::Uint, bits),
            Self::Int(bits) => (wire::Type::Int, bits),
        }
    }

    /// Number of blocks of a value.
    pub fn blocks(self) -> usize {
        self.bits().map_or(1, |bits| (bits / DIGIT_BITS) as usize)
    }

    /// Number of bits, for integers.
    pub fn bits(self) -> Option<u32> {
        match self {
            Self::Block | Self::Bool => None,
            Self::Uint(bits) | Self::Int(bits) => Some(bits),
        }
    }

    /// Whether the type has negative values.
    pub fn is_signed(self) -> bool {
        matches!(self, Self::Int(_))
    }
}

impl fmt::Display for Type {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block => out.write_str("block"),
            Self::Bool => out.write_str("bool"),
            Self::Uint(bits) => write!(out, "u{bits}"),
            Self::Int(bits) => write!(out, "i{bits}"),
        }
    }
}

impl fmt::Display for RowType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.length {
            Some(length) => write!(out, "{}[{length}]", self.ty),
            None => self.ty.fmt(out),
        }
    }
}
