//! Boolean gates as linear combinations whose sign is the answer. True is 1/8 of the torus, false is -1/8.

use crate::wire::operation::Kind;

/// 1/8 of the torus, in units of 2^-64.
const EIGHTH: u64 = 1 << 61;

/// Factor of both inputs and the constant of a gate of two inputs: the sign of `factor * (left + right) + constant` is
/// the answer.
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
        let truth: [(Kind, fn(bool, bool) -> bool); 6] = [
            (Kind::And, |x, y| x && y),
            (Kind::Nand, |x, y| !(x && y)),
            (Kind::Nor, |x, y| !(x || y)),
            (Kind::Or, |x, y| x || y),
            (Kind::Xnor, |x, y| x == y),
            (Kind::Xor, |x, y| x != y),
        ];
        let torus = |bit| if bit { EIGHTH } else { EIGHTH.wrapping_neg() };
        for (kind, gate) in truth {
            let (factor, constant) = combination(kind).expect("a gate of two inputs");
            for (x, y) in [(false, false), (false, true), (true, false), (true, true)] {
                let sum = torus(x).wrapping_add(torus(y)).wrapping_mul(factor as u64).wrapping_add(constant);
                assert_eq!(sum < 1 << 63, gate(x, y), "{kind:?} of {x} and {y}");
            }
        }
    }
}
