//! Selection of one of two numbers.

use super::{Digits, fresh};
use crate::draft::{Cell, Draft};

/// `yes` if `condition` is 1, otherwise `no`, with about one bootstrap for each digit. Both are
/// clean.
pub(crate) fn select(draft: &mut Draft, condition: &Cell, yes: &[Cell], no: &[Cell]) -> Digits {
    if let Some(condition) = condition.known() {
        return if condition == 1 { yes.to_vec() } else { no.to_vec() };
    }
    yes.iter().zip(no).map(|(yes, no)| digit(draft, condition, yes, no)).collect()
}

/// `no`, plus the difference of `yes` and `no` if the condition holds. In that case a lift moves
/// the difference above its own range, so that a lookup can tell both cases apart.
fn digit(draft: &mut Draft, condition: &Cell, yes: &Cell, no: &Cell) -> Cell {
    let (least, most) = (yes.range().min.min(no.range().min), yes.range().max.max(no.range().max));
    let difference = yes.minus(no);
    let range = difference.range();
    let lift = range.max - range.min + 1;
    // Look up the lift instead of multiplying the condition: a product would multiply its noise.
    let lifted = draft.lookup(condition, |condition| condition * lift);
    let mut sum = difference.plus(&lifted);
    let mut no = no.clone();
    if !draft.fits(&sum) || !draft.bears_more(&no, 2) {
        no = fresh(draft, &no);
        sum = fresh(draft, yes).minus(&no).plus(&fresh(draft, &lifted));
    }
    let chosen = draft.lookup(&sum, |sum| if sum > range.max { sum - lift } else { 0 });
    no.plus(&chosen).within(least, most)
}
