//! Types of values in the clear.

use crate::{Integer, Type};

/// Type of an encrypted value in the clear: `bool`, or an integer of 8 to 128 bits.
pub trait Clear: Copy + Send + Sync + 'static + sealed::Sealed {
    /// The corresponding type of programs.
    const TYPE: Type;
    /// Converts to the integer type of programs.
    fn to_integer(self) -> Integer;
    /// Converts from the integer type of programs.
    fn from_integer(value: &Integer) -> Self;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! integers {
    ($($clear:ty, $type:expr, $widest:ty;)*) => {$(
        impl sealed::Sealed for $clear {}

        impl Clear for $clear {
            const TYPE: Type = $type;

            fn to_integer(self) -> Integer {
                Integer::from(self as $widest)
            }

            fn from_integer(value: &Integer) -> Self {
                // In two's complement, truncation removes only zeros or copies of the sign.
                value.low_bits() as Self
            }
        }
    )*};
}

integers! {
    u8, Type::Uint(8), u128;
    u16, Type::Uint(16), u128;
    u32, Type::Uint(32), u128;
    u64, Type::Uint(64), u128;
    u128, Type::Uint(128), u128;
    i8, Type::Int(8), i128;
    i16, Type::Int(16), i128;
    i32, Type::Int(32), i128;
    i64, Type::Int(64), i128;
    i128, Type::Int(128), i128;
}

impl sealed::Sealed for bool {}

impl Clear for bool {
    const TYPE: Type = Type::Bool;

    fn to_integer(self) -> Integer {
        Integer::from(u128::from(self))
    }

    fn from_integer(value: &Integer) -> Self {
        value.low_bits() != 0
    }
}
