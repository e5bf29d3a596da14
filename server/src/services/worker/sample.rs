//! Samples of results: which rows are computed a second time, and digests of these rows.
//!
//! The rows are drawn after the worker has announced the digests of its outputs. A worker can
//! neither predict the rows nor change them afterwards: the digests of the whole outputs are
//! checked.

use std::ops::Range;

use cloakwork_keystore::Digest;

use crate::error::{ApiError, DIGEST_MISMATCH, INTERNAL};

/// Maximum number of rows of one result that are computed a second time. If more rows than this
/// would be expected, a smaller share is drawn.
const CHECK_ROWS_MAX: u64 = 1 << 17;

/// Number of expected rows up to which the share is the percentage. The number is ten standard
/// deviations below the maximum, so that the maximum cuts nothing off.
const EXPECTED_ROWS_MAX: u64 = CHECK_ROWS_MAX - 10 * 362;

/// A part of an output that holds the same number of bytes of each row, row after row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// Offset of the part in the output.
    pub(super) start: u64,
    pub(super) row_bytes: u64,
}

/// Digests of some rows of an output, and of the whole output, as its bytes arrive.
pub(super) struct RowHasher<'r> {
    sections: Vec<Section>,
    rows: &'r [u64],
    /// The next row to hash: the number of its section, and its place in `rows`.
    next: (usize, usize),
    /// Offset of the next byte.
    at: u64,
    hasher: blake3::Hasher,
    whole: blake3::Hasher,
}

/// A seed from the operating system.
pub(super) fn seed() -> Result<[u8; 32], ApiError> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| INTERNAL.error(format!("no randomness: {error}")))?;
    Ok(seed)
}

/// Draws each row with a probability of `percent` in a hundred, independently of the others. Equal
/// seeds draw equal rows.
pub(super) fn draw(rows: u64, percent: u64, seed: &[u8; 32]) -> Vec<u64> {
    if percent >= 100 && rows <= CHECK_ROWS_MAX {
        return (0..rows).collect();
    }
    let share = (percent as f64 / 100.0).min(EXPECTED_ROWS_MAX as f64 / rows.max(1) as f64);
    if share <= 0.0 {
        return Vec::new();
    }
    let mut random = blake3::Hasher::new_keyed(seed).finalize_xof();
    // Number of rows up to the next one that is drawn. One random number decides on many rows that
    // are not drawn. The conversion of a large number saturates.
    let mut gap = || (uniform(&mut random).ln() / (-share).ln_1p()) as u64;
    let (mut drawn, mut next) = (Vec::new(), gap());
    while next < rows && (drawn.len() as u64) < CHECK_ROWS_MAX {
        drawn.push(next);
        next = next.saturating_add(1).saturating_add(gap());
    }
    drawn
}

