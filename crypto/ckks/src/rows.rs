//! Rows of polynomials, stretch by stretch.
//!
//! A row by itself is too much for one thread where others have none, and more than a cache holds. So it is cut in *stretches*, each of
//! which one thread works on, and these in *parts*, which are worked on one after the other.

use std::ops::Range;

use cloakwork_math::ntt::{Automorphism, PART};

use crate::ring::Prime;

/// The same row of some polynomials, or the same stretch or part of it.
pub(crate) type Rows<'r> = Vec<&'r mut [u64]>;

/// A stretch of one row.
pub(crate) struct Stretch<'r> {
    /// Number of the row.
    pub(crate) row: usize,
    /// Its prime.
    pub(crate) prime: &'r Prime,
    /// Where the stretch is in it.
    pub(crate) words: Range<usize>,
}

/// A part of a stretch: as much as some digits, or both polynomials of a ciphertext, can have in a cache.
pub(crate) struct Part {
    /// Where it is in the row.
    pub(crate) in_row: Range<usize>,
    /// Where it is in the stretch.
    pub(crate) in_stretch: Range<usize>,
}

/// Pieces of so many words each, the last one of what is left.
pub(crate) fn pieces(words: usize, len: usize) -> impl ExactSizeIterator<Item = Range<usize>> {
    (0..words.div_ceil(len)).map(move |number| number * len..words.min((number + 1) * len))
}

/// The parts of a stretch.
pub(crate) fn parts(stretch: &Range<usize>) -> impl ExactSizeIterator<Item = Part> + use<> {
    let start = stretch.start;
    pieces(stretch.len(), PART).map(move |part| Part { in_row: start + part.start..start + part.end, in_stretch: part })
}

/// Rows cut in stretches of some words: by stretch, that of each row.
pub(crate) fn by_stretch<'r>(rows: impl IntoIterator<Item = &'r mut [u64]>, len: usize) -> Vec<Rows<'r>> {
    transposed(rows.into_iter().map(|row| row.chunks_mut(len)))
}

/// The same words of each row.
pub(crate) fn part_of<'p>(rows: &'p mut [&mut [u64]], part: &Range<usize>) -> Rows<'p> {
    rows.iter_mut().map(|row| &mut row[part.clone()]).collect()
}

/// Of lists that are equally long: the first of each, the second of each, and so on.
pub(crate) fn transposed<T>(lists: impl IntoIterator<Item: IntoIterator<Item = T>>) -> Vec<Vec<T>> {
    let mut transposed: Vec<Vec<T>> = Vec::new();
    for (number, list) in lists.into_iter().enumerate() {
        for (at, item) in list.into_iter().enumerate() {
            if number == 0 {
                transposed.push(Vec::new());
            }
            transposed[at].push(item);
        }
        assert!(transposed.iter().all(|items| items.len() == number + 1), "lists that are equally long");
    }
    transposed
}

/// What there is for each stretch of a row that was moved, in the order of the stretches that go there. These are of `len` words, a
/// power of two, since such ones are moved as wholes.
pub(crate) fn by_source<T>(automorphism: &Automorphism, len: usize, targets: Vec<T>) -> Vec<T> {
    let places = places(automorphism, len, targets.len());
    let mut targets: Vec<Option<T>> = targets.into_iter().map(Some).collect();
    places.map(|place| targets[place].take().expect("no two stretches go to one place")).collect()
}

/// What there is for each stretch of a row, of `len` words, in the order of the places that they go to.
pub(crate) fn by_target<T>(automorphism: &Automorphism, len: usize, sources: Vec<T>) -> Vec<T> {
    let mut sources: Vec<(usize, T)> = places(automorphism, len, sources.len()).zip(sources).collect();
    sources.sort_by_key(|(place, _)| *place);
    sources.into_iter().map(|(_, item)| item).collect()
}

/// Where each of so many stretches goes.
fn places(automorphism: &Automorphism, len: usize, count: usize) -> impl Iterator<Item = usize> {
    assert_eq!(automorphism.size(), count * len, "all stretches of a row");
    (0..count).map(move |number| automorphism.target(number * len, len) / len)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE_LOG2: u32 = 11;
    const SIZE: usize = 1 << SIZE_LOG2;

    #[test]
    fn stretches_are_ordered_by_where_they_come_from_and_by_where_they_go() {
        for power in [1, 5, 25, 77, SIZE + 1, 2 * SIZE - 1] {
            let automorphism = Automorphism::new(power, SIZE_LOG2);
            for count in [1, 2, 8, 16] {
                let len = SIZE / count;
                let numbers: Vec<usize> = (0..count).collect();
                let target = |source: usize| automorphism.target(source * len, len) / len;
                for (place, source) in by_target(&automorphism, len, numbers.clone()).into_iter().enumerate() {
                    assert_eq!(target(source), place, "X^{power}, {count} stretches");
                }
                for (source, place) in by_source(&automorphism, len, numbers.clone()).into_iter().enumerate() {
                    assert_eq!(target(source), place, "X^{power}, {count} stretches");
                }
                // Not all of these are their own inverse: the two orders are not one.
                if (power, count) == (5, 8) {
                    assert_ne!(by_target(&automorphism, len, numbers.clone()), by_source(&automorphism, len, numbers));
                }
            }
        }
    }

    #[test]
    #[should_panic = "equally long"]
    fn lists_of_different_lengths_are_not_cut_short() {
        transposed([vec![1, 2], vec![3]]);
    }
}
