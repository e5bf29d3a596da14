//! Carries: from lazy digits to clean ones.

use super::{BASE, Digits, Goal, is_clean};
use crate::draft::{Cell, Draft};

/// Largest digits that carry at most one.
const SMALL_MAX: i64 = 6;

/// The digits from 0 to 3 of the same number.
pub(crate) fn clean(draft: &mut Draft, digits: &[Cell], goal: Goal) -> Digits {
    // Below the first digit that is not clean nothing is carried.
    let settled = digits.iter().take_while(|digit| is_clean(digit)).count();
    let (settled, rest) = digits.split_at(settled);
    let rest = match goal {
        Goal::Work => ripple(draft, rest),
        Goal::Depth => look_ahead(draft, rest),
    };
    [settled, &rest].concat()
}

/// Digit after digit: a bootstrap for each, where it and its carry need not more than half of a block.
fn ripple(draft: &mut Draft, digits: &[Cell]) -> Digits {
    let mut carry = Cell::constant(0);
    let mut clean = Vec::with_capacity(digits.len());
    for (index, digit) in digits.iter().enumerate() {
        let sum = digit.plus(&carry);
        if is_clean(&sum) {
            carry = Cell::constant(0);
            clean.push(sum);
            continue;
        }
        clean.push(draft.lookup(&sum, remainder));
        if index + 1 < digits.len() {
            carry = draft.lookup(&sum, quotient);
        }
    }
    clean
}

fn remainder(value: i64) -> i64 {
    value % BASE
}

fn quotient(value: i64) -> i64 {
    value / BASE
}

/// All digits at once: what each group of them does to a carry, then all carries, then the digits.
fn look_ahead(draft: &mut Draft, digits: &[Cell]) -> Digits {
    if digits.len() <= 3 {
        return ripple(draft, digits);
    }
    // Into the first one nothing is carried.
    let most = |place: usize| if place == 0 { SMALL_MAX + 1 } else { SMALL_MAX };
    let is_small = digits.iter().enumerate().all(|(place, digit)| digit.range().max <= most(place));
    let digits = if is_small { digits.to_vec() } else { carry_once(draft, digits) };
    let width = if takes_pairs(draft, &digits) { 2 } else { 1 };
    let groups: Vec<&[Cell]> = digits.chunks(width).collect();
    let before_last = &groups[..groups.len() - 1];
    let states: Vec<Cell> =
        before_last.iter().enumerate().map(|(index, group)| state(draft, group, index == 0)).collect();
    let carries = carries(draft, &states);
    let mut clean = Vec::with_capacity(digits.len());
    for (index, group) in groups.iter().enumerate() {
        let carry = index.checked_sub(1).map_or(Cell::constant(0), |before| carries[before].clone());
        let first = group[0].plus(&carry);
        clean.push(draft.lookup(&first, remainder));
        if let Some(second) = group.get(1) {
            let carry = draft.lookup(&first, quotient);
            clean.push(draft.lookup(&second.plus(&carry), remainder));
        }
    }
    clean
}

/// Do two neighbours fit one lookup of whether they carry?
fn takes_pairs(draft: &Draft, digits: &[Cell]) -> bool {
    digits.chunks(2).all(|pair| draft.fits_symmetric(&Cell::weighted(pair, BASE)))
}

/// Every digit's carry moved to the next one, and no further: digits up to 6.
fn carry_once(draft: &mut Draft, digits: &[Cell]) -> Digits {
    let mut carry = Cell::constant(0);
    let mut moved = Vec::with_capacity(digits.len());
    for digit in digits {
        let (rest, next) = match is_clean(digit) {
            true => (digit.clone(), Cell::constant(0)),
            false => (draft.lookup(digit, remainder), draft.lookup(digit, quotient)),
        };
        moved.push(rest.plus(&carry));
        carry = next;
    }
    moved
}

/// What a group does to a carry that comes in: 1 where it carries in any case, 0 where it passes the carry on, -1 where
/// it ends it. The first group knows that none comes in: 1 or 0, the carry itself.
fn state(draft: &mut Draft, group: &[Cell], is_first: bool) -> Cell {
    let overflow = BASE.pow(group.len() as u32);
    let sum = Cell::weighted(group, BASE);
    if is_first {
        draft.lookup(&sum, |sum| i64::from(sum >= overflow))
    } else {
        draft.lookup(&sum, |sum| if sum >= overflow { 1 } else { i64::from(sum == overflow - 1) - 1 })
    }
}

/// The carry out of every group: the first state is one, and what the others make of it.
///
/// With each state weighing twice the one below it, the sign of a sum is that of its highest state that passes nothing
/// on. Three states, or two, are as much as the noise allows.
fn carries(draft: &mut Draft, states: &[Cell]) -> Vec<Cell> {
    let (first, rest) = states.split_at(states.len().min(1 + AFTER));
    let mut carries = after(draft, first[0].clone(), &first[1..]);
    let chunks: Vec<&[Cell]> = rest.chunks(draft.weighable()).collect();
    let Some((last, before_last)) = chunks.split_last() else { return carries };
    let mut heads = vec![carries.pop().expect("the first one's, at least")];
    for chunk in before_last {
        heads.push(draft.lookup(&Cell::weighted(chunk, 2), i64::signum));
    }
    // The carry into each chunk; what comes out of its last group is the next one's.
    let heads = self::carries(draft, &heads);
    for (head, chunk) in heads.iter().zip(before_last) {
        carries.extend(after(draft, head.clone(), &chunk[..chunk.len() - 1]));
    }
    carries.extend(after(draft, heads[heads.len() - 1].clone(), last));
    carries
}

/// States that one lookup takes together with a carry.
const AFTER: usize = 2;

/// A carry, and the carries out of some groups that it comes into.
fn after(draft: &mut Draft, carry: Cell, states: &[Cell]) -> Vec<Cell> {
    let mut carries = vec![carry];
    for states in states.chunks(AFTER) {
        let carry = &carries[carries.len() - 1];
        let mut sum = carry.times(2).plus_constant(-1);
        for (index, state) in states.iter().enumerate() {
            sum = sum.plus(&state.times(2 << index));
            carries.push(draft.lookup(&sum, |sum| i64::from(sum > 0)));
        }
    }
    carries
}
