//! AES-128 (FIPS 197) on encrypted bits, to convert ciphertexts of the symmetric cipher into FHE
//! ciphertexts.
//!
//! All bits are [parities](Parity), so key additions, column mixing and changes of basis cost
//! nothing. The inverse in each byte's substitution remains: 40 bootstraps, five deep.

mod field;

use self::field::Isomorphism;
use crate::{
    draft::{Cell, Draft, Parity},
    integer::{BASE, DIGIT_BITS, Digits},
};

/// A byte, least significant bit first.
type Byte = [Parity; 8];
/// A nibble in the tower field, least significant bit first.
type Nibble = [Parity; 4];
/// A pair of bits in the tower field.
type Pair = [Parity; 2];

const ROUNDS: usize = 10;
const BYTES: usize = 16;
/// Bytes of a column of the state, and of a word of the key.
const COLUMN: usize = 4;

/// Encrypts a block under a key with AES-128. Both are clean numbers of 128 bits, whose most
/// significant byte is the first byte of the standard.
pub(crate) fn encrypt(draft: &mut Draft, key: &[Cell], block: &[Cell]) -> Digits {
    let substitution = Substitution::new();
    let key = bytes(draft, key);
    let keys = expand(draft, &substitution, key);
    let mut state = add(&bytes(draft, block), &keys[0]);
    for (round, key) in keys.iter().enumerate().skip(1) {
        let substituted: Vec<Byte> = state.iter().map(|byte| substitution.of(draft, byte)).collect();
        let shifted: Vec<Byte> = (0..BYTES).map(|place| substituted[shifted_from(place)].clone()).collect();
        let mixed = if round < ROUNDS { shifted.chunks(COLUMN).flat_map(mix).collect() } else { shifted };
        state = add(&mixed, key);
    }
    digits(draft, &state)
}

/// The key schedule: the keys of all rounds.
fn expand(draft: &mut Draft, substitution: &Substitution, key: Vec<Byte>) -> Vec<Vec<Byte>> {
    let mut keys = vec![key];
    let mut constant = 1;
    for round in 0..ROUNDS {
        let before = &keys[round];
        let mut word: Vec<Byte> = before[BYTES - COLUMN..].to_vec();
        word.rotate_left(1);
        word = word.iter().map(|byte| substitution.of(draft, byte)).collect();
        word[0] = flip(draft, &word[0], constant);
        constant = field::double(constant);
        let mut next = Vec::with_capacity(BYTES);
        for column in before.chunks(COLUMN) {
            word = add(column, &word);
            next.extend(word.iter().cloned());
        }
        keys.push(next);
    }
    keys
}

/// Source of a byte when row r of the state is rotated by r.
fn shifted_from(place: usize) -> usize {
    (place + COLUMN * (place % COLUMN)) % BYTES
}

/// MixColumns: a column times 2, 3, 1, 1 in all four rotations.
fn mix(column: &[Byte]) -> Vec<Byte> {
    let byte = |row: usize| {
        let at = |further: usize| &column[(row + further) % COLUMN];
        let twice = linear(&sum(at(0), at(1)), field::double);
        sum(&twice, &sum(at(1), &sum(at(2), at(3))))
    };
    (0..COLUMN).map(byte).collect()
}

/// The substitution of a byte (SubBytes).
struct Substitution {
    map: Isomorphism,
    /// The inverse of each nibble. A search at each use would take a tenth of the time of lowering.
    inverses: [u8; 16],
}

impl Substitution {
    fn new() -> Self {
        let inverses = std::array::from_fn(|nibble| field::inverse_of_nibble(nibble as u8));
        Self { map: Isomorphism::find(), inverses }
    }

    /// Substitutes a byte.
    ///
    /// The inverse of a t + b is a/n t + (a + b)/n, for n = mu a^2 + a (a + b) + (a + b)^2.
    fn of(&self, draft: &mut Draft, byte: &Byte) -> Byte {
        let byte = linear(byte, |byte| self.map.enter(byte));
        let [low, high] = halves(&byte);
        let both = sum(&low, &high);
        let (left, right) = (parts(&high), parts(&both));
        let [left_low, right_high] = [(&left, 1), (&right, BASE)].map(|(parts, unit)| cells(draft, parts, unit));
        let squares = sum(&linear(&high, field::mu_times_square), &linear(&both, field::square));
        let norm = sum(&squares, &multiply(draft, &left_low, &right_high));
        let norm = norm.iter().enumerate().map(|(place, bit)| draft.of_parity(bit, 0, 1 << place)).collect::<Vec<_>>();
        let norm = Cell::sum(&norm);
        let [inverse_low, inverse_high] = [1, BASE].map(|unit| self.inverse_parts(draft, &norm, unit));
        let high = multiply(draft, &left_low, &inverse_high);
        let low = multiply(draft, &inverse_low, &right_high);
        let inverse = std::array::from_fn(|bit| if bit < 4 { low[bit].clone() } else { high[bit - 4].clone() });
        let substituted = linear(&inverse, |byte| field::spread(self.map.leave(byte)));
        flip(draft, &substituted, field::SUBSTITUTION_CONSTANT)
    }

