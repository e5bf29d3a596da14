//! Operations on each digit, or on each pair of digits.

use super::{BASE, Digits, digit_max, fresh};
use crate::{
    Type,
    draft::{Cell, Draft},
};

/// `function(left, right)`, bit by bit, for each pair of clean digits.
pub(crate) fn bitwise(
    draft: &mut Draft,
    left: &[Cell],
    right: &[Cell],
    ty: Type,
    function: fn(i64, i64) -> i64,
) -> Digits {
    let masked = |left, right| function(left, right) & digit_max(ty);
    left.iter().zip(right).map(|(left, right)| of_two(draft, left, right, masked)).collect()
}

/// The complement of clean digits.
pub(crate) fn not(digits: &[Cell], ty: Type) -> Digits {
    digits.iter().map(|digit| Cell::constant(digit_max(ty)).minus(digit)).collect()
}

/// A function of two clean digits.
pub(super) fn of_two(draft: &mut Draft, left: &Cell, right: &Cell, function: impl Fn(i64, i64) -> i64) -> Cell {
    let mut both = left.times(BASE).plus(right);
    if !draft.fits(&both) {
        let (left, right) = (fresh(draft, left), fresh(draft, right));
        both = left.times(BASE).plus(&right);
    }
    draft.lookup(&both, |both| function(both / BASE, both % BASE))
}
