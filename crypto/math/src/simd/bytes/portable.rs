//! Scalar arithmetic in the structure of the AVX2 path: sums of pairs in 16 bits, which every
//! compiler vectorises.

use super::{COLUMNS, DIGIT_MAX, Factors, Line, ROWS, Sums, groups_in_16_bits};

/// Pairs of rows in a line.
const PAIRS: usize = COLUMNS * ROWS / 2;

/// Ciphertexts that are processed at once. Their sums of pairs take eight vectors of 128 bits, of
/// which most processors have 16.
const LANES: usize = 2;

pub(super) fn multiply<const PLANES: usize>(factors: Factors<'_, PLANES>, sums: &mut [Sums<PLANES>]) {
    sums.fill([[0; COLUMNS]; PLANES]);
    let groups = factors.key.len();
    for (sums, digits) in sums.chunks_mut(LANES).zip(factors.digits.chunks(LANES * groups)) {
        let factors = Factors { digits, ..factors };
        match sums {
            [one] => lanes(factors, [one]),
            [one, two] => lanes(factors, [one, two]),
            _ => unreachable!("chunks of {LANES}"),
        }
    }
}

fn lanes<const PLANES: usize, const LANES: usize>(factors: Factors<'_, PLANES>, mut sums: [&mut Sums<PLANES>; LANES]) {
    let Factors { key, digits, digit_max } = factors;
    let run = groups_in_16_bits(digit_max);
    let mut multipliers = [[Multipliers::default(); LANES]; DIGIT_MAX as usize];
    for (index, run_key) in key.chunks(run).enumerate() {
        for (group, multipliers) in multipliers[..run_key.len()].iter_mut().enumerate() {
            for (lane, multipliers) in multipliers.iter_mut().enumerate() {
                *multipliers = Multipliers::of(digits[lane * key.len() + index * run + group]);
            }
        }
        for plane in 0..PLANES {
            let totals = add_up(run_key.iter().map(|lines| &lines[plane]), &multipliers);
            for (sums, totals) in sums.iter_mut().zip(totals) {
                let (totals, _) = totals.as_chunks::<2>();
                for (sum, pairs) in sums[plane].iter_mut().zip(totals) {
                    *sum += i32::from(pairs[0] as i16) + i32::from(pairs[1] as i16);
                }
            }
        }
    }
}

/// Sums up pairs over a few lines.
#[inline(always)]
fn add_up<'a, const LANES: usize>(
    lines: impl Iterator<Item = &'a Line>,
    multipliers: &[[Multipliers; LANES]],
) -> [[u16; PAIRS]; LANES] {
    let mut totals = [[0u16; PAIRS]; LANES];
    for (line, multipliers) in lines.zip(multipliers) {
        let mut words = bytemuck::cast::<_, [u16; PAIRS]>(*line);
        for word in &mut words {
            *word = u16::from_le(*word);
        }
        for (totals, multipliers) in totals.iter_mut().zip(multipliers) {
            let of_word: [_; PAIRS] = std::array::from_fn(|pair| multipliers.of_word[pair % 2]);
            let of_upper: [_; PAIRS] = std::array::from_fn(|pair| multipliers.of_upper[pair % 2]);
            for pair in 0..PAIRS {
                let product = words[pair].wrapping_mul(of_word[pair]);
                let upper = (words[pair] >> 8).wrapping_mul(of_upper[pair]);
                totals[pair] = totals[pair].wrapping_add(product).wrapping_add(upper);
            }
        }
    }
    totals
}

/// Multipliers of a pair of bytes as one 16-bit word, and of its upper byte, for pairs of even and
/// of odd index. The second multiplier also cancels the contribution of the upper byte to the first
/// product.
#[derive(Clone, Copy, Default)]
struct Multipliers {
    of_word: [u16; 2],
    of_upper: [u16; 2],
}

impl Multipliers {
    #[inline(always)]
    fn of([first, second, third, fourth]: [i8; ROWS]) -> Self {
        let (first, second, third, fourth) = (first as u16, second as u16, third as u16, fourth as u16);
        let of_upper = [second.wrapping_sub(first << 8), fourth.wrapping_sub(third << 8)];
        Self { of_word: [first, third], of_upper }
    }
}
