//! Packing of real and imaginary parts side by side.

use cloakwork_params::ckks::offsets;

use crate::{complex::Complex, diagonals::Diagonals};

/// Builds the matrix for twice as many slots that leaves its result in the first half and -i times
/// the result in the second. With their conjugates added, the halves are twice the real and twice
/// the imaginary part.
pub(super) fn both_parts(matrix: &Diagonals) -> Diagonals {
    doubled(matrix, |_, row, n| if row < n { Complex::from(1.0) } else { Complex::new(0.0, -1.0) })
}

/// Builds the matrix for twice as many slots that takes real parts from the first half and
/// imaginary parts from the second. The caller adds the two halves of the result.
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
