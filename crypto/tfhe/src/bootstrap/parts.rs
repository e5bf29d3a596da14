//! Cuts a batch into parts. A thread that finishes a part takes the next one.

use std::ops::Range;

use cloakwork_math::key_product;

/// Maximum number of ciphertexts in a part, which share one pass over the key-switch key. The
/// number is even, so that no pair is split.
pub const PART_MAX: usize = key_product::TILE;
const _: () = assert!(PART_MAX.is_multiple_of(2));
/// Minimum number of ciphertexts in a part that is cut. Smaller parts would share each read of the
/// keys between too few ciphertexts.
const PART_MIN: usize = 8;

/// Cuts a batch of `count` ciphertexts for `threads` threads, in whole groups of `group`.
///
/// In each round, every thread gets a part: half of its share of the remainder, or in the last
/// round all of it. Equally fast threads therefore finish as with equal shares, and a slow thread
/// leaves parts to the others. Parts are whole tiles of `tile` ciphertexts while the shares are
/// long enough.
pub fn parts(count: usize, threads: usize, tile: usize, group: usize) -> impl Iterator<Item = Range<usize>> + Clone {
    let threads = threads.max(1);
    let (mut first, mut len, mut left_in_round) = (0, 0, 0);
    std::iter::from_fn(move || {
        if left_in_round == 0 {
            len = part_len(count - first, threads, tile).next_multiple_of(group);
            left_in_round = threads;
        }
        left_in_round -= 1;
        let part = first..(first + len).min(count);
        first = part.end;
        (!part.is_empty()).then_some(part)
    })
}

fn part_len(left: usize, threads: usize, tile: usize) -> usize {
    let share = left.div_ceil(threads);
    let len = if threads == 1 {
        share
    } else if share >= 2 * tile {
        share / 2 / tile * tile
    } else if share >= 2 * PART_MIN {
        share.div_ceil(2)
    } else {
        share
    };
    len.min(PART_MAX / tile * tile)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lens(count: usize, threads: usize, tile: usize) -> Vec<usize> {
        parts(count, threads, tile, 1).map(|part| part.len()).collect()
    }

    #[test]
    fn parts_shrink_towards_the_end_except_on_one_thread() {
        assert_eq!(lens(128, 2, 16), [32, 32, 16, 16, 8, 8, 8, 8]);
        assert_eq!(lens(128, 1, 16), [64, 64]);
        assert_eq!(lens(20, 1, 16), [20]);
        assert_eq!(lens(1000, 2, 16)[..6], [64, 64, 64, 64, 64, 64]);
        assert_eq!(lens(32, 2, 4), [8, 8, 4, 4, 4, 4]);
    }

    #[test]
    fn few_ciphertexts_are_spread_over_all_threads() {
        assert_eq!(lens(2, 2, 16), [1, 1]);
        assert_eq!(lens(10, 2, 16), [5, 5]);
        assert_eq!(lens(3, 4, 16), [1, 1, 1]);
        assert_eq!(lens(0, 2, 16), [0; 0]);
    }

    #[test]
    fn parts_cover_every_batch_and_balance_like_equal_shares() {
        for count in (0..260).chain([1000, 4098]) {
            for (threads, tile, group) in
                [(1, 16, 1), (2, 16, 1), (2, 16, 2), (3, 4, 2), (16, 1, 1), (64, 15, 2), (5, 5, 1), (0, 8, 1)]
            {
                let (mut next, mut busy) = (0, vec![0; threads.max(1)]);
                for part in parts(count * group, threads, tile, group) {
                    assert_eq!(part.start, next);
                    assert!((1..=PART_MAX).contains(&part.len()) && part.len().is_multiple_of(group));
                    *busy.iter_mut().min().expect("a thread") += part.len();
                    next = part.end;
                }
                assert_eq!(next, count * group);
                let longest = busy.iter().max().expect("a thread");
                assert!(*longest <= count.div_ceil(threads.max(1)) * group + group, "{count} on {threads}: {busy:?}");
            }
        }
    }
}
