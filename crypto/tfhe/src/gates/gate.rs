//! Names and truth tables of the gates.

use std::{fmt, str::FromStr};

use super::EIGHTH;

/// A gate with two inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gate {
    /// True if both inputs are.
    And,
    /// False if both inputs are true.
    Nand,
    /// True if both inputs are false.
    Nor,
    /// True if at least one input is.
    Or,
    /// True if the inputs are equal.
    Xnor,
    /// True if exactly one input is.
    Xor,
}

impl Gate {
    /// All gates.
    pub const ALL: [Self; 6] = [Self::And, Self::Nand, Self::Nor, Self::Or, Self::Xnor, Self::Xor];

    /// Evaluates the gate on clear bits.
    pub fn evaluate(self, left: bool, right: bool) -> bool {
        match self {
            Self::And => left && right,
            Self::Nand => !(left && right),
            Self::Nor => !(left || right),
            Self::Or => left || right,
            Self::Xnor => left == right,
            Self::Xor => left != right,
        }
    }

    /// Factor of both inputs, and the constant: the result is the sign of
    /// `factor * (left + right) + constant`.
    pub(super) fn combination(self) -> (u32, u32) {
        let (minus_one, minus_two) = (1u32.wrapping_neg(), 2u32.wrapping_neg());
        match self {
            Self::And => (1, EIGHTH.wrapping_neg()),
            Self::Nand => (minus_one, EIGHTH),
            Self::Nor => (minus_one, EIGHTH.wrapping_neg()),
            Self::Or => (1, EIGHTH),
            Self::Xnor => (minus_two, (2 * EIGHTH).wrapping_neg()),
            Self::Xor => (2, 2 * EIGHTH),
        }
    }
}

/// Prints the name in capitals, as circuit files do.
impl fmt::Display for Gate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&format!("{self:?}").to_uppercase())
    }
}

impl FromStr for Gate {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|gate| gate.to_string().eq_ignore_ascii_case(name));
        found.ok_or_else(|| format!("no gate is called '{name}': expected AND, NAND, NOR, OR, XNOR or XOR"))
    }
}
