//! Expressions over encrypted integers, and the programs they become.

mod argument;
mod compile;

pub(crate) use self::{
    argument::Argument,
    compile::{Compiled, compile},
};

#[cfg(test)]
mod tests;
