//! Selection of one of many results by comparison with keys.

use super::{
    BASE, Digits,
    bits::of_two,
    compare::{any, equal},
    fresh, select,
};
use crate::draft::{Cell, Draft};

/// 1 if a clean number equals one of the others, otherwise 0.
pub(crate) fn is_one_of(draft: &mut Draft, number: &[Cell], others: &[Digits]) -> Cell {
    let flags = others.iter().map(|other| equal(draft, number, other)).collect();
    any(draft, flags)
}

/// The result of the first key that equals `number`, or `otherwise` if no key does. All numbers are
/// clean.
pub(crate) fn choose(draft: &mut Draft, number: &[Cell], cases: &[(Digits, Digits)], otherwise: &[Cell]) -> Digits {
    let keys: Option<Vec<Vec<i64>>> = cases.iter().map(|(key, _)| key.iter().map(Cell::known).collect()).collect();
    let is_distinct = keys.is_some_and(|mut keys| {
        keys.sort_unstable();
        keys.windows(2).all(|pair| pair[0] != pair[1])
    });
    let flags: Vec<Cell> = cases.iter().map(|(key, _)| equal(draft, number, key)).collect();
    if !is_distinct {
        let chosen =
            |chosen: Digits, (flag, (_, result)): (&Cell, &(Digits, Digits))| select(draft, flag, result, &chosen);
        return flags.iter().zip(cases).rev().fold(otherwise.to_vec(), chosen);
    }
    // All keys differ, so at most one flag is set.
    let any = any(draft, flags.clone());
    let none = Cell::constant(1).minus(&any);
    let mut results: Vec<(&Cell, &[Cell])> = flags.iter().zip(cases.iter().map(|(_, result)| &result[..])).collect();
    results.push((&none, otherwise));
    (0..otherwise.len())
        .map(|place| digit(draft, results.iter().map(|(flag, result)| (*flag, &result[place]))))
        .collect()
}

/// The digit of the case whose flag is set. Exactly one flag is set.
fn digit<'c>(draft: &mut Draft, cases: impl Iterator<Item = (&'c Cell, &'c Cell)>) -> Cell {
    let (mut parts, mut most) = (Vec::new(), 0);
    let mut known: [Vec<Cell>; BASE as usize] = Default::default();
    for (flag, digit) in cases {
        most = digit.range().max.max(most);
        match digit.known() {
            Some(value) => known[value as usize].push(flag.clone()),
            None => parts.push(of_two(draft, flag, digit, |flag, digit| flag * digit)),
        }
    }
    // Cases with equal known digits share one flag, and cases with the digit 0 need none.
    for (value, flags) in known.into_iter().enumerate().skip(1).filter(|(_, flags)| !flags.is_empty()) {
        let is_any = any(draft, flags);
        parts.push(draft.lookup(&is_any, |is_any| is_any * value as i64));
    }
    let mut sum = Cell::constant(0);
    for part in parts {
        if !draft.bears_more(&sum.plus(&part), 1) {
            sum = fresh(draft, &sum);
        }
        sum = sum.plus(&part).within(0, most);
    }
    sum
}
