//! Operators and methods that build expressions.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

use super::{Clear, Fhe, FheBool, Node, Origin};
use crate::{Integer, Kind};

/// Implements an operator for two encrypted values, owned or borrowed, and for an encrypted and a
/// clear value.
macro_rules! binary {
    ($($operator:ident, $method:ident, $kind:expr;)*) => {$(
        impl<T: Clear> $operator<&Fhe<T>> for &Fhe<T> {
            type Output = Fhe<T>;

            fn $method(self, other: &Fhe<T>) -> Fhe<T> {
                self.apply($kind, &[&other.node])
            }
        }

        impl<T: Clear> $operator<Fhe<T>> for &Fhe<T> {
            type Output = Fhe<T>;

            fn $method(self, other: Fhe<T>) -> Fhe<T> {
                self.$method(&other)
            }
        }

        impl<T: Clear> $operator<&Fhe<T>> for Fhe<T> {
            type Output = Fhe<T>;

            fn $method(self, other: &Fhe<T>) -> Fhe<T> {
                (&self).$method(other)
            }
        }

        impl<T: Clear> $operator for Fhe<T> {
            type Output = Fhe<T>;

            fn $method(self, other: Fhe<T>) -> Fhe<T> {
                (&self).$method(&other)
            }
        }

        impl<T: Clear> $operator<T> for &Fhe<T> {
            type Output = Fhe<T>;

            fn $method(self, other: T) -> Fhe<T> {
                self.$method(&self.session.constant(other))
            }
        }

        impl<T: Clear> $operator<T> for Fhe<T> {
            type Output = Fhe<T>;

            fn $method(self, other: T) -> Fhe<T> {
                (&self).$method(other)
            }
        }
    )*};
}

binary! {
    Add, add, Kind::Add;
    Sub, sub, Kind::Subtract;
    Mul, mul, Kind::Multiply;
    Div, div, Kind::Divide;
    Rem, rem, Kind::Remainder;
    BitAnd, bitand, Kind::And;
    BitOr, bitor, Kind::Or;
    BitXor, bitxor, Kind::Xor;
}

/// Implements shifts by a clear or an encrypted number of bits.
macro_rules! shifts {
    ($($operator:ident, $method:ident, $kind:expr;)*) => {$(
        impl<T: Clear> $operator<u32> for &Fhe<T> {
            type Output = Fhe<T>;

            fn $method(self, bits: u32) -> Fhe<T> {
                self.apply($kind, &[&self.session.constant(bits).node])
            }
        }

        impl<T: Clear> $operator<&Fhe<u32>> for &Fhe<T> {
            type Output = Fhe<T>;

            fn $method(self, bits: &Fhe<u32>) -> Fhe<T> {
                self.apply($kind, &[&bits.node])
            }
        }
    )*};
}

shifts! {
    Shl, shl, Kind::ShiftLeft;
    Shr, shr, Kind::ShiftRight;
}

impl<T: Clear> Neg for &Fhe<T> {
    type Output = Fhe<T>;

    fn neg(self) -> Fhe<T> {
        self.apply(Kind::Negate, &[])
    }
}

impl<T: Clear> Not for &Fhe<T> {
    type Output = Fhe<T>;

    fn not(self) -> Fhe<T> {
        self.apply(Kind::Not, &[])
    }
}

/// Defines methods on two operands that return a value of their type, or a boolean.
macro_rules! of_two {
    ($($name:ident, $kind:expr, $returns:ty, $says:literal;)*) => {
        impl<T: Clear> Fhe<T> {$(
            #[doc = $says]
            pub fn $name(&self, other: &Self) -> $returns {
                self.apply($kind, &[&other.node])
            }
        )*}
    };
}

of_two! {
    equal, Kind::Equal, FheBool, "Whether both values are equal.";
    differs, Kind::NotEqual, FheBool, "Whether the values differ.";
    below, Kind::Less, FheBool, "Whether this value is less than the other.";
    at_most, Kind::LessOrEqual, FheBool, "Whether this value is at most the other.";
    above, Kind::Greater, FheBool, "Whether this value is greater than the other.";
    at_least, Kind::GreaterOrEqual, FheBool, "Whether this value is at least the other.";
    min, Kind::Min, Self, "The lesser of the two.";
    max, Kind::Max, Self, "The greater of the two.";
    add_overflows, Kind::AddOverflows, FheBool, "Whether the sum overflows the type.";
    sub_overflows, Kind::SubtractOverflows, FheBool, "Whether the difference overflows the type.";
    mul_overflows, Kind::MultiplyOverflows, FheBool, "Whether the product overflows the type.";
}

/// Defines methods that count bits.
macro_rules! counts {
    ($($name:ident, $kind:expr, $says:literal;)*) => {
        impl<T: Clear> Fhe<T> {$(
            #[doc = $says]
            pub fn $name(&self) -> Fhe<u32> {
                self.apply($kind, &[])
            }
        )*}
    };
}

