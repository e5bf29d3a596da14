//! How a batch is cut for threads that take the next part when they are done with one.

use std::ops::Range;

/// Most ciphertexts of a part: they share one pass over the key-switch key.
pub const PART_MAX: usize = 64;
/// Ciphertexts below which it does not pay to cut: fewer take longer each, since they share less of what is read of keys.
const PART_LEAST: usize = 8;

/// Cuts a batch of `count` for `threads` threads: half of what each would get of the rest, time and again, so that they
/// end together though one of them is slower. Parts are whole tiles of `tile` ciphertexts while there are enough left, and
/// whole groups of `group` always.
pub fn parts(count: usize, threads: usize, tile: usize, group: usize) -> impl Iterator<Item = Range<usize>> {
    let threads = threads.max(1);
    let least = PART_LEAST.min(tile).min(count.div_ceil(threads));
    let mut first = 0;
    std::iter::from_fn(move || {
        let left = count - first;
        let share = if threads == 1 { left } else { left.div_ceil(2 * threads) };
        let tiles = share / tile * tile;
        let part = if tiles > 0 { tiles } else { share.max(least) };
        let part = part.next_multiple_of(group).min(PART_MAX / group * group).min(left);
        first += part;
        (part > 0).then(|| first - part..first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lens(count: usize, threads: usize, tile: usize) -> Vec<usize> {
        parts(count, threads, tile, 1).map(|part| part.len()).collect()
    }

    #[test]
    fn parts_get_smaller_and_a_thread_alone_has_no_need_of_it() {
        assert_eq!(lens(128, 2, 16), [32, 16, 16, 16, 12, 9, 8, 8, 8, 3]);
        assert_eq!(lens(128, 1, 16), [64, 64]);
        assert_eq!(lens(1000, 2, 16)[..4], [64, 64, 64, 64]);
        assert_eq!(lens(32, 2, 4), [8, 4, 4, 4, 4, 4, 4]);
    }

    #[test]
    fn few_ciphertexts_are_spread_over_all_threads() {
        assert_eq!(lens(2, 2, 16), [1, 1]);
        assert_eq!(lens(10, 2, 16), [5, 5]);
        assert_eq!(lens(3, 4, 16), [1, 1, 1]);
        assert_eq!(lens(0, 2, 16), [0; 0]);
    }

    #[test]
    fn every_batch_is_cut_whole() {
        for count in (0..260).chain([1000, 4098]) {
            for (threads, tile, group) in
                [(1, 16, 1), (2, 16, 1), (2, 16, 2), (3, 4, 2), (16, 1, 1), (64, 15, 2), (0, 8, 1)]
            {
                let mut next = 0;
                for part in parts(count * group, threads, tile, group) {
                    assert_eq!(part.start, next);
                    assert!((1..=PART_MAX).contains(&part.len()) && part.len().is_multiple_of(group));
                    next = part.end;
                }
                assert_eq!(next, count * group);
            }
        }
    }
}
