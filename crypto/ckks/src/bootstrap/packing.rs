//! Real and imaginary parts side by side.

use cloakwork_params::ckks::offsets;

use crate::{complex::Complex, diagonals::Diagonals};

/// The matrix for twice as many slots that leaves its result in the first half and -i times it in the second: with their
/// conjugates added, these are twice the real and twice the imaginary part.
pub(super) fn both_parts(matrix: &Diagonals) -> Diagonals {
    doubled(matrix, |_, row, n| if row < n { Complex::from(1.0) } else { Complex::new(0.0, -1.0) })
}

/// The matrix for twice as many slots that takes real parts from the first half and imaginary ones from the second: what
/// it leaves in the two halves is to be added.
pub(super) fn of_both_parts(matrix: &Diagonals) -> Diagonals {
    doubled(
        matrix,
        |offset, row, n| {
            if (row + offset) % (2 * n) < n { Complex::from(1.0) } else { Complex::new(0.0, 1.0) }
        },
    )
}

fn doubled(matrix: &Diagonals, factor: impl Fn(usize, usize, usize) -> Complex) -> Diagonals {
    let n = matrix.size();
    let diagonals = matrix.offsets().map(|offset| {
        let offset_of_both = offsets::doubled(n, offset);
        let entry = |row: usize| matrix.diagonal(offset)[row % n] * factor(offset_of_both, row, n);
        (offset_of_both, (0..2 * n).map(entry).collect())
    });
    Diagonals::new(2 * n, diagonals.collect::<Vec<_>>())
}
