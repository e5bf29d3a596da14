//! Functions that a bootstrap can compute.

use std::hash::{Hash, Hasher};

#[cfg(test)]
use super::effort;
use super::{HALVES, Range};

/// A function of a combination that starts at 0, as a table over half of the torus. The other half
/// of the torus has the negated entries.
#[derive(Clone, Debug, Eq)]
pub(super) struct Function {
    /// In half steps.
    pub(super) entries: Vec<i64>,
    /// Added to an entry to give the function's result, in half steps.
    pub(super) offset: i64,
    /// Range of the entries, including the negated entries that the input reaches.
    pub(super) range: Range,
}

impl PartialEq for Function {
    /// Two functions are equal if their results differ by a constant: one bootstrap computes both.
    fn eq(&self, other: &Self) -> bool {
        #[cfg(test)]
        effort::spend(1);
        self.entries == other.entries && self.range == other.range
    }
}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.entries.hash(state);
        self.range.hash(state);
    }
}

impl Function {
    /// The function with these results at 0, 1 and so on, if a table for it exists. `values`
    /// results fill half of the torus. Each result beyond that half must be a constant minus the
    /// result half a torus before.
    pub(super) fn new(results: &[i64], values: i64) -> Option<Self> {
        let (first, second) = results.split_at(results.len().min(values as usize));
        let mut sums = first.iter().zip(second).map(|(one, two)| one + two);
        let offset = sums.next().unwrap_or(0);
        if second.len() > first.len() || sums.any(|sum| sum != offset) {
            return None;
        }
        let entries: Vec<i64> = first.iter().map(|result| HALVES * result - offset).collect();
        let reached = || entries.iter().copied().chain(entries.iter().take(second.len()).map(|entry| -entry));
        let range = Range { min: reached().min()?, max: reached().max()? };
        Some(Self { entries, offset, range })
    }

    /// Result of the bootstrap at `index`, in half steps, without the offset.
    pub(super) fn at(&self, index: i64, values: i64) -> i64 {
        if index < values { self.entries[index as usize] } else { -self.entries[(index - values) as usize] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_torus_holds_any_function() {
        let function = Function::new(&[3, 1, 0, 2], 4).expect("a table");
        assert_eq!((function.entries.as_slice(), function.offset), (&[6, 2, 0, 4][..], 0));
        assert!(Function::new(&[1, 2, 3, 4, 5], 4).is_some(), "a single value of the other half is symmetric to one");
    }

    #[test]
    fn the_whole_torus_holds_only_symmetric_functions() {
        // The function is x >= 4, for x from 0 to 7.
        let carry = Function::new(&[0, 0, 0, 0, 1, 1, 1, 1], 4).expect("a comparison is symmetric");
        assert_eq!((carry.entries.as_slice(), carry.offset), (&[-1, -1, -1, -1][..], 1));
        // The function is x == 3.
        assert!(Function::new(&[0, 0, 0, 1, 0, 0, 0], 4).is_some());
        assert!(Function::new(&[0, 1, 2, 3, 0, 1, 2, 3], 4).is_none(), "the remainder is not");
        assert!(Function::new(&[0; 9], 4).is_none(), "more results than the torus has values");
    }

    #[test]
    fn results_are_entries_and_their_offset() {
        let results = [-1, 0, 1, 5, 1, 0, -1];
        let function = Function::new(&results, 4).expect("a symmetric function");
        for (index, result) in results.iter().enumerate() {
            assert_eq!(function.at(index as i64, 4) + function.offset, HALVES * result);
        }
    }
}
