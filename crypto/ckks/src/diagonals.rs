//! Square matrices over the numbers of a ciphertext, stored by diagonals.

use std::collections::BTreeMap;

use cloakwork_params::ckks::bootstrap::stages_of_transform;

use crate::{complex::Complex, embedding::Embedding};

/// A matrix of n rows. Diagonal `offset` holds, for each row, the entry `offset` columns to the
/// right, with wrap-around.
#[derive(Clone, Debug)]
pub struct Diagonals {
    size: usize,
    by_offset: BTreeMap<usize, Vec<Complex>>,
}

impl Diagonals {
    /// Builds a matrix with these diagonals. `size` is a power of two, and all other entries are
    /// zero.
    pub fn new(size: usize, diagonals: impl IntoIterator<Item = (usize, Vec<Complex>)>) -> Self {
        assert!(size.is_power_of_two(), "the number of rows is a power of two");
        let mut matrix = Self { size, by_offset: BTreeMap::new() };
        for (offset, diagonal) in diagonals {
            matrix.add(offset, &diagonal);
        }
        matrix
    }

    /// Number of rows.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Offsets of the stored diagonals.
    pub fn offsets(&self) -> impl ExactSizeIterator<Item = usize> {
        self.by_offset.keys().copied()
    }

    /// The diagonal at one offset.
    pub fn diagonal(&self, offset: usize) -> &[Complex] {
        &self.by_offset[&offset]
    }

    /// The product with a vector.
    pub fn apply(&self, vector: &[Complex]) -> Vec<Complex> {
        let mut product = vec![Complex::ZERO; self.size];
        for (offset, diagonal) in &self.by_offset {
            for (row, (sum, entry)) in product.iter_mut().zip(diagonal).enumerate() {
                *sum = *sum + *entry * vector[(row + offset) % self.size];
            }
        }
        product
    }

    /// The product that applies `first`, then `self`.
    pub fn after(&self, first: &Self) -> Self {
        let mut both = Self { size: self.size, by_offset: BTreeMap::new() };
        for (left_offset, left) in &self.by_offset {
            for (right_offset, right) in &first.by_offset {
                let entry = |row: usize| left[row] * right[(row + left_offset) % self.size];
                both.add(left_offset + right_offset, &(0..self.size).map(entry).collect::<Vec<_>>());
            }
        }
        both
    }

    /// Multiplies every entry by a number.
    pub fn scale(mut self, factor: Complex) -> Self {
        self.by_offset.values_mut().flatten().for_each(|entry| *entry = *entry * factor);
        self
    }

    /// The matrix for inputs rotated by `before` places to the left, whose outputs are rotated by
    /// `after` places.
    pub fn turned(&self, before: usize, after: usize) -> Self {
        let n = self.size;
        let by_offset = self.by_offset.iter().map(|(offset, diagonal)| {
            let turned = (0..n).map(|row| diagonal[(row + after) % n]).collect();
            ((offset + after + n - before % n) % n, turned)
        });
        Self { size: n, by_offset: by_offset.collect() }
    }

    fn add(&mut self, offset: usize, diagonal: &[Complex]) {
        assert_eq!(diagonal.len(), self.size);
        let to = self.by_offset.entry(offset % self.size).or_insert_with(|| vec![Complex::ZERO; diagonal.len()]);
        for (to, entry) in to.iter_mut().zip(diagonal) {
            *to = *to + *entry;
        }
    }
}

impl Embedding {
    /// The transform from coefficients to values as `stages` matrices, in the order of application.
    /// The coefficients are in bit-reversed order.
    pub fn to_values(&self, stages: usize) -> Vec<Diagonals> {
        let stages = stages_of_transform(self.slots().ilog2(), stages).into_iter();
        stages.map(|[first, last]| product((first..=last).map(|step| self.step_to_values(step)))).collect()
    }

    /// The transform from values to coefficients as `stages` matrices, in the order of application,
    /// to coefficients in bit-reversed order.
    pub fn to_coefficients(&self, stages: usize) -> Vec<Diagonals> {
        let stages = stages_of_transform(self.slots().ilog2(), stages).into_iter().rev();
        stages.map(|[first, last]| product((first..=last).rev().map(|step| self.step_to_coefficients(step)))).collect()
    }

