//! Tests of every path against the plain sum, up to the bounds that keep the sums in their width.

use super::*;

fn plain<const PLANES: usize>(key: &[[Line; PLANES]], digits: &[[i8; ROWS]]) -> Sums<PLANES> {
    let mut sums = [[0i64; COLUMNS]; PLANES];
    for (lines, digits) in key.iter().zip(digits) {
        for (sums, line) in sums.iter_mut().zip(lines) {
            for (sum, bytes) in sums.iter_mut().zip(line.as_chunks::<ROWS>().0) {
                *sum += bytes.iter().zip(digits).map(|(byte, digit)| i64::from(*byte) * i64::from(*digit)).sum::<i64>();
            }
        }
    }
    sums.map(|sums| sums.map(|sum| i32::try_from(sum).expect("a sum of 32 bits")))
}

/// Checks one shape. `digit(n)` is digit n of all digits, counted by ciphertext, group, row.
fn check<const PLANES: usize>(
    groups: usize,
    count: usize,
    digit_max: i32,
    byte: impl Fn(usize) -> u8,
    digit: impl Fn(usize) -> i32,
) {
    let line = |at: usize| -> Line { std::array::from_fn(|index| byte(at * 64 + index)) };
    let key: Vec<[Line; PLANES]> =
        (0..groups).map(|group| std::array::from_fn(|plane| line(group * PLANES + plane))).collect();
    let digits: Vec<[i8; ROWS]> = (0..groups * count)
        .map(|group| std::array::from_fn(|row| i8::try_from(digit(group * ROWS + row)).expect("a small digit")))
        .collect();
    let expected: Vec<_> = digits.chunks(groups).map(|digits| plain(&key, digits)).collect();
    for level in Level::available() {
        // Previous contents of the sums must have no effect.
        let mut sums = vec![[[-1; COLUMNS]; PLANES]; count];
        multiply(level, Factors { key: &key, digits: &digits, digit_max }, &mut sums);
        assert!(sums == expected, "{groups} groups, {count} ciphertexts, digits to {digit_max} on {}", level.name());
    }
}

#[test]
fn every_path_gives_the_plain_sums() {
    let mixed = |at: usize| (at.wrapping_mul(0x9e37_79b9) >> 13) as u8;
    for digit_max in [1, 2, 4, 8, 16, 32, 64] {
        for count in 1..=14 {
            let digit =
                |at: usize| (at.wrapping_mul(0x85eb_ca6b) >> 11) as i32 % (digit_max + 1) * (1 - 2 * (at as i32 & 1));
            check::<3>(count * 7, count, digit_max, mixed, digit);
            check::<4>(count * 9 + 1, count, digit_max, mixed, digit);
        }
    }
}

#[test]
fn the_greatest_sums_do_not_overflow() {
    for digit_max in [1, 2, 4, 8, 16, 32, 64] {
        for sign in [-1, 1] {
            check::<4>(517, 7, digit_max, |_| 0xff, |_| sign * digit_max);
            // One row of a pair is positive, the other negative; then whole groups are positive,
            // the next groups negative.
            check::<3>(517, 3, digit_max, |_| 0xff, |at| if at % 2 == 0 { digit_max } else { -digit_max });
            check::<3>(
                517,
                3,
                digit_max,
                |_| 0xff,
                |at| if (at / ROWS).is_multiple_of(2) { sign * digit_max } else { -digit_max },
            );
        }
    }
    // One more group could overflow 32 bits.
    check::<3>(GROUPS_MAX, 1, DIGIT_MAX, |_| 0xff, |_| DIGIT_MAX);
    check::<3>(GROUPS_MAX, 1, DIGIT_MAX, |_| 0xff, |_| -DIGIT_MAX);
}

#[test]
#[should_panic(expected = "the sums fit 32 bits")]
fn too_many_groups_panic() {
    check::<3>(GROUPS_MAX + 1, 1, DIGIT_MAX, |_| 0, |_| 0);
}
