//! Expressions over encrypted integers, and the programs they become.

mod argument;
mod compile;
mod derived;
mod names;

pub(crate) use self::{
    argument::Argument,
    compile::{Compiled, compile},
};

#[cfg(test)]
mod tests;
