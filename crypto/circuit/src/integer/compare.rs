//! Comparisons: from the differences of digits, two at a time, to a single sign.

use std::collections::HashSet;

use super::{BASE, Digits, bits::of_two, fresh};
use crate::draft::{Cell, Draft};

/// A comparison of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Relation {
    pub(super) fn holds(self, sign: i64) -> bool {
        match self {
            Self::Less => sign < 0,
            Self::LessOrEqual => sign <= 0,
            Self::Greater => sign > 0,
            Self::GreaterOrEqual => sign >= 0,
        }
    }
}

/// 1 if two clean numbers are equal, otherwise 0.
pub(crate) fn equal(draft: &mut Draft, left: &[Cell], right: &[Cell]) -> Cell {
    let different = differences(draft, left, right)
        .into_iter()
        .map(|difference| draft.lookup(&difference, |difference| i64::from(difference != 0)))
        .collect();
    let any = any(draft, different);
    Cell::constant(1).minus(&any)
}

/// Number of flags that one lookup takes: the number of values in half of the torus.
pub(super) const FLAGS_MAX: i64 = 16;

/// 1 if any flag is set, or any digit is not 0; otherwise 0.
pub(super) fn any(draft: &mut Draft, mut flags: Vec<Cell>) -> Cell {
    loop {
        let mut sums: Vec<Cell> = Vec::new();
        let mut seen = HashSet::with_capacity(flags.len());
        for flag in &flags {
            // Equal digits give equal flags, so each is counted once.
            if !seen.insert(flag) {
                continue;
            }
            match sums.last_mut().map(|sum| (sum.plus(flag), sum)) {
                Some((more, sum)) if more.range().max <= FLAGS_MAX && draft.fits_symmetric(&more) => *sum = more,
                _ => sums.push(flag.clone()),
            }
        }
        flags = sums.iter().map(|sum| draft.lookup(sum, |sum| i64::from(sum != 0))).collect();
        if let [any] = &flags[..] {
            return any.clone();
        }
    }
}

/// 1 if the relation holds between two clean numbers, otherwise 0.
pub(crate) fn relation(draft: &mut Draft, left: &[Cell], right: &[Cell], is_signed: bool, relation: Relation) -> Cell {
    let signs = signs(draft, left, right, is_signed);
    let sum = weighted(draft, signs);
    draft.lookup(&sum, |sum| i64::from(relation.holds(sum)))
}

/// 1 if `left` is at least `right`, otherwise 0. `right` has further digits above if `above` is 1,
/// and is then larger.
pub(super) fn at_least(draft: &mut Draft, left: &[Cell], right: &[Cell], above: &Cell) -> Cell {
    let mut signs = signs(draft, left, right, false);
    signs.push(above.times(-1));
    let sum = weighted(draft, signs);
    draft.lookup(&sum, |sum| i64::from(Relation::GreaterOrEqual.holds(sum)))
}

/// Signs of the differences, least significant first.
fn signs(draft: &mut Draft, left: &[Cell], right: &[Cell], is_signed: bool) -> Digits {
    let unsigned = left.len() - usize::from(is_signed);
    let mut signs: Digits = differences(draft, &left[..unsigned], &right[..unsigned])
        .into_iter()
        .map(|difference| draft.lookup(&difference, i64::signum))
        .collect();
    if is_signed {
        // In the digit with the sign, 2 and 3 rank below 0 and 1.
        let rank = |digit: i64| (digit + BASE / 2) % BASE;
        signs.push(of_two(draft, &left[unsigned], &right[unsigned], |left, right| (rank(left) - rank(right)).signum()));
    }
    signs
}

/// A sum whose sign is that of the highest sign that is not zero.
fn weighted(draft: &mut Draft, mut signs: Digits) -> Cell {
    let weighable = draft.weighable();
    while signs.len() > weighable {
        let sums = signs.chunks(weighable).map(|signs| Cell::weighted(signs, 2));
        signs = sums.map(|sum| draft.lookup(&sum, i64::signum)).collect();
    }
    Cell::weighted(&signs, 2)
}

/// Differences of pairs of neighbouring digits, or of single digits where a pair has too much
/// noise.
fn differences(draft: &mut Draft, left: &[Cell], right: &[Cell]) -> Vec<Cell> {
    let mut differences = Vec::with_capacity(left.len().div_ceil(2));
    for (left, right) in left.chunks(2).zip(right.chunks(2)) {
        let difference = Cell::weighted(left, BASE).minus(&Cell::weighted(right, BASE));
        if draft.fits_symmetric(&difference) {
            differences.push(difference);
            continue;
        }
        for (left, right) in left.iter().zip(right) {
            let difference = left.minus(right);
            let fits = draft.fits(&difference);
            differences.push(if fits { difference } else { fresh(draft, left).minus(&fresh(draft, right)) });
        }
    }
    differences
}