    fn step_to_values(&self, len_log2: u32) -> Diagonals {
        let roots = self.roots(len_log2);
        self.step(roots.len(), |place, is_lower| {
            let root = roots[place];
            if is_lower { (-root, Complex::from(1.0)) } else { (Complex::from(1.0), root) }
        })
    }

    fn step_to_coefficients(&self, len_log2: u32) -> Diagonals {
        let roots = self.roots(len_log2);
        self.step(roots.len(), |place, is_lower| {
            let root = roots[place].conjugate().scale(0.5);
            if is_lower { (-root, root) } else { (Complex::from(0.5), Complex::from(0.5)) }
        })
    }

    /// A step over blocks of two halves: `entries` gives the factors of each number and of its
    /// counterpart in the other half.
    fn step(&self, half: usize, entries: impl Fn(usize, bool) -> (Complex, Complex)) -> Diagonals {
        let n = self.slots();
        let [mut own, mut right, mut left] = [(); 3].map(|()| vec![Complex::ZERO; n]);
        for row in 0..n {
            let is_lower = row & half != 0;
            let (of_own, of_other) = entries(row & (half - 1), is_lower);
            own[row] = of_own;
            if is_lower { left[row] = of_other } else { right[row] = of_other }
        }
        Diagonals::new(n, [(0, own), (half, right), (n - half, left)])
    }
}

/// The product of one or more steps.
fn product(mut steps: impl Iterator<Item = Diagonals>) -> Diagonals {
    let first = steps.next().expect("a step for each stage");
    steps.fold(first, |first, second| second.after(&first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedding::reverse_bits;

    #[test]
    fn rotated_matrices_map_rotated_inputs_to_rotated_outputs() {
        let entry = |k: usize| Complex::new(k as f64, (k * k % 7) as f64);
        let matrix = Diagonals::new(8, [1, 5].map(|offset| (offset, (0..8).map(|row| entry(row + offset)).collect())));
        let vector: Vec<Complex> = (0..8).map(|k| entry(3 * k)).collect();
        let turn = |vector: &[Complex], by: usize| -> Vec<Complex> { (0..8).map(|k| vector[(k + by) % 8]).collect() };
        for (before, after) in [(0, 0), (0, 3), (6, 2), (9, 1)] {
            let turned = matrix.turned(before, after);
            assert_eq!(turned.apply(&turn(&vector, before)), turn(&matrix.apply(&vector), after));
        }
    }

    #[test]
    fn matrices_match_the_transform() {
        for slots_log2 in 1..=7 {
            let embedding = Embedding::new(slots_log2);
            let n = embedding.slots();
            let coefficients: Vec<Complex> =
                (0..n).map(|k| Complex::new((k as f64).sin(), (3.0 * k as f64).cos())).collect();
            let mut values = coefficients.clone();
            embedding.values(&mut values);
            let mut reversed = coefficients.clone();
            reverse_bits(&mut reversed);
            for stages in 1..=slots_log2 as usize {
                let there = embedding.to_values(stages);
                let back = embedding.to_coefficients(stages);
                assert_eq!((there.len(), back.len()), (stages, stages));
                let apply = |matrices: &[Diagonals], vector: &[Complex]| {
                    matrices.iter().fold(vector.to_vec(), |vector, matrix| matrix.apply(&vector))
                };
                let near = |a: &[Complex], b: &[Complex]| a.iter().zip(b).all(|(a, b)| (*a - *b).magnitude() < 1e-11);
                assert!(near(&apply(&there, &reversed), &values), "{stages} of {slots_log2}");
                assert!(near(&apply(&back, &values), &reversed), "{stages} of {slots_log2}");
                // Both directions rotate by the same steps, in opposite order.
                for (there, back) in there.iter().zip(back.iter().rev()) {
                    assert!(there.offsets().eq(back.offsets()));
                }
            }
        }
    }
}
