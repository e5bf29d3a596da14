//! The language of expressions, for what encrypted integers compute and for lookup tables.
//!
//! ```text
//! or         = and {"||" and}
//! and        = comparison {"&&" comparison}
//! comparison = bits [("==" | "!=" | "<" | "<=" | ">" | ">=") bits]
//! bits       = xor {"|" xor}
//! xor        = mask {"^" mask}
//! mask       = shift {"&" shift}
//! shift      = sum {("<<" | ">>") sum}
//! sum        = product {("+" | "-") product}
//! product    = factor {("*" | "/" | "%") factor}
//! factor     = ("-" | "!") factor | "(" or ")" | number | name | name "(" [or {"," or}] ")"
//! ```

mod lexer;
mod parser;

pub(crate) use self::parser::parse;

/// A part of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Where in the text it begins; of an operation, its operator.
    pub(crate) place: usize,
    pub(crate) kind: NodeKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    /// As it was written: what it is worth depends on its type.
    Number(String),
    Name(String),
    /// An operator or a function.
    Call(String, Vec<Node>),
}

/// What is wrong, and where.
pub(crate) fn at(place: usize, problem: impl std::fmt::Display) -> String {
    format!("at {place}: {problem}")
}
