//! Carry propagation: from lazy digits to clean digits.

use super::{BASE, Digits, Goal, is_clean};
use crate::draft::{Cell, Draft};

/// Largest digit that, with an incoming carry of 1, carries at most 1.
const SMALL_MAX: i64 = 6;

/// The number with clean digits, from 0 to 3.
pub(crate) fn clean(draft: &mut Draft, digits: &[Cell], goal: Goal) -> Digits {
    // Digits below the first digit that is not clean produce no carry.
    let settled = digits.iter().take_while(|digit| is_clean(digit)).count();
    let (settled, rest) = digits.split_at(settled);
    let rest = match goal {
        Goal::Work => ripple(draft, rest),
        Goal::Depth => look_ahead(draft, rest),
    };
    [settled, &rest].concat()
}

/// Propagates carries digit by digit. A digit and its carry share one bootstrap if their sum takes
/// at most half of the values of a block.
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

/// Propagates carries in parallel: first the effect of each group of digits on a carry, then all
/// carries, then all digits.
fn look_ahead(draft: &mut Draft, digits: &[Cell]) -> Digits {
    if digits.len() <= 3 {
        return ripple(draft, digits);
    }
    // The first digit has no incoming carry, so it may be larger by 1.
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

/// Whether one lookup can take two neighbouring digits to decide if they carry.
fn takes_pairs(draft: &Draft, digits: &[Cell]) -> bool {
    digits.chunks(2).all(|pair| draft.fits_symmetric(&Cell::weighted(pair, BASE)))
}

/// Moves every digit's carry to the next digit, and no further. The results are digits up to 6.
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

/// Effect of a group on an incoming carry: 1 if the group always carries, 0 if it passes the carry
/// on, -1 if it absorbs the carry. The first group has no incoming carry, so its state is 1 or 0,
/// the carry itself.
fn state(draft: &mut Draft, group: &[Cell], is_first: bool) -> Cell {
    let overflow = BASE.pow(group.len() as u32);
    let sum = Cell::weighted(group, BASE);
    if is_first {
        draft.lookup(&sum, |sum| i64::from(sum >= overflow))
    } else {
        draft.lookup(&sum, |sum| if sum >= overflow { 1 } else { i64::from(sum == overflow - 1) - 1 })
    }
}

/// The carry out of every group. The first state is a carry, and each further state maps the carry
/// before it.
///
/// Each state weighs twice the state below it, so the sign of a sum is that of its highest state
/// that is not 0. The noise limits how many states a sum can take: [`Draft::weighable`].
fn carries(draft: &mut Draft, states: &[Cell]) -> Vec<Cell> {
    let (first, rest) = states.split_at(states.len().min(1 + STATES_PER_CARRY_LOOKUP));
    let mut carries = after(draft, first[0].clone(), &first[1..]);
    let chunks: Vec<&[Cell]> = rest.chunks(draft.weighable()).collect();
    let Some((last, before_last)) = chunks.split_last() else { return carries };
    let mut heads = vec![carries.pop().expect("the first one's, at least")];
    for chunk in before_last {
        heads.push(draft.lookup(&Cell::weighted(chunk, 2), i64::signum));
    }
    // Carries into each chunk. The carry out of a chunk's last group is the next chunk's carry.
    let heads = self::carries(draft, &heads);
    for (head, chunk) in heads.iter().zip(before_last) {
        carries.extend(after(draft, head.clone(), &chunk[..chunk.len() - 1]));
    }
    carries.extend(after(draft, heads[heads.len() - 1].clone(), last));
    carries
}

/// Number of states that one lookup takes together with a carry.
const STATES_PER_CARRY_LOOKUP: usize = 2;

/// A carry, followed by the carries out of the groups that it passes through.
fn after(draft: &mut Draft, carry: Cell, states: &[Cell]) -> Vec<Cell> {
    let mut carries = vec![carry];
    for states in states.chunks(STATES_PER_CARRY_LOOKUP) {
        let carry = &carries[carries.len() - 1];
        let mut sum = carry.times(2).plus_constant(-1);
        for (index, state) in states.iter().enumerate() {
            sum = sum.plus(&state.times(2 << index));
            carries.push(draft.lookup(&sum, |sum| i64::from(sum > 0)));
        }
    }
    carries
}
