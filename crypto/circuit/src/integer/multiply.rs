//! Products, digit by digit.

use super::{BASE, Digits, bits::of_two, columns};
use crate::draft::{Cell, Draft};

/// `left * right` of two clean numbers, with lazy digits.
pub(crate) fn multiply(draft: &mut Draft, left: &[Cell], right: &[Cell]) -> Digits {
    dot(draft, &[(left, right)])
}

/// The sum of products of clean numbers, with lazy digits. The partial products of all pairs are
/// added up at once.
pub(crate) fn dot(draft: &mut Draft, pairs: &[(&[Cell], &[Cell])]) -> Digits {
    let digits = pairs.first().map_or(0, |(left, _)| left.len());
    let mut columns: Vec<Vec<Cell>> = vec![Vec::new(); digits];
    for (left, right) in pairs {
        for (place, left) in left.iter().enumerate() {
            for (column, right) in (place..digits).zip(*right) {
                columns[column].push(of_two(draft, left, right, |left, right| left * right % BASE));
                if let Some(above) = columns.get_mut(column + 1) {
                    above.push(of_two(draft, left, right, |left, right| left * right / BASE));
                }
            }
        }
    }
    columns::add_up(draft, columns)
}
