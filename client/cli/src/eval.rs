//! Expressions over encrypted integers, and their compilation to programs.

mod argument;
mod compile;
mod derived;
mod names;
mod operations;

pub(crate) use self::{argument::Argument, compile::compile, names::hint_among};

#[cfg(test)]
mod tests;
