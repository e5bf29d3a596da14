//! Sums of many digits, column by column.

use super::{BASE, Digits, fresh, is_lazy};
use crate::draft::{Cell, Draft};

/// Lazy digits of a sum whose digits stand in columns.
///
/// Round by round, as many digits of a column as one block holds become a digit and a carry. A digit comes into a group
/// as soon as it is there: those that took fewer bootstraps first.
pub(super) fn add_up(draft: &mut Draft, mut columns: Vec<Vec<Cell>>) -> Digits {
    loop {
        let sums: Digits = columns.iter().map(Cell::sum).collect();
        if sums.iter().all(|sum| is_lazy(draft, sum)) {
            return sums;
        }
        let mut next: Vec<Vec<Cell>> = vec![Vec::new(); columns.len()];
        for (place, mut column) in columns.into_iter().enumerate() {
            if is_lazy(draft, &Cell::sum(&column)) {
                next[place].append(&mut column);
                continue;
            }
            column.sort_by_key(|digit| draft.depth(digit));
            for group in groups(draft, column) {
                let sum = Cell::sum(&group);
                // What is not a group yet waits for the next round's carries.
                if let [_] = group[..]
                    && sum.range().max < BASE
                {
                    next[place].push(fresh(draft, &sum));
                    continue;
                }
                next[place].push(draft.lookup(&sum, |sum| sum % BASE));
                if let Some(above) = next.get_mut(place + 1) {
                    above.push(draft.lookup(&sum, |sum| sum / BASE));
                }
            }
        }
        columns = next;
    }
}

/// The digits in groups that one lookup takes.
fn groups(draft: &Draft, digits: Vec<Cell>) -> Vec<Vec<Cell>> {
    let mut groups: Vec<Vec<Cell>> = Vec::new();
    for digit in digits {
        match groups.last_mut() {
            Some(group) if draft.fits(&Cell::sum(group.iter()).plus(&digit)) => group.push(digit),
            _ => groups.push(vec![digit]),
        }
    }
    groups
}
