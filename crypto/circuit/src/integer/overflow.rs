//! Overflow checks: whether results fit the type of their operands.

use super::{
    BASE, Digits, Goal, add,
    bits::of_two,
    clean,
    compare::{Relation, any, relation},
    filler, multiply, subtract,
};
use crate::draft::{Cell, Draft};

/// 1 if the sum of two clean numbers is outside the range of their type, otherwise 0.
pub(crate) fn sum_overflows(draft: &mut Draft, left: &[Cell], right: &[Cell], is_signed: bool, goal: Goal) -> Cell {
    let longer = left.len() + 1;
    let [left, right] = [left, right].map(|number| extended(draft, number, longer, is_signed));
    let sum = add(draft, &left, &right, goal);
    goes_beyond(draft, &sum, longer - 1, is_signed, goal)
}

/// 1 if the difference of two clean numbers is outside the range of their type, otherwise 0.
pub(crate) fn difference_overflows(
    draft: &mut Draft,
    left: &[Cell],
    right: &[Cell],
    is_signed: bool,
    goal: Goal,
) -> Cell {
    if !is_signed {
        return relation(draft, left, right, false, Relation::Less);
    }
    let longer = left.len() + 1;
    let [left, right] = [left, right].map(|number| extended(draft, number, longer, true));
    let difference = subtract(draft, &left, &right, goal);
    goes_beyond(draft, &difference, longer - 1, true, goal)
}

/// 1 if the product of two clean numbers is outside the range of their type, otherwise 0.
pub(crate) fn product_overflows(draft: &mut Draft, left: &[Cell], right: &[Cell], is_signed: bool, goal: Goal) -> Cell {
    let longer = 2 * left.len();
    let [left, right] = [left, right].map(|number| extended(draft, number, longer, is_signed));
    let product = multiply(draft, &left, &right);
    goes_beyond(draft, &product, longer / 2, is_signed, goal)
}

fn extended(draft: &mut Draft, number: &[Cell], digits: usize, is_signed: bool) -> Digits {
    let filler = filler(draft, number, is_signed);
    let mut number = number.to_vec();
    number.resize(digits, filler);
    number
}

/// 1 if a number differs from its lowest `digits` digits, extended with zeros or the sign.
fn goes_beyond(draft: &mut Draft, number: &[Cell], digits: usize, is_signed: bool, goal: Goal) -> Cell {
    let number = clean(draft, number, goal);
    let (kept, above) = number.split_at(digits);
    let top = if is_signed { kept[digits - 1].clone() } else { Cell::constant(0) };
    let differs = |top: i64, above: i64| {
        let filler = if top >= BASE / 2 { BASE - 1 } else { 0 };
        i64::from(above != filler)
    };
    let flags = above.iter().map(|above| of_two(draft, &top, above, differs)).collect();
    any(draft, flags)
}
