//! Boolean gates as linear combinations whose sign is the result. True is 1/8 of the torus, false
//! is -1/8.

use crate::wire::operation::Kind;

/// 1/8 of the torus, in units of 2^-64.
const EIGHTH: u64 = 1 << 61;

/// Factor and constant of a gate of two inputs: the sign of `factor * (left + right) + constant` is
/// the result.
pub(crate) fn combination(kind: Kind) -> Option<(i64, u64)> {
    Some(match kind {
        Kind::And => (1, EIGHTH.wrapping_neg()),
        Kind::Nand => (-1, EIGHTH),
        Kind::Nor => (-1, EIGHTH.wrapping_neg()),
        Kind::Or => (1, EIGHTH),
        Kind::Xnor => (-2, (2 * EIGHTH).wrapping_neg()),
        Kind::Xor => (2, 2 * EIGHTH),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_of_each_combination_is_the_gate() {
        // Expected results with no input set, only the right one, only the left one, and both.
        let truth = [
            (Kind::And, [false, false, false, true]),
            (Kind::Nand, [true, true, true, false]),
            (Kind::Nor, [true, false, false, false]),
            (Kind::Or, [false, true, true, true]),
            (Kind::Xnor, [true, false, false, true]),
            (Kind::Xor, [false, true, true, false]),
        ];
        let torus = |bit| if bit { EIGHTH } else { EIGHTH.wrapping_neg() };
        for (kind, answers) in truth {
            let (factor, constant) = combination(kind).expect("a gate of two inputs");
            for (index, answer) in answers.into_iter().enumerate() {
                let (left, right) = (torus(index & 2 != 0), torus(index & 1 != 0));
                let sum = left.wrapping_add(right).wrapping_mul(factor as u64).wrapping_add(constant);
                assert_eq!(sum < 1 << 63, answer, "{kind:?}, case {index}");
            }
        }
    }
}
