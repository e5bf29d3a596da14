//! Prefetching of key data during other work: a few cache lines between two steps. Many prefetches
//! at once would wait for each other and delay all other loads.

use crate::{cache::LINE, simd::prefetch};

/// Doubles of a cache line.
const LINE_DOUBLES: usize = LINE / size_of::<f64>();
/// A cache line of a key.
type Line = [f64; LINE_DOUBLES];

/// Doubles of the longest key that is prefetched during the products with the key before it: a
/// quarter of a common second-level cache.
const SHORT_KEY_DOUBLES: usize = 32 << 10;
/// Minimum distance in doubles between the prefetch of a longer key and its use. Lines that are
/// prefetched in passes other than the last arrive earlier.
const LEAD_DOUBLES: usize = 4096;
/// Doubles of the longest key that is prefetched in the middle passes as well. Between the groups
/// that use it, a longer key would arrive too early and be evicted before its use.
const MEDIUM_KEY_DOUBLES: usize = 4 * SHORT_KEY_DOUBLES;
/// Cache lines that one step can prefetch without delay. A larger share is spread over more steps.
const LINES_PER_STEP_MAX: usize = 4;

/// Steps of a product, between which lines can be prefetched.
pub(super) struct Steps {
    /// Groups of the last pass and of its inverse.
    pub(super) groups: usize,
    /// Transforms of the middle passes.
    pub(super) middle: usize,
    /// Transforms of the inverse of the first pass.
    pub(super) end: usize,
}

/// Called before every step of a pass.
pub(super) trait Fetch {
    fn fetch(&mut self);
}

/// Prefetches nothing and adds no code to a pass.
pub(super) struct Nothing;

impl Fetch for Nothing {
    #[inline(always)]
    fn fetch(&mut self) {}
}

/// Lines to prefetch, some of them with each step.
#[derive(Clone, Copy, Default)]
pub(super) struct Ahead<'a> {
    lines: &'a [Line],
    with_each: usize,
    /// Whether the transforms of other passes prefetch as well, in addition to the groups of the
    /// last pass.
    often: bool,
}

impl<'a> Ahead<'a> {
    /// Plans the prefetches of one of the products with `key`. `share` is the product's share of
    /// the next key.
    ///
    /// A short key is prefetched during the products with the key before it, a share in each
    /// product. A long key would evict all other data: each product prefetches its own key, shortly
    /// before its use.
    pub(super) fn new(key: &'a [f64], share: &'a [f64], steps: &Steps) -> Self {
        if key.len() > SHORT_KEY_DOUBLES {
            let often = key.len() <= MEDIUM_KEY_DOUBLES;
            let steps = if often { steps.groups + steps.middle } else { steps.groups };
            return Self { lines: lines(&key[LEAD_DOUBLES..]), with_each: lines(key).len().div_ceil(steps), often };
        }
        let lines = lines(share);
        let often = lines.len() > LINES_PER_STEP_MAX * steps.groups;
        let steps = if often { steps.groups + steps.middle + steps.end } else { steps.groups };
        Self { lines, with_each: lines.len().div_ceil(steps), often }
    }

    /// Splits off the lines of the next `steps`. The other lines stay here.
    pub(super) fn cut(&mut self, steps: usize) -> Self {
        let (now, later) = self.lines.split_at((steps * self.with_each).min(self.lines.len()));
        self.lines = later;
        Self { lines: now, ..*self }
    }

    /// Whether passes other than the last have lines to prefetch.
    #[inline(always)]
    pub(super) fn is_often(&self) -> bool {
        self.often && !self.lines.is_empty()
    }
}

impl Fetch for Ahead<'_> {
    #[inline(always)]
    fn fetch(&mut self) {
        let (now, later) = self.lines.split_at(self.with_each.min(self.lines.len()));
        for line in now {
            prefetch(line);
        }
        self.lines = later;
    }
}

/// Shares of the `next` key in whole lines, one for each of `products`.
pub(super) fn shares(next: &[f64], products: usize) -> impl Iterator<Item = &[f64]> {
    next.chunks(next.len().div_ceil(products.max(1)).next_multiple_of(LINE_DOUBLES).max(LINE_DOUBLES))
}

fn lines(key: &[f64]) -> &[Line] {
    key.as_chunks().0
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: Steps = Steps { groups: 16, middle: 32, end: 8 };

    /// Lines that are left after all steps of a product.
    fn left(mut ahead: Ahead<'_>) -> usize {
        let mut passes = ahead.cut(STEPS.groups + STEPS.middle);
        for _ in 0..if passes.is_often() { STEPS.groups + STEPS.middle } else { STEPS.groups } {
            passes.fetch();
        }
        if ahead.is_often() {
            for _ in 0..STEPS.end {
                ahead.fetch();
            }
        }
        passes.lines.len() + ahead.lines.len()
    }

    #[test]
    fn a_product_prefetches_all_of_its_share() {
        let key = vec![0.0; SHORT_KEY_DOUBLES];
        for share in [0, 1, 15, 16, 17, 64, 65, 1000, SHORT_KEY_DOUBLES / 8] {
            assert_eq!(left(Ahead::new(&key, &key[..8 * share], &STEPS)), 0, "{share} lines");
        }
    }

    #[test]
    fn a_long_key_is_prefetched_to_its_end_before_the_conversion_to_words() {
        for len in [SHORT_KEY_DOUBLES + 8, MEDIUM_KEY_DOUBLES, MEDIUM_KEY_DOUBLES + 8] {
            let key = vec![0.0; len];
            let mut ahead = Ahead::new(&key, &key, &STEPS);
            assert_eq!(ahead.cut(STEPS.groups + STEPS.middle).lines.len(), (len - LEAD_DOUBLES) / 8);
            assert!(!ahead.is_often());
            assert_eq!(left(Ahead::new(&key, &key, &STEPS)), 0);
        }
    }
}
