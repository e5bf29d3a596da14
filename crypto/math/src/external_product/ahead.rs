//! Bringing the key closer while there is other work: a few cache lines between one step of it and the next. Many at
//! once would wait for each other, and all else for them.

use crate::{cache::LINE, simd::prefetch};

/// Doubles of a cache line.
const DOUBLES: usize = LINE / size_of::<f64>();
/// A cache line of a key.
type Line = [f64; DOUBLES];

/// Doubles of the longest key that is fetched during the products with the one before it: a quarter of a common
/// second-level cache.
const SHORT: usize = 32 << 10;
/// How many doubles ahead of its use a longer one is fetched, at least: what comes with the steps of other passes than the
/// last comes sooner.
const LEAD: usize = 4096;
/// Doubles of the longest key that is fetched with all steps. Between the groups that use it a longer one would come too
/// soon, and be gone again when it is needed.
const MEDIUM: usize = 4 * SHORT;
/// Lines that may come with one step and hold nothing up. More are spread over more steps.
const FEW: usize = 4;

/// Steps of a product, between which lines can be fetched.
pub(super) struct Steps {
    /// Groups of the last pass and of its inverse.
    pub(super) groups: usize,
    /// Transforms of the passes in the middle.
    pub(super) middle: usize,
    /// Transforms of the inverse of the first pass.
    pub(super) end: usize,
}

/// Asked before every step of a pass.
pub(super) trait Fetch {
    fn fetch(&mut self);
}

/// Fetches nothing, and leaves no trace in a pass.
pub(super) struct Nothing;

impl Fetch for Nothing {
    #[inline(always)]
    fn fetch(&mut self) {}
}

/// Lines to fetch, the next ones with each step.
#[derive(Clone, Copy, Default)]
pub(super) struct Ahead<'a> {
    lines: &'a [Line],
    with_each: usize,
    /// With the transforms of other passes as well, not only with the groups of the last one.
    often: bool,
}

impl<'a> Ahead<'a> {
    /// For one of the products with `key`, whose share of the key after it is `share`.
    ///
    /// A short key comes during the products before it, a share with each. A long one would drive everything else out:
    /// each product fetches its own, just ahead of its use.
    pub(super) fn new(key: &'a [f64], share: &'a [f64], steps: &Steps) -> Self {
        if key.len() > SHORT {
            let often = key.len() <= MEDIUM;
            let steps = if often { steps.groups + steps.middle } else { steps.groups };
            return Self { lines: lines(&key[LEAD..]), with_each: lines(key).len().div_ceil(steps), often };
        }
        let lines = lines(share);
        let often = lines.len() > FEW * steps.groups;
        let steps = if often { steps.groups + steps.middle + steps.end } else { steps.groups };
        Self { lines, with_each: lines.len().div_ceil(steps), often }
    }

    /// What comes with the next `steps`; the rest stays here.
    pub(super) fn cut(&mut self, steps: usize) -> Self {
        let (now, later) = self.lines.split_at((steps * self.with_each).min(self.lines.len()));
        self.lines = later;
        Self { lines: now, ..*self }
    }

    /// Is there something for passes other than the last?
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

/// Whole lines of the `next` key for each of `products`.
pub(super) fn shares(next: &[f64], products: usize) -> impl Iterator<Item = &[f64]> {
    next.chunks(next.len().div_ceil(products.max(1)).next_multiple_of(DOUBLES).max(DOUBLES))
}

fn lines(key: &[f64]) -> &[Line] {
    key.as_chunks().0
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: Steps = Steps { groups: 16, middle: 32, end: 8 };

    /// Lines that are left when a product has made all its steps.
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
    fn a_product_fetches_all_of_its_share() {
        let key = vec![0.0; SHORT];
        for share in [0, 1, 15, 16, 17, 64, 65, 1000, SHORT / 8] {
            assert_eq!(left(Ahead::new(&key, &key[..8 * share], &STEPS)), 0, "{share} lines");
        }
    }

    #[test]
    fn a_key_on_its_way_is_fetched_to_its_end_before_the_conversion_to_words() {
        for len in [SHORT + 8, MEDIUM, MEDIUM + 8] {
            let key = vec![0.0; len];
            let mut ahead = Ahead::new(&key, &key, &STEPS);
            assert_eq!(ahead.cut(STEPS.groups + STEPS.middle).lines.len(), (len - LEAD) / 8);
            assert!(!ahead.is_often());
            assert_eq!(left(Ahead::new(&key, &key, &STEPS)), 0);
        }
    }
}