/// A number in (0, 1], in steps of 2^-53.
fn uniform(random: &mut blake3::OutputReader) -> f64 {
    let mut word = [0; 8];
    random.fill(&mut word);
    ((u64::from_le_bytes(word) >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

impl<'r> RowHasher<'r> {
    pub(super) fn new(sections: Vec<Section>, rows: &'r [u64]) -> Self {
        Self { sections, rows, next: (0, 0), at: 0, hasher: blake3::Hasher::new(), whole: blake3::Hasher::new() }
    }

    /// Takes the next bytes of the output.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.whole.update(bytes);
        let end = self.at + bytes.len() as u64;
        while let Some(range) = self.range() {
            let (from, to) = (range.start.max(self.at), range.end.min(end));
            if from < to {
                self.hasher.update(&bytes[(from - self.at) as usize..(to - self.at) as usize]);
            }
            if range.end > end {
                break;
            }
            self.next.1 += 1;
        }
        self.at = end;
    }

    /// The digest of the rows. Fails if the bytes are not those that the worker announced.
    pub(super) fn finish(self, announced: &Digest) -> Result<[u8; 32], ApiError> {
        if *self.whole.finalize().as_bytes() != announced.blake3 {
            return Err(DIGEST_MISMATCH.error("an output does not match its digest"));
        }
        Ok(*self.hasher.finalize().as_bytes())
    }

    /// The bytes of the next row.
    fn range(&mut self) -> Option<Range<u64>> {
        if self.next.1 == self.rows.len() {
            self.next = (self.next.0 + 1, 0);
        }
        let section = self.sections.get(self.next.0)?;
        let row = self.rows.get(self.next.1)?;
        let start = section.start.saturating_add(row.saturating_mul(section.row_bytes));
        Some(start..start.saturating_add(section.row_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(rows: u64, percent: u64) -> Vec<u64> {
        super::draw(rows, percent, &seed().unwrap())
    }

    #[test]
    fn rows_are_drawn_with_their_probability() {
        assert_eq!(draw(5, 100), [0, 1, 2, 3, 4]);
        assert!(draw(1000, 0).is_empty());
        assert!(draw(0, 50).is_empty());
        let [one, again, other] = [[1; 32], [1; 32], [2; 32]].map(|seed| super::draw(1000, 50, &seed));
        assert!(one == again && one != other);
        for percent in [1, 20, 50, 99] {
            let (rows, rounds) = (1000, 200);
            let mut of_row = vec![0_u64; rows as usize];
            for _ in 0..rounds {
                let drawn = draw(rows, percent);
                assert!(drawn.is_sorted_by(|one, next| one < next) && drawn.iter().all(|row| *row < rows));
                drawn.into_iter().for_each(|row| of_row[row as usize] += 1);
            }
            let drawn: u64 = of_row.iter().sum();
            let expected = (rows * rounds * percent / 100) as f64;
            // Ten standard deviations.
            assert!((drawn as f64 - expected).abs() < 10.0 * expected.sqrt(), "{percent} %: {drawn} rows");
            let halves = of_row.split_at(500);
            let [one, other] = [halves.0, halves.1].map(|half| half.iter().sum::<u64>() as f64);
            assert!((one - other).abs() < 10.0 * expected.sqrt(), "{percent} %: {one} and {other} rows");
        }
    }

    #[test]
    fn one_row_is_drawn_as_often_as_the_percentage_says() {
        let drawn = (0..20_000).filter(|_| !draw(1, 5).is_empty()).count();
        assert!((700..1300).contains(&drawn), "{drawn} of 20,000 jobs");
    }

    #[test]
    fn few_rows_of_a_huge_job_are_drawn() {
        let drawn = draw(1 << 30, 100);
        let expected = EXPECTED_ROWS_MAX as usize;
        assert!((expected - 3620..=CHECK_ROWS_MAX as usize).contains(&drawn.len()), "{}", drawn.len());
        assert!(drawn.last().is_some_and(|last| *last > 1 << 29), "over the whole job");
        // A job with more rows than this has a smaller share drawn than the percentage.
        let rows = EXPECTED_ROWS_MAX * 100 / 99;
        let drawn = draw(rows, 99).len() as u64;
        assert!(drawn.abs_diff(EXPECTED_ROWS_MAX) < 400, "{drawn} of {rows}");
    }

    /// An output with an entry of two bytes for each row, and then three bytes for each row.
    fn output(rows: &[u8]) -> (Vec<Section>, Vec<u8>) {
        let mut bytes = b"header".to_vec();
        rows.iter().for_each(|row| bytes.extend([*row, 1]));
        rows.iter().for_each(|row| bytes.extend([*row, 2, 3]));
        bytes.extend(b"trailer");
        let second = 6 + 2 * rows.len() as u64;
        (vec![Section { start: 6, row_bytes: 2 }, Section { start: second, row_bytes: 3 }], bytes)
    }

    fn hash(rows: &[u8], picked: &[u64], piece: usize) -> [u8; 32] {
        let (sections, bytes) = output(rows);
        let mut hasher = RowHasher::new(sections, picked);
        bytes.chunks(piece).for_each(|piece| hasher.feed(piece));
        hasher.finish(&Digest::of(&bytes)).unwrap()
    }

    #[test]
    fn chosen_rows_have_the_digest_of_an_output_of_these_rows_alone() {
        let whole = [10, 11, 12, 13, 14];
        for piece in [1, 2, 5, 7, 100] {
            assert_eq!(hash(&whole, &[1, 2, 4], piece), hash(&[11, 12, 14], &[0, 1, 2], 3), "pieces of {piece}");
            assert_eq!(hash(&whole, &[0], piece), hash(&[10], &[0], 4));
            assert_ne!(hash(&whole, &[1, 2, 4], piece), hash(&[11, 12, 13], &[0, 1, 2], 3));
        }
    }

    #[test]
    fn bytes_other_than_the_announced_ones_are_refused() {
        let (sections, bytes) = output(&[1, 2]);
        let mut hasher = RowHasher::new(sections, &[0]);
        hasher.feed(&bytes);
        assert_eq!(hasher.finish(&Digest::of(b"other")).unwrap_err().reason(), DIGEST_MISMATCH);
    }
}
