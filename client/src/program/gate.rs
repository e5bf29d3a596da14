//! Boolean gates by name.

use std::{fmt, str::FromStr};

use cloakwork_circuit::wire::operation::Kind;

/// A gate of two inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gate {
    /// Both.
    And,
    /// Not both.
    Nand,
    /// Neither.
    Nor,
    /// At least one.
    Or,
    /// Both or neither.
    Xnor,
    /// Exactly one.
    Xor,
}

impl Gate {
    /// Every gate.
    pub const ALL: [Self; 6] = [Self::And, Self::Nand, Self::Nor, Self::Or, Self::Xnor, Self::Xor];

    /// The gate on clear bits.
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

    pub(super) fn kind(self) -> Kind {
        match self {
            Self::And => Kind::And,
            Self::Nand => Kind::Nand,
            Self::Nor => Kind::Nor,
            Self::Or => Kind::Or,
            Self::Xnor => Kind::Xnor,
            Self::Xor => Kind::Xor,
        }
    }
}

/// In capitals, as circuits write it.
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
