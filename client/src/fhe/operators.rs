//! What can be written down.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

use super::{Clear, Fhe, FheBool, Node, Origin};
use crate::{Integer, Kind};

/// `operator` between two encrypted values, owned or not, and between one and a clear one.
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

/// Shifts by a clear number of bits.
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

/// Methods that return a value of the same type, or a boolean, of two operands.
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
    equal, Kind::Equal, FheBool, "Are they equal?";
    differs, Kind::NotEqual, FheBool, "Are they different?";
    below, Kind::Less, FheBool, "Is it less than the other?";
    at_most, Kind::LessOrEqual, FheBool, "Is it no more than the other?";
    above, Kind::Greater, FheBool, "Is it more than the other?";
    at_least, Kind::GreaterOrEqual, FheBool, "Is it no less than the other?";
    min, Kind::Min, Self, "The lesser of the two.";
    max, Kind::Max, Self, "The greater of the two.";
    add_overflows, Kind::AddOverflows, FheBool, "Is their sum none of their type?";
    sub_overflows, Kind::SubtractOverflows, FheBool, "Is their difference none of their type?";
    mul_overflows, Kind::MultiplyOverflows, FheBool, "Is their product none of their type?";
}

/// Methods that count bits.
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
    count_ones, Kind::CountOnes, "How many of its bits are 1.";
    count_zeros, Kind::CountZeros, "How many of its bits are 0.";
    leading_ones, Kind::LeadingOnes, "Ones from the highest bit down to the first 0.";
    leading_zeros, Kind::LeadingZeros, "Zeros from the highest bit down to the first 1.";
    trailing_ones, Kind::TrailingOnes, "Ones from the lowest bit up to the first 0.";
    trailing_zeros, Kind::TrailingZeros, "Zeros from the lowest bit up to the first 1.";
}

impl<T: Clear> Fhe<T> {
    /// Without its sign; of signed integers only.
    #[must_use]
    pub fn abs(&self) -> Self {
        self.apply(Kind::Absolute, &[])
    }

    /// Its bits the other way round.
    #[must_use]
    pub fn reverse_bits(&self) -> Self {
        self.apply(Kind::ReverseBits, &[])
    }

    /// Its bits moved up by so many; what leaves comes in again.
    #[must_use]
    pub fn rotate_left(&self, bits: &Fhe<u32>) -> Self {
        self.apply(Kind::RotateLeft, &[&bits.node])
    }

    /// Its bits moved down by so many; what leaves comes in again.
    #[must_use]
    pub fn rotate_right(&self, bits: &Fhe<u32>) -> Self {
        self.apply(Kind::RotateRight, &[&bits.node])
    }
}

impl<T: Clear> Fhe<T> {
    /// All of them added up.
    #[must_use]
    pub fn sum<'a>(&self, others: impl IntoIterator<Item = &'a Self>) -> Self {
        self.of_many(Kind::Sum, others)
    }

    /// This times the other, and each further pair's product on top.
    #[must_use]
    pub fn dot<'a>(&self, other: &'a Self, pairs: impl IntoIterator<Item = [&'a Self; 2]>) -> Self {
        self.of_many(Kind::Dot, [other].into_iter().chain(pairs.into_iter().flatten()))
    }

    /// Is it one of these?
    pub fn is_one_of<'a>(&self, values: impl IntoIterator<Item = &'a Self>) -> FheBool {
        self.of_many(Kind::IsOneOf, values)
    }

    /// The result of the first case whose key it equals, or `otherwise`.
    pub fn choose<'a, U: Clear>(
        &self,
        cases: impl IntoIterator<Item = (&'a Self, &'a Fhe<U>)>,
        otherwise: &'a Fhe<U>,
    ) -> Fhe<U> {
        let cases = cases.into_iter().flat_map(|(key, result)| [&key.node, &result.node]);
        self.apply(Kind::Match, &cases.chain([&otherwise.node]).collect::<Vec<_>>())
    }

    /// Is it odd?
    pub fn is_odd(&self) -> FheBool {
        (self.cast::<u8>() & 1).equal(&self.session.constant(1))
    }

    /// Is it even?
    pub fn is_even(&self) -> FheBool {
        !&self.is_odd()
    }

    /// The place of the highest bit that is set; of 0, the greatest number.
    pub fn ilog2(&self) -> Fhe<u32> {
        self.session.constant(T::TYPE.bits().unwrap_or(1) - 1) - self.leading_zeros()
    }

    /// The same, and whether there is such a bit.
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
    /// What AES-128 makes of a block under this key; the most significant byte is the first.
    #[must_use]
    pub fn aes128_encrypt(&self, block: &Self) -> Self {
        self.apply(Kind::Aes128Encrypt, &[&block.node])
    }
}

impl FheBool {
    /// `yes` where this is true, else `no`.
    pub fn select<T: Clear>(&self, yes: &Fhe<T>, no: &Fhe<T>) -> Fhe<T> {
        self.apply(Kind::Mux, &[&yes.node, &no.node])
    }

    /// The other way round where this is true, else as they are.
    pub fn flip<T: Clear>(&self, first: &Fhe<T>, second: &Fhe<T>) -> (Fhe<T>, Fhe<T>) {
        (self.select(second, first), self.select(first, second))
    }
}
