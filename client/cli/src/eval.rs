//! Expressions over encrypted integers, and the programs they become.
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
//! product    = factor {"*" factor}
//! factor     = ("-" | "!") factor | "(" or ")" | number | name | name "(" [or {"," or}] ")"
//! ```

mod argument;
mod compile;
mod lexer;
mod parser;

pub(crate) use self::{
    argument::Argument,
    compile::{Compiled, compile},
};

/// A part of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    /// Where in the text it begins.
    place: usize,
    kind: NodeKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum NodeKind {
    /// As it was written: what it is worth depends on its type.
    Number(String),
    Name(String),
    /// An operator or a function.
    Call(String, Vec<Node>),
}

/// What is wrong, and where.
fn at(place: usize, problem: impl std::fmt::Display) -> String {
    format!("at {place}: {problem}")
}

#[cfg(test)]
mod tests;
