//! Counts of bits, and their order.

use super::{BASE, Digits, bits::of_two, columns, compare::FLAGS_MAX};
use crate::draft::{Cell, Draft};

/// The end of a number from which zeros are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Highest,
    Lowest,
}

/// Number of ones of a clean number, as this many lazy digits.
pub(crate) fn ones(draft: &mut Draft, number: &[Cell], digits: usize) -> Digits {
    let counts = number.iter().map(|digit| draft.lookup(digit, |digit| i64::from(digit.count_ones()))).collect();
    total(draft, counts, digits)
}

/// Number of zeros before the first one of a clean number, as this many lazy digits.
pub(crate) fn zeros_before(draft: &mut Draft, number: &[Cell], end: End, digits: usize) -> Digits {
    let mut from_end = number.to_vec();
    if end == End::Highest {
        from_end.reverse();
    }
    let mut counts = Vec::with_capacity(number.len());
    // Number of digits so far that are not zero. When the count gets too large, a flag replaces it.
    let mut ones = Cell::constant(0);
    for digit in &from_end {
        let is_over = draft.lookup(&ones, |ones| i64::from(ones != 0));
        counts.push(of_two(
            draft,
            &is_over,
            digit,
            |is_over, digit| if is_over == 1 { 0 } else { zeros_of(digit, end) },
        ));
        let flag = draft.lookup(digit, |digit| i64::from(digit != 0));
        let more = ones.plus(&flag);
        let is_room = more.range().max <= FLAGS_MAX && draft.fits_symmetric(&more);
        ones = if is_room { more } else { is_over.plus(&flag) };
    }
    total(draft, counts, digits)
}

/// Number of zeros of a single digit.
fn zeros_of(digit: i64, end: End) -> i64 {
    match (digit, end) {
        (0, _) => 2,
        (1, End::Highest) | (2, End::Lowest) => 1,
        _ => 0,
    }
}

/// A clean number with its bits in reverse order.
pub(crate) fn reverse(draft: &mut Draft, number: &[Cell]) -> Digits {
    number.iter().rev().map(|digit| draft.lookup(digit, |digit| digit * 2 % BASE + digit / 2)).collect()
}

fn total(draft: &mut Draft, counts: Digits, digits: usize) -> Digits {
    let mut all = vec![Vec::new(); digits];
    all[0] = counts;
    columns::add_up(draft, all)
}
