//! Integers as digits of two bits, one to a block, least significant first.
//!
//! Digits are *lazy*: a sum adds them up and leaves carries where they are, as far as a block has room. Whoever needs
//! digits from 0 to 3 asks for them [clean](clean::clean). Numbers of n digits are residues modulo 4^n; signed ones are
//! the same in two's complement. A number known in the clear has constant cells, and what a lookup can do with those is
//! the lookup's business.

mod add;
mod bits;
mod choose;
mod clean;
mod columns;
mod compare;
mod count;
mod divide;
mod multiply;
mod overflow;
mod select;
mod shift;

pub(crate) use self::{
    add::{add, negate, subtract, sum},
    bits::{bitwise, not},
    choose::{choose, is_one_of},
    clean::clean,
    compare::{Relation, equal, relation},
    count::{End, ones, reverse, zeros_before},
    divide::{Division, absolute, divide},
    multiply::{dot, multiply},
    overflow::{difference_overflows, product_overflows, sum_overflows},
    select::select,
    shift::{Direction, filler, shift},
};
use crate::{
    Type,
    draft::{Cell, Draft},
};

/// Values of a digit.
pub(crate) const BASE: i64 = 4;
/// Bits of a digit.
pub(crate) const DIGIT_BITS: usize = 2;
/// Largest value that a digit may be left at: a carry of up to 3 still fits beside it.
const LAZY_MAX: i64 = 12;
/// Noise that a carry adds to a digit.
const CARRY_NOISE: u64 = 1;

/// A number, digit by digit.
pub(crate) type Digits = Vec<Cell>;

/// What a lowering saves, where it can save only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Goal {
    /// Bootstraps: others fill the waves.
    Work,
    /// Bootstraps one after the other: nobody else is there.
    Depth,
}

/// Bootstraps that a row always has ready, more or less, when it is lowered for work.
const LANES_OF_A_ROW: u64 = 4;
/// Bootstraps that two cores work on at a time: what is assumed of a device that is not known.
pub const LANES_ASSUMED: u64 = 32;

impl Goal {
    /// For so many rows that can share waves, on a device that works on so many bootstraps at a time.
    pub fn of_rows(rows: u64, lanes: u64) -> Self {
        if rows.saturating_mul(LANES_OF_A_ROW) < lanes { Self::Depth } else { Self::Work }
    }
}

/// A number or a boolean in the clear, least significant byte first.
pub(crate) fn constant(bytes: &[u8], digits: usize, ty: Type) -> Digits {
    let digit =
        |index: usize| bytes.get(index / 4).map_or(0, |byte| byte >> (DIGIT_BITS * (index % 4)) & digit_max(ty) as u8);
    (0..digits).map(|index| Cell::constant(i64::from(digit(index)))).collect()
}

/// Largest value of a clean digit.
fn digit_max(ty: Type) -> i64 {
    if ty == Type::Bool { 1 } else { BASE - 1 }
}

fn is_clean(digit: &Cell) -> bool {
    let range = digit.range();
    range.min >= 0 && range.max < BASE
}

/// Can a carry still be added to it, and the sum be looked up?
fn is_lazy(draft: &Draft, digit: &Cell) -> bool {
    let range = digit.range();
    range.min >= 0 && range.max <= LAZY_MAX && draft.bears_more(digit, CARRY_NOISE)
}

/// The same, fresh from a bootstrap if it was not.
fn fresh(draft: &mut Draft, digit: &Cell) -> Cell {
    if draft.noise_of(digit) <= 1 { digit.clone() } else { draft.lookup(digit, |value| value) }
}

#[cfg(test)]
mod tests;
