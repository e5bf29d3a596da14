//! Linear combinations that are not computed yet.

use std::collections::BTreeMap;

#[cfg(test)]
use super::effort;
use super::{Combination, HALVES};

/// Number of a source.
pub(super) type SourceId = usize;

/// A value that cells combine: an input, or a result of a bootstrap.
pub(super) struct Source {
    /// The bootstrap that returns the value; `None` for inputs.
    pub(super) origin: Option<usize>,
    /// Noise in multiples of a bootstrap's deviation.
    pub(super) noise: u64,
    /// Length of the longest chain of bootstraps that ends here, the source's own bootstrap
    /// included.
    pub(super) depth: u32,
}

/// All values from `min` to `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Range {
    pub(crate) min: i64,
    pub(crate) max: i64,
}

/// A block that is not computed yet: a sum of multiples of sources, and a constant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cell {
    /// Sorted by source, without duplicates and without factors of 0.
    pub(super) terms: Vec<(SourceId, i64)>,
    /// In half steps.
    pub(super) constant: i64,
    /// In half steps.
    range: Range,
    /// One possible value of the sum, in half steps. All other values differ from it by multiples
    /// of the factors' common divisor.
    witness: i64,
}

/// Number of terms up to which [`Cell::sum`] copies the sum for each cell that it adds.
const SHORT_TERMS: usize = 16;

impl Cell {
    /// A constant.
    pub(crate) fn constant(value: i64) -> Self {
        let halves = HALVES * value;
        Self { terms: Vec::new(), constant: halves, range: Range { min: halves, max: halves }, witness: halves }
    }

    pub(super) fn of(source: SourceId, range: Range) -> Self {
        Self { terms: vec![(source, 1)], constant: 0, range, witness: range.min }
    }

    pub(super) fn plus_halves(mut self, halves: i64) -> Self {
        self.constant += halves;
        self.witness += halves;
        self.range = Range { min: self.range.min + halves, max: self.range.max + halves };
        self
    }

    /// Range of the cell's values.
    pub(crate) fn range(&self) -> Range {
        Range { min: self.range.min / HALVES, max: self.range.max / HALVES }
    }

    /// The value, if the cell can hold only one.
    pub(crate) fn known(&self) -> Option<i64> {
        let range = self.range();
        (range.min == range.max).then_some(range.min)
    }

    /// The cell with its range narrowed to `min..=max`, for a reason that the sum does not show.
    pub(crate) fn within(mut self, min: i64, max: i64) -> Self {
        self.range.min = self.range.min.max(HALVES * min);
        self.range.max = self.range.max.min(HALVES * max);
        self
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        #[cfg(test)]
        effort::spend(1 + self.terms.len() + other.terms.len());
        let mut terms = Vec::with_capacity(self.terms.len() + other.terms.len());
        let (mut left, mut right) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        loop {
            let term = match (left.peek(), right.peek()) {
                (Some(&&(one, factor)), Some(&&(two, other))) if one == two => {
                    left.next();
                    right.next();
                    (one, factor + other)
                }
                (Some(one), Some(two)) if one.0 > two.0 => *right.next().expect("it was peeked at"),
                (Some(_), _) => *left.next().expect("it was peeked at"),
                (None, Some(_)) => *right.next().expect("it was peeked at"),
                (None, None) => break,
            };
            if term.1 != 0 {
                terms.push(term);
            }
        }
        let constant = self.constant + other.constant;
        let sum = Range { min: self.range.min + other.range.min, max: self.range.max + other.range.max };
        let range = if terms.is_empty() { Range { min: constant, max: constant } } else { sum };
        Self { terms, constant, range, witness: self.witness + other.witness }
    }

    pub(crate) fn minus(&self, other: &Self) -> Self {
        self.plus(&other.times(-1))
    }

    pub(crate) fn times(&self, factor: i64) -> Self {
        if factor == 0 {
            return Self::constant(0);
        }
        let ends = [self.range.min * factor, self.range.max * factor];
        Self {
            terms: self.terms.iter().map(|(source, own)| (*source, own * factor)).collect(),
            constant: self.constant * factor,
            range: Range { min: ends[0].min(ends[1]), max: ends[0].max(ends[1]) },
            witness: self.witness * factor,
        }
    }

