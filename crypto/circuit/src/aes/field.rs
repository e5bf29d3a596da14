//! The field of AES as a tower: bytes as pairs of nibbles, nibbles as pairs of pairs of bits.
//!
//! In a tower, an inverse takes a few products of half the length, down to a length that one lookup
//! takes. The tables are computed from their defining equations, not typed in.

/// Reduction polynomial of a byte: x^8 + x^4 + x^3 + x + 1, without its highest term.
const POLYNOMIAL: u8 = 0x1b;
/// z^2 = z + NU over pairs of bits. NU is the least value for which this is irreducible.
const NU: u8 = 2;
/// t^2 = t + MU over nibbles.
const MU: u8 = 8;

/// Twice a byte in the standard's representation.
pub(super) fn double(byte: u8) -> u8 {
    byte << 1 ^ if byte >> 7 == 1 { POLYNOMIAL } else { 0 }
}

/// The product of two pairs of bits, modulo w^2 + w + 1.
pub(super) fn multiply_pairs(left: u8, right: u8) -> u8 {
    let (left, right) = ([left & 1, left >> 1], [right & 1, right >> 1]);
    let high = left[1] & right[1];
    (left[0] & right[0] ^ high) | (left[0] & right[1] ^ left[1] & right[0] ^ high) << 1
}

/// A pair of bits times [`NU`].
pub(super) fn times_nu(pair: u8) -> u8 {
    multiply_pairs(NU, pair)
}

/// The square of a nibble, times [`MU`].
pub(super) fn mu_times_square(nibble: u8) -> u8 {
    multiply_nibbles(MU, square(nibble))
}

/// The square of a nibble.
pub(super) fn square(nibble: u8) -> u8 {
    multiply_nibbles(nibble, nibble)
}

/// The multiplicative inverse of a nibble; 0 for 0.
pub(super) fn inverse_of_nibble(nibble: u8) -> u8 {
    (0..16).find(|other| multiply_nibbles(nibble, *other) == 1).unwrap_or(0)
}

fn multiply_nibbles(left: u8, right: u8) -> u8 {
    multiply_extended(left, right, 2, NU, multiply_pairs)
}

/// The product of two bytes in the tower.
fn multiply(left: u8, right: u8) -> u8 {
    multiply_extended(left, right, 4, MU, multiply_nibbles)
}

/// The product in a field of twice the length. The square of its generator is the generator plus
/// `norm`.
fn multiply_extended(left: u8, right: u8, bits: u32, norm: u8, multiply: fn(u8, u8) -> u8) -> u8 {
    let low_part = (1 << bits) - 1;
    let (left, right) = ([left & low_part, left >> bits], [right & low_part, right >> bits]);
    let high = multiply(left[1], right[1]);
    let low = multiply(left[0], right[0]) ^ multiply(norm, high);
    low | (multiply(left[0], right[1]) ^ multiply(left[1], right[0]) ^ high) << bits
}

/// The isomorphism between the standard's bytes and the tower's.
pub(super) struct Isomorphism {
    to_tower: [u8; 8],
    from_tower: [u8; 8],
}

impl Isomorphism {
    /// The isomorphism that maps the standard's x to the least root of its polynomial.
    pub(super) fn find() -> Self {
        let powers = |root: u8| {
            let mut powers = [1; 8];
            for index in 1..8 {
                powers[index] = multiply(powers[index - 1], root);
            }
            powers
        };
        let is_root = |root: &u8| {
            let powers = powers(*root);
            let eighth = multiply(powers[7], *root);
            eighth == combine(&powers, POLYNOMIAL)
        };
        let to_tower = (0..=u8::MAX).find(is_root).map(powers).expect("every field of 256 elements has one");
        let image = |byte: &u8, bit: u32| combine(&to_tower, *byte) == 1 << bit;
        let preimage = |bit| (0..=u8::MAX).find(|byte| image(byte, bit)).expect("it takes no two to one");
        Self { to_tower, from_tower: std::array::from_fn(|bit| preimage(bit as u32)) }
    }

    pub(super) fn enter(&self, byte: u8) -> u8 {
        combine(&self.to_tower, byte)
    }

    pub(super) fn leave(&self, byte: u8) -> u8 {
        combine(&self.from_tower, byte)
    }
}

/// The sum of the images whose bits are set.
fn combine(images: &[u8; 8], byte: u8) -> u8 {
    images.iter().enumerate().filter(|(bit, _)| byte >> bit & 1 == 1).fold(0, |sum, (_, image)| sum ^ image)
}

/// The linear part of a byte's substitution: the sum of each bit and the four bits above it, with
/// wrap-around.
pub(super) fn spread(byte: u8) -> u8 {
    (0..5).fold(0, |sum, by| sum ^ byte.rotate_left(by))
}

/// Constant that is added to every substituted byte.
pub(super) const SUBSTITUTION_CONSTANT: u8 = 0x63;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The substitution of a byte as the standard defines it, without a tower.
    pub(in crate::aes) fn substitute(byte: u8) -> u8 {
        let product = |left: u8, right: u8| {
            let multiples = std::iter::successors(Some(left), |multiple| Some(double(*multiple)));
            let bits = (0..8).map(|bit| right >> bit & 1 == 1);
            multiples.zip(bits).filter(|(_, is_set)| *is_set).fold(0, |sum, (multiple, _)| sum ^ multiple)
        };
        let inverse = (0..=u8::MAX).find(|other| product(byte, *other) == 1).unwrap_or(0);
        spread(inverse) ^ SUBSTITUTION_CONSTANT
    }

    #[test]
    fn substitutions_are_those_of_the_standard() {
        // FIPS 197, table 4.
        for (byte, expected) in [(0x00, 0x63), (0x01, 0x7c), (0x53, 0xed), (0x9a, 0xb8), (0xff, 0x16)] {
            assert_eq!(substitute(byte), expected, "{byte:#04x}");
        }
    }

    #[test]
    fn the_tower_is_a_field_isomorphic_to_the_standards() {
        let map = Isomorphism::find();
        for left in 0..=u8::MAX {
            assert_eq!(map.leave(map.enter(left)), left);
            assert_eq!(map.enter(double(left)), multiply(map.enter(2), map.enter(left)), "{left:#04x}");
            let inverses = (0..=u8::MAX).filter(|right| multiply(left, *right) == 1).count();
            assert_eq!(inverses, usize::from(left != 0), "{left:#04x}");
        }
        assert!((1..16).all(|nibble| multiply_nibbles(nibble, inverse_of_nibble(nibble)) == 1));
    }
}
