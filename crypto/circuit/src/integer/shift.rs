//! Shifts and rotations.

use super::{BASE, DIGIT_BITS, Digits, compare::any, select};
use crate::draft::{Cell, Draft};

/// Direction in which bits move, and the bits that fill the gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Towards higher bits, filled with zeros.
    Left,
    /// Towards lower bits, filled with zeros or copies of the sign.
    Right { is_signed: bool },
    /// Towards higher bits, filled with the bits that leave.
    RotateLeft,
    /// Towards lower bits, filled with the bits that leave.
    RotateRight,
}

/// Clean digits moved by a known number of bits, which is below their total.
pub(super) fn shift_by(draft: &mut Draft, digits: &[Cell], bits: usize, direction: Direction) -> Digits {
    let up = matches!(direction, Direction::Left | Direction::RotateLeft);
    let is_signed = direction == Direction::Right { is_signed: true };
    let source = Source { digits, filler: filler(draft, digits, is_signed), direction };
    let whole = bits / DIGIT_BITS;
    let from = |place: usize, further: usize| {
        let distance = (whole + further) as isize;
        source.at(if up { place as isize - distance } else { place as isize + distance })
    };
    let places = 0..digits.len();
    if bits.is_multiple_of(DIGIT_BITS) {
        return places.map(|place| from(place, 0)).collect();
    }
    let moved = |place: usize| {
        let (near, far) = (from(place, 0), from(place, 1));
        let (high, low) = if up { (near, far) } else { (far, near) };
        draft.lookup(&high, |digit| 2 * digit % BASE).plus(&draft.lookup(&low, |digit| digit / 2))
    };
    places.map(moved).collect()
}

/// Clean digits moved by an encrypted number of bits. A shift by at least as many bits as there are
/// leaves only filling bits. A rotation reads as many low bits of the amount as it takes to number
/// the digits' bits.
pub(crate) fn shift(draft: &mut Draft, digits: &[Cell], by: &[Cell], direction: Direction) -> Digits {
    let bits = digits.len() * DIGIT_BITS;
    let stages = bits.next_power_of_two().ilog2() as usize;
    let mut moved = digits.to_vec();
    for stage in 0..stages {
        let Some(digit) = by.get(stage / DIGIT_BITS) else { break };
        let is_set = draft.lookup(digit, |digit| digit >> (stage % DIGIT_BITS) & 1);
        let further = shift_by(draft, &moved, 1 << stage, direction);
        moved = select(draft, &is_set, &further, &moved);
    }
    if matches!(direction, Direction::RotateLeft | Direction::RotateRight) {
        return moved;
    }
    let is_beyond = reaches(draft, by, stages);
    let filler = filler(draft, digits, direction == Direction::Right { is_signed: true });
    select(draft, &is_beyond, &vec![filler; digits.len()], &moved)
}

/// 1 if a clean number is 2^bits or more, otherwise 0.
fn reaches(draft: &mut Draft, number: &[Cell], bits: usize) -> Cell {
    let (whole, rest) = (bits / DIGIT_BITS, bits % DIGIT_BITS);
    let mut above: Digits = number.iter().skip(whole + rest.min(1)).cloned().collect();
    if let Some(digit) = number.get(whole).filter(|_| rest > 0) {
        above.push(draft.lookup(digit, |digit| digit >> rest));
    }
    if above.is_empty() { Cell::constant(0) } else { any(draft, above) }
}

/// Digits, and the digits beyond both ends.
struct Source<'a> {
    digits: &'a [Cell],
    filler: Cell,
    direction: Direction,
}

impl Source<'_> {
    fn at(&self, place: isize) -> Cell {
        let count = self.digits.len() as isize;
        match self.direction {
            Direction::RotateLeft | Direction::RotateRight => self.digits[place.rem_euclid(count) as usize].clone(),
            _ if (0..count).contains(&place) => self.digits[place as usize].clone(),
            _ => self.filler.clone(),
        }
    }
}

/// The digit above the highest one: 0, or ones only for a negative number.
pub(crate) fn filler(draft: &mut Draft, digits: &[Cell], is_signed: bool) -> Cell {
    match digits.last() {
        Some(top) if is_signed => draft.lookup(top, |top| if top >= BASE / 2 { BASE - 1 } else { 0 }),
        _ => Cell::constant(0),
    }
}
