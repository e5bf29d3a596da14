//! Sums and differences.

use super::{BASE, Digits, Goal, clean, columns, fresh, is_lazy};
use crate::draft::{Cell, Draft};

/// `left + right`.
pub(crate) fn add(draft: &mut Draft, left: &[Cell], right: &[Cell], goal: Goal) -> Digits {
    let sum = digitwise(left, right);
    if sum.iter().all(|digit| is_lazy(draft, digit)) {
        return sum;
    }
    // Propagate the carries of the operand with the larger digits first: the other may not need it.
    let weight = |digits: &[Cell]| digits.iter().map(|digit| digit.range().max).max();
    let (more, less) = if weight(left) >= weight(right) { (left, right) } else { (right, left) };
    let more = settled(draft, more, goal);
    let sum = digitwise(&more, less);
    if sum.iter().all(|digit| is_lazy(draft, digit)) {
        return sum;
    }
    let less = settled(draft, less, goal);
    digitwise(&more, &less)
}

/// Clean digits with as little noise as possible.
fn settled(draft: &mut Draft, digits: &[Cell], goal: Goal) -> Digits {
    clean(draft, digits, goal).iter().map(|digit| fresh(draft, digit)).collect()
}

/// The sum of any number of numbers.
pub(crate) fn sum(draft: &mut Draft, numbers: &[Digits], digits: usize) -> Digits {
    let mut all = vec![Vec::new(); digits];
    for number in numbers {
        for (column, digit) in all.iter_mut().zip(number) {
            column.push(digit.clone());
        }
    }
    columns::add_up(draft, all)
}

/// `left - right`.
pub(crate) fn subtract(draft: &mut Draft, left: &[Cell], right: &[Cell], goal: Goal) -> Digits {
    let mut right = negative(right);
    if !right.iter().all(|digit| is_lazy(draft, digit)) {
        right = settled(draft, &right, goal);
    }
    add(draft, left, &right, goal)
}

/// `-number`.
pub(crate) fn negate(draft: &mut Draft, number: &[Cell], goal: Goal) -> Digits {
    let zero = vec![Cell::constant(0); number.len()];
    subtract(draft, &zero, number, goal)
}

/// `-number`. Each digit is subtracted from its largest value, so that no digit becomes negative. A
/// constant takes off what these largest values add up to.
pub(crate) fn negative(number: &[Cell]) -> Digits {
    let mut borrow = 0;
    let digit = |digit: &Cell| {
        let max = digit.range().max;
        // The next digit of the constant. The constant is negative, so it borrows from the digits
        // above.
        let owed = borrow - max;
        borrow = owed.div_euclid(BASE);
        Cell::constant(max + owed.rem_euclid(BASE)).minus(digit)
    };
    number.iter().map(digit).collect()
}

fn digitwise(left: &[Cell], right: &[Cell]) -> Digits {
    left.iter().zip(right).map(|(left, right)| left.plus(right)).collect()
}
