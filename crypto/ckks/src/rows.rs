//! Division of polynomial rows among threads.
//!
//! One thread for each whole row would leave other threads idle, and a row is larger than a cache.
//! Each row is therefore cut into *stretches*, each for one thread. A stretch is cut into *parts*,
//! which are processed one after the other.

use std::ops::Range;

use cloakwork_math::ntt::{Automorphism, PART};

use crate::prime::Prime;

/// A row of some polynomials, or one stretch or part of that row.
pub(crate) type Rows<'r> = Vec<&'r mut [u64]>;

/// A stretch of one row.
pub(crate) struct Stretch<'r> {
    /// Index of the row.
    pub(crate) row: usize,
    /// Prime of the row.
    pub(crate) prime: &'r Prime,
    /// Position of the stretch in the row.
    pub(crate) words: Range<usize>,
}

/// A part of a stretch. A cache holds this part of some digits, or of both polynomials of a
/// ciphertext.
pub(crate) struct Part {
    /// Position in the row.
    pub(crate) in_row: Range<usize>,
    /// Position in the stretch.
    pub(crate) in_stretch: Range<usize>,
}

/// Splits `words` words into pieces of `len` words. The last piece has the rest.
pub(crate) fn pieces(words: usize, len: usize) -> impl ExactSizeIterator<Item = Range<usize>> {
    (0..words.div_ceil(len)).map(move |number| number * len..words.min((number + 1) * len))
}

/// The parts of a stretch.
pub(crate) fn parts(stretch: &Range<usize>) -> impl ExactSizeIterator<Item = Part> + use<> {
    let start = stretch.start;
    pieces(stretch.len(), PART).map(move |part| Part { in_row: start + part.start..start + part.end, in_stretch: part })
}

/// Cuts rows into stretches of `len` words. Returns each stretch of all rows.
pub(crate) fn by_stretch<'r>(rows: impl IntoIterator<Item = &'r mut [u64]>, len: usize) -> Vec<Rows<'r>> {
    transposed(rows.into_iter().map(|row| row.chunks_mut(len)))
}

/// Returns one part of each row.
pub(crate) fn part_of<'p>(rows: &'p mut [&mut [u64]], part: &Range<usize>) -> Rows<'p> {
    rows.iter_mut().map(|row| &mut row[part.clone()]).collect()
}

/// Transposes lists of equal length: the first items of all lists, then the second items, and so
/// on.
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

/// Reorders items of target stretches to the order of the source stretches that an automorphism
/// moves there. Stretches have `len` words, a power of two, since the automorphism moves such
/// stretches as a whole.
pub(crate) fn by_source<T>(automorphism: &Automorphism, len: usize, targets: Vec<T>) -> Vec<T> {
    let places = places(automorphism, len, targets.len());
    let mut targets: Vec<Option<T>> = targets.into_iter().map(Some).collect();
    places.map(|place| targets[place].take().expect("stretches have different targets")).collect()
}

/// Reorders items of source stretches of `len` words to the order of their target stretches.
pub(crate) fn by_target<T>(automorphism: &Automorphism, len: usize, sources: Vec<T>) -> Vec<T> {
    let mut sources: Vec<(usize, T)> = places(automorphism, len, sources.len()).zip(sources).collect();
    sources.sort_by_key(|(place, _)| *place);
    sources.into_iter().map(|(_, item)| item).collect()
}

/// Index of the target of each of `count` stretches.
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
    fn by_source_and_by_target_follow_the_automorphism() {
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
                // Some of these powers are not their own inverse, so the two orders differ.
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