    /// The sum of all cells.
    ///
    /// A long sum collects its terms in a map. Repeated [`Self::plus`] copies all terms for each
    /// cell, which takes quadratic time: a program of 200 bytes can have sums of thousands of
    /// cells.
    pub(crate) fn sum<'c>(cells: impl IntoIterator<Item = &'c Self>) -> Self {
        let mut cells = cells.into_iter();
        let mut sum = Self::constant(0);
        for cell in cells.by_ref() {
            sum = sum.plus(cell);
            if sum.terms.len() > SHORT_TERMS {
                break;
            }
        }
        let mut terms: Option<BTreeMap<SourceId, i64>> = None;
        for cell in cells {
            #[cfg(test)]
            effort::spend(1 + cell.terms.len());
            let terms = terms.get_or_insert_with(|| std::mem::take(&mut sum.terms).into_iter().collect());
            for (source, factor) in &cell.terms {
                let entry = terms.entry(*source).or_default();
                *entry += factor;
                if *entry == 0 {
                    terms.remove(source);
                }
            }
            sum.constant += cell.constant;
            sum.witness += cell.witness;
            sum.range = Range { min: sum.range.min + cell.range.min, max: sum.range.max + cell.range.max };
            if terms.is_empty() {
                sum.range = Range { min: sum.constant, max: sum.constant };
            }
        }
        if let Some(terms) = terms {
            sum.terms = terms.into_iter().collect();
        }
        sum
    }

    /// The sum of all cells, each with `base` times the weight of the cell before it.
    pub(crate) fn weighted(cells: &[Self], base: i64) -> Self {
        cells.iter().rev().fold(Self::constant(0), |sum, cell| sum.times(base).plus(cell))
    }

    pub(crate) fn plus_constant(&self, value: i64) -> Self {
        self.clone().plus_halves(HALVES * value)
    }

    /// Common divisor of the distances between the least value and all other values.
    pub(super) fn divisor(&self) -> i64 {
        let divisor = self.terms.iter().fold(0, |divisor, (_, factor)| gcd(divisor, factor.abs()));
        // A narrowed range need not begin at a multiple of the factors' divisor.
        if divisor > 1 && self.is_aligned(divisor) { divisor } else { 1 }
    }

    fn is_aligned(&self, divisor: i64) -> bool {
        [self.range.max, self.range.min].iter().all(|end| (end - self.witness) % (HALVES * divisor) == 0)
    }

    /// Number of possible values, less 1.
    pub(super) fn span(&self) -> i64 {
        (self.range().max - self.range().min) / self.divisor()
    }

    /// The combination that maps the cell's values to 0, 1, 2 and so on.
    pub(super) fn combination(&self) -> Combination {
        let step = self.divisor();
        Combination {
            terms: self.terms.iter().map(|(source, factor)| (*source, factor / step)).collect(),
            constant: (self.constant - self.range.min) / step,
            span: self.span(),
        }
    }
}

fn gcd(left: i64, right: i64) -> i64 {
    if right == 0 { left } else { gcd(right, left % right) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A long sum equals the sum of one cell after the other, also if terms cancel in between.
        #[test]
        fn a_long_sum_equals_repeated_addition(
            cells in prop::collection::vec((0..40_usize, -2..3_i64, -3..4_i64), 0..120),
            mirrored: bool,
        ) {
            let cell = |&(source, factor, constant): &(usize, i64, i64)| {
                Cell::of(source, Range { min: 0, max: 6 }).times(factor).plus_constant(constant)
            };
            let mut cells: Vec<Cell> = cells.iter().map(cell).collect();
            if mirrored {
                // The second third subtracts everything, so the terms are empty in the middle.
                let taken_off: Vec<Cell> = cells.iter().map(|cell| cell.times(-1)).collect();
                cells = [&cells[..], &taken_off, &cells].concat();
            }
            let expected = cells.iter().fold(Cell::constant(0), |sum, cell| sum.plus(cell));
            prop_assert_eq!(Cell::sum(&cells), expected);
        }
    }
}
