//! Long division: quotients and remainders, digit by digit, from the highest digit.

use super::{BASE, Digits, Goal, add, bits::of_two, clean, compare::at_least, fresh, negate, select, subtract};
use crate::draft::{Cell, Draft};

/// A quotient and a remainder.
pub(crate) struct Division {
    pub(crate) quotient: Digits,
    pub(crate) remainder: Digits,
}

/// Divides two clean numbers, with the quotient rounded towards zero. A division by zero has a
/// quotient of ones only, and the dividend as the remainder.
pub(crate) fn divide(draft: &mut Draft, left: &[Cell], right: &[Cell], is_signed: bool, goal: Goal) -> Division {
    if !is_signed {
        return divide_unsigned(draft, left, right, goal);
    }
    let signs = [left, right].map(|number| sign(draft, number));
    let [left, right] =
        [(left, &signs[0]), (right, &signs[1])].map(|(number, sign)| negate_if(draft, sign, number, goal));
    let Division { quotient, remainder } = divide_unsigned(draft, &left, &right, goal);
    let differ = of_two(draft, &signs[0], &signs[1], |left, right| i64::from(left != right));
    let quotient = negate_if(draft, &differ, &quotient, goal);
    let remainder = negate_if(draft, &signs[0], &remainder, goal);
    Division { quotient, remainder }
}

/// The absolute value of a clean signed number.
pub(crate) fn absolute(draft: &mut Draft, number: &[Cell], goal: Goal) -> Digits {
    let sign = sign(draft, number);
    negate_if(draft, &sign, number, goal)
}

/// 1 if a clean signed number is negative, otherwise 0.
fn sign(draft: &mut Draft, number: &[Cell]) -> Cell {
    draft.lookup(&number[number.len() - 1], |top| i64::from(top >= BASE / 2))
}

fn negate_if(draft: &mut Draft, condition: &Cell, number: &[Cell], goal: Goal) -> Digits {
    let negative = negate(draft, number, goal);
    let negative = clean(draft, &negative, goal);
    select(draft, condition, &negative, number)
}

fn divide_unsigned(draft: &mut Draft, left: &[Cell], right: &[Cell], goal: Goal) -> Division {
    // Each digit is part of many sums. With more noise, pairs of digits would have to be
    // bootstrapped before each comparison.
    let [left, right]: [Digits; 2] =
        [left, right].map(|number| number.iter().map(|digit| draft.bootstrapped(digit)).collect());
    let multiples = multiples(draft, &right, goal);
    let occupied = occupied(draft, &right);
    let mut quotient = vec![Cell::constant(0); left.len()];
    let mut remainder: Digits = Vec::with_capacity(left.len());
    for place in (0..left.len()).rev() {
        // With more noise, the product of every digit would have to be bootstrapped before it is
        // subtracted.
        remainder.insert(0, fresh(draft, &left[place]));
        let len = remainder.len();
        let contains = |multiple: &Digits| {
            let above = of_two(draft, &occupied[len], &multiple[len], |above, digit| i64::from(above + digit > 0));
            at_least(draft, &remainder, &multiple[..len], &above)
        };
        // The quotient's digit counts the multiples of the divisor that the remainder contains:
        // one, two and three times the divisor.
        quotient[place] = Cell::sum(&multiples.each_ref().map(contains));
        remainder = less_product(draft, &remainder, &quotient[place], &right, goal);
    }
    Division { quotient, remainder }
}

/// One, two and three times a clean number, with one digit more.
fn multiples(draft: &mut Draft, number: &[Cell], goal: Goal) -> [Digits; 3] {
    let mut once = number.to_vec();
    once.push(Cell::constant(0));
    let twice = add(draft, &once, &once, goal);
    let twice = clean(draft, &twice, goal);
    let thrice = add(draft, &twice, &once, goal);
    let thrice = clean(draft, &thrice, goal);
    [once, twice, thrice]
}

/// For every place: 1 if any digit of a clean number from that place on is not 0.
fn occupied(draft: &mut Draft, number: &[Cell]) -> Digits {
    let mut occupied = vec![Cell::constant(0); number.len() + 1];
    for place in (1..number.len()).rev() {
        occupied[place] =
            of_two(draft, &occupied[place + 1], &number[place], |above, digit| i64::from(above + digit > 0));
    }
    occupied
}

/// `number - digit * factor`, which is not negative, cut to the length of `number`.
fn less_product(draft: &mut Draft, number: &[Cell], digit: &Cell, factor: &[Cell], goal: Goal) -> Digits {
    let mut carry = Cell::constant(0);
    let product = |factor: &Cell| {
        let low = of_two(draft, digit, factor, |digit, factor| digit * factor % BASE).plus(&carry);
        carry = of_two(draft, digit, factor, |digit, factor| digit * factor / BASE);
        low
    };
    let product: Digits = factor[..number.len()].iter().map(product).collect();
    let difference = subtract(draft, number, &product, goal);
    clean(draft, &difference, goal)
}
