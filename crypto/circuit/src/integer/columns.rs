//! Sums of many digits, column by column.

use super::{BASE, Digits, fresh, is_lazy};
use crate::draft::{Cell, Draft};

/// Lazy digits of a sum, whose summands are given in columns of one weight each.
///
/// Each round turns groups of digits of a column, as many as fit into one block, into a digit and a
/// carry. Digits of smaller depth are grouped first, so that each joins a group as soon as it is
/// ready.
pub(super) fn add_up(draft: &mut Draft, mut columns: Vec<Vec<Cell>>) -> Digits {
    loop {
        let sums: Digits = columns.iter().map(Cell::sum).collect();
        if sums.iter().all(|sum| is_lazy(draft, sum)) {
            return sums;
        }
        let mut next: Vec<Vec<Cell>> = vec![Vec::new(); columns.len()];
        for (place, (mut column, whole)) in columns.into_iter().zip(sums).enumerate() {
            if is_lazy(draft, &whole) {
                next[place].append(&mut column);
                continue;
            }
            column.sort_by_key(|digit| draft.depth(digit));
            for Group { digits, sum } in groups(draft, column) {
                // A single small digit waits for the carries of the next round.
                if digits == 1 && sum.range().max < BASE {
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

/// Digits that one lookup takes.
struct Group {
    /// Number of digits.
    digits: usize,
    sum: Cell,
}

/// Splits the digits into groups, each as long as one lookup takes.
fn groups(draft: &Draft, digits: Vec<Cell>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for digit in digits {
        // The sum grows with its group. A new sum for each digit would take quadratic time for
        // constants, which always fit.
        let longer = groups.last().map(|group| group.sum.plus(&digit));
        match (groups.last_mut(), longer) {
            (Some(group), Some(sum)) if draft.fits(&sum) => *group = Group { digits: group.digits + 1, sum },
            _ => groups.push(Group { digits: 1, sum: Cell::sum([&digit]) }),
        }
    }
    groups
}