    /// The parts of a nibble's inverse, each multiplied by `unit`.
    fn inverse_parts(&self, draft: &mut Draft, nibble: &Cell, unit: i64) -> [Cell; 3] {
        let part = |index: usize| {
            move |nibble: i64| {
                let inverse = self.inverses[nibble as usize];
                let (low, high) = (inverse % 4, inverse / 4);
                unit * i64::from([low, high, low ^ high][index])
            }
        };
        std::array::from_fn(|index| draft.lookup(nibble, part(index)))
    }
}

/// The low pair and the high pair of a nibble, and their sum. The product of two nibbles takes
/// three products of these pairs.
fn parts(nibble: &Nibble) -> [Pair; 3] {
    let [low, high] = halves(nibble);
    let both = sum(&low, &high);
    [low, high, both]
}

/// Each pair as a cell with the pair's value times `unit`.
fn cells(draft: &mut Draft, parts: &[Pair; 3], unit: i64) -> [Cell; 3] {
    parts.each_ref().map(|[low, high]| draft.of_parity(low, 0, unit).plus(&draft.of_parity(high, 0, 2 * unit)))
}

/// The product of two nibbles, given in parts: the left parts times 1, the right parts times 4.
fn multiply(draft: &mut Draft, left: &[Cell; 3], right: &[Cell; 3]) -> Nibble {
    let mut product = |index: usize| -> Pair {
        let factors = left[index].plus(&right[index]);
        let bit = |bit: i64| {
            move |factors: i64| field::multiply_pairs((factors % BASE) as u8, (factors / BASE) as u8) >> bit & 1 == 1
        };
        [draft.parity(&factors, bit(0)), draft.parity(&factors, bit(1))]
    };
    let [low, high, both] = [product(0), product(1), product(2)];
    let [[low, above], [high, top]] = [sum(&low, &linear(&high, field::times_nu)), sum(&low, &both)];
    [low, above, high, top]
}

/// Applies a linear map over bits.
fn linear<const BITS: usize>(bits: &[Parity; BITS], map: impl Fn(u8) -> u8) -> [Parity; BITS] {
    std::array::from_fn(|result| {
        let adds = |(place, _): &(usize, &Parity)| map(1 << place) >> result & 1 == 1;
        bits.iter().enumerate().filter(adds).fold(Parity::default(), |sum, (_, bit)| sum.xor(bit))
    })
}

fn sum<const BITS: usize>(left: &[Parity; BITS], right: &[Parity; BITS]) -> [Parity; BITS] {
    std::array::from_fn(|bit| left[bit].xor(&right[bit]))
}

fn add(left: &[Byte], right: &[Byte]) -> Vec<Byte> {
    left.iter().zip(right).map(|(left, right)| sum(left, right)).collect()
}

/// Adds a constant to a byte.
fn flip(draft: &Draft, byte: &Byte, constant: u8) -> Byte {
    std::array::from_fn(|bit| byte[bit].clone().flipped(draft, constant >> bit & 1 == 1))
}

/// The lower and the upper half.
fn halves<const BITS: usize, const HALF: usize>(bits: &[Parity; BITS]) -> [[Parity; HALF]; 2] {
    [0, HALF].map(|first| std::array::from_fn(|bit| bits[first + bit].clone()))
}

/// Converts the clean digits of a number to bytes, most significant byte first.
fn bytes(draft: &mut Draft, number: &[Cell]) -> Vec<Byte> {
    let byte = |digits: &[Cell]| -> Byte {
        std::array::from_fn(|bit| draft.parity(&digits[bit / DIGIT_BITS], |digit| digit >> (bit % DIGIT_BITS) & 1 == 1))
    };
    number.rchunks(8 / DIGIT_BITS).map(byte).collect()
}

/// Converts bytes back to the digits of a number.
fn digits(draft: &mut Draft, bytes: &[Byte]) -> Digits {
    let bits = bytes.iter().rev().flat_map(|byte| byte.as_chunks::<DIGIT_BITS>().0);
    bits.map(|[low, high]| draft.of_parity(low, 0, 1).plus(&draft.of_parity(high, 0, 2))).collect()
}

#[cfg(test)]
mod tests;