counts! {
    count_ones, Kind::CountOnes, "The number of bits that are 1.";
    count_zeros, Kind::CountZeros, "The number of bits that are 0.";
    leading_ones, Kind::LeadingOnes, "The number of ones from the highest bit down to the first 0.";
    leading_zeros, Kind::LeadingZeros, "The number of zeros from the highest bit down to the first 1.";
    trailing_ones, Kind::TrailingOnes, "The number of ones from the lowest bit up to the first 0.";
    trailing_zeros, Kind::TrailingZeros, "The number of zeros from the lowest bit up to the first 1.";
}

impl<T: Clear> Fhe<T> {
    /// The absolute value, for signed integers only.
    #[must_use]
    pub fn abs(&self) -> Self {
        self.apply(Kind::Absolute, &[])
    }

    /// The value with its bits in reverse order.
    #[must_use]
    pub fn reverse_bits(&self) -> Self {
        self.apply(Kind::ReverseBits, &[])
    }

    /// Rotates the bits towards higher places.
    #[must_use]
    pub fn rotate_left(&self, bits: &Fhe<u32>) -> Self {
        self.apply(Kind::RotateLeft, &[&bits.node])
    }

    /// Rotates the bits towards lower places.
    #[must_use]
    pub fn rotate_right(&self, bits: &Fhe<u32>) -> Self {
        self.apply(Kind::RotateRight, &[&bits.node])
    }
}

impl<T: Clear> Fhe<T> {
    /// The sum of this value and all others.
    #[must_use]
    pub fn sum<'a>(&self, others: impl IntoIterator<Item = &'a Self>) -> Self {
        self.of_many(Kind::Sum, others)
    }

    /// The product of this value and the other, plus the product of each further pair.
    #[must_use]
    pub fn dot<'a>(&self, other: &'a Self, pairs: impl IntoIterator<Item = [&'a Self; 2]>) -> Self {
        self.of_many(Kind::Dot, [other].into_iter().chain(pairs.into_iter().flatten()))
    }

    /// Whether this value equals one of the others.
    pub fn is_one_of<'a>(&self, values: impl IntoIterator<Item = &'a Self>) -> FheBool {
        self.of_many(Kind::IsOneOf, values)
    }

    /// The result of the first case whose key equals this value, or `otherwise` if no key does.
    pub fn choose<'a, U: Clear>(
        &self,
        cases: impl IntoIterator<Item = (&'a Self, &'a Fhe<U>)>,
        otherwise: &'a Fhe<U>,
    ) -> Fhe<U> {
        let cases = cases.into_iter().flat_map(|(key, result)| [&key.node, &result.node]);
        self.apply(Kind::Match, &cases.chain([&otherwise.node]).collect::<Vec<_>>())
    }

    /// Whether the value is odd.
    pub fn is_odd(&self) -> FheBool {
        (self.cast::<u8>() & 1).equal(&self.session.constant(1))
    }

    /// Whether the value is even.
    pub fn is_even(&self) -> FheBool {
        !&self.is_odd()
    }

    /// The place of the highest set bit, counted from 0. For 0, the result is the largest `u32`.
    pub fn ilog2(&self) -> Fhe<u32> {
        self.session.constant(T::TYPE.bits().unwrap_or(1) - 1) - self.leading_zeros()
    }

    /// Like [`Self::ilog2`], and whether the value has a set bit.
    pub fn checked_ilog2(&self) -> (Fhe<u32>, FheBool) {
        let zero = self.session.value(Node::new(T::TYPE, Origin::Constant(Integer::default())));
        (self.ilog2(), self.differs(&zero))
    }

    fn of_many<'a, U: Clear>(&self, kind: Kind, others: impl IntoIterator<Item = &'a Self>) -> Fhe<U>
    where
        T: 'a,
    {
        self.apply(kind, &others.into_iter().map(|other| &other.node).collect::<Vec<_>>())
    }
}

impl Fhe<u128> {
    /// The AES-128 encryption of a block under this key. The most significant byte comes first.
    #[must_use]
    pub fn aes128_encrypt(&self, block: &Self) -> Self {
        self.apply(Kind::Aes128Encrypt, &[&block.node])
    }
}

impl FheBool {
    /// `yes` if this boolean is true, otherwise `no`.
    pub fn select<T: Clear>(&self, yes: &Fhe<T>, no: &Fhe<T>) -> Fhe<T> {
        self.apply(Kind::Mux, &[&yes.node, &no.node])
    }

    /// Swaps two values if this boolean is true.
    pub fn flip<T: Clear>(&self, first: &Fhe<T>, second: &Fhe<T>) -> (Fhe<T>, Fhe<T>) {
        (self.select(second, first), self.select(first, second))
    }
}
