//! The expression language of encrypted integers, of vectors of CKKS and of lookup tables.
//!
//! ```text
//! several    = or {";" or}
//! or         = and {"||" and}
//! and        = comparison {"&&" comparison}
//! comparison = bits [("==" | "!=" | "<" | "<=" | ">" | ">=") bits]
//! bits       = xor {"|" xor}
//! xor        = mask {"^" mask}
//! mask       = shift {"&" shift}
//! shift      = sum {("<<" | ">>") sum}
//! sum        = product {("+" | "-") product}
//! product    = factor {("*" | "/" | "%") factor}
//! factor     = ("-" | "!") factor | element
//! element    = operand {"[" or "]"}
//! operand    = "(" or ")" | number | name | name "(" [or {"," or}] ")" | "[" [or {"," or}] "]"
//! ```

mod lexer;
mod parser;

use std::fmt;

pub(crate) use self::parser::{parse, parse_several};

/// A part of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Offset of the node in the text; for an operation, of its operator.
    pub(crate) place: usize,
    pub(crate) kind: NodeKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    /// A number as written. Its value depends on its type.
    Number(String),
    Name(String),
    /// A call of an operator or a function.
    Call(String, Vec<Node>),
    /// An array, element by element.
    Array(Vec<Node>),
    /// An array's element at an index.
    Element(Box<[Node; 2]>),
}

/// An error, and its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    place: Option<usize>,
    what: String,
}

/// Whether the text is a valid name for a value.
pub(crate) fn is_name(text: &str) -> bool {
    text.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_')
        && text.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
}

/// Makes a problem at a place in the text.
pub(crate) fn at(place: usize, what: impl fmt::Display) -> Problem {
    Problem { place: Some(place), what: what.to_string() }
}

impl Problem {
    /// The error above the text, with a mark under the place.
    pub(crate) fn marked_in(&self, text: &str) -> String {
        match self.place.and_then(|place| text.get(..place)) {
            Some(before) if !text.contains('\n') => {
                format!("{}\n  {text}\n  {}^", self.what, " ".repeat(before.chars().count()))
            }
            _ => self.to_string(),
        }
    }
}

impl From<String> for Problem {
    fn from(what: String) -> Self {
        Self { place: None, what }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some(place) => write!(out, "at {place}: {}", self.what),
            None => out.write_str(&self.what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_marked_where_they_are() {
        assert_eq!(at(4, "no").marked_in("x + $"), "no\n  x + $\n      ^");
        assert_eq!(at(2, "no").marked_in("é$"), "no\n  é$\n   ^");
        assert_eq!(at(9, "no").marked_in("x"), "at 9: no");
        assert_eq!(Problem::from("no".to_owned()).marked_in("x"), "no");
    }
}
