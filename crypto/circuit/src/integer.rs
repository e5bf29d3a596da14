//! Integers as digits of two bits, one digit to a block, least significant first.
//!
//! Digits are *lazy*: a sum adds them up and defers carry propagation as long as a block has room.
//! Operations that need digits from 0 to 3 propagate the carries with [clean](clean::clean).
//! Numbers of n digits are residues modulo 4^n; signed numbers use two's complement. A number in
//! the clear has constant cells, and [`Draft::lookup`] simplifies lookups of these.

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

/// Number of values of a digit.
pub(crate) const BASE: i64 = 4;
/// Bits of a digit.
pub(crate) const DIGIT_BITS: usize = 2;
/// Largest value of a lazy digit: a carry of up to 3 still fits into the block with it.
const LAZY_MAX: i64 = 12;
/// Noise that a carry adds to a digit.
const CARRY_NOISE: u64 = 1;

/// A number, digit by digit.
pub(crate) type Digits = Vec<Cell>;

/// The quantity that lowering minimizes where it has a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Goal {
    /// The number of bootstraps. Suits jobs whose other rows fill the waves.
    Work,
    /// The longest chain of dependent bootstraps. Suits jobs without other work to fill the waves.
    Depth,
}

/// Approximate number of bootstraps that a row has ready at any time, when lowered for
/// [`Goal::Work`].
const READY_BOOTSTRAPS_PER_ROW: u64 = 4;
/// Number of bootstraps that two cores work on at a time. Assumed for a device that is not known.
pub const LANES_ASSUMED: u64 = 32;

impl Goal {
    /// The goal for `rows` rows that can share waves, on a device that works on `lanes` bootstraps
    /// at a time.
    pub fn of_rows(rows: u64, lanes: u64) -> Self {
        if rows.saturating_mul(READY_BOOTSTRAPS_PER_ROW) < lanes { Self::Depth } else { Self::Work }
    }
}

/// A number or a boolean in the clear, given by its bytes, least significant byte first.
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

/// Whether the digit still has room for a carry, and a lookup bears the noise of their sum.
fn is_lazy(draft: &Draft, digit: &Cell) -> bool {
    let range = digit.range();
    range.min >= 0 && range.max <= LAZY_MAX && draft.bears_more(digit, CARRY_NOISE)
}

/// The digit, bootstrapped unless it has no more noise than a bootstrap's result.
fn fresh(draft: &mut Draft, digit: &Cell) -> Cell {
    if draft.noise_of(digit) <= 1 { digit.clone() } else { draft.lookup(digit, |value| value) }
}

#[cfg(test)]
mod tests;
