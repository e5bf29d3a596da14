//! The queued jobs of one key.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::Rank;

/// A priority queue of ranks that also supports removal. The ranks lie in one contiguous array, so
/// an insertion or a removal touches little memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    ranks: BinaryHeap<Reverse<Rank>>,
    /// Ranks that were removed out of order and are still in the heap. The set never includes the
    /// first rank, and never outnumbers the live ranks.
    gone: BTreeSet<Rank>,
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.ranks.len() - self.gone.len()
    }

    /// The live ranks, in arbitrary order.
    pub(super) fn ranks(&self) -> impl Iterator<Item = Rank> {
        self.ranks.iter().map(|Reverse(rank)| *rank).filter(|rank| !self.gone.contains(rank))
    }

    pub(super) fn first(&self) -> Option<Rank> {
        self.ranks.peek().map(|Reverse(rank)| *rank)
    }

    pub(super) fn insert(&mut self, rank: Rank) {
        // A rank that was removed and comes back is still in the heap.
        if !self.gone.remove(&rank) {
            self.ranks.push(Reverse(rank));
        }
    }

    /// Removes a rank that is in the line.
    pub(super) fn remove(&mut self, rank: Rank) {
        debug_assert!(self.contains(&rank), "{rank:?} is not in its line");
        if self.first() == Some(rank) {
            self.ranks.pop();
            while let Some(next) = self.first()
                && self.gone.remove(&next)
            {
                self.ranks.pop();
            }
        } else {
            self.gone.insert(rank);
        }
        if self.gone.len() > self.len() {
            self.ranks.retain(|Reverse(rank)| !self.gone.contains(rank));
            self.gone.clear();
        }
    }

    /// Whether the line has a rank. Takes time linear in the length: for checks and tests only.
    pub(super) fn contains(&self, rank: &Rank) -> bool {
        !self.gone.contains(rank) && self.ranks.iter().any(|Reverse(other)| other == rank)
    }

    /// Panics where the line keeps a rank that it should have dropped.
    pub(super) fn check(&self) {
        let ranks: BTreeSet<Rank> = self.ranks.iter().map(|Reverse(rank)| *rank).collect();
        assert_eq!(ranks.len(), self.ranks.len(), "each rank is in the line once");
        assert!(self.gone.is_subset(&ranks), "removed ranks are in the heap");
        assert!(self.first().is_some_and(|first| !self.gone.contains(&first)), "the first rank is not removed");
        assert!(self.gone.len() <= self.len(), "removed ranks outnumber the live ranks");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seat::Seat;
    use crate::sim::random::Random;

    #[test]
    fn a_line_is_an_ordered_set() {
        let mut random = Random(7);
        let (mut line, mut set) = (Line::default(), BTreeSet::new());
        for step in 0..20_000u64 {
            // Some ranks are new, and some may have been in the line before.
            let age = if random.range(0, 1) == 0 { step } else { random.range(0, 9) };
            let rank = Rank::new(random.range(0, 2) as i8, random.range(0, 50), age, Seat::at(0));
            // The line grows for 500 steps, then shrinks for 500.
            let out_of = if step / 500 % 2 == 0 { 3 } else { 1 };
            let leaves = match random.range(0, 3) {
                choice if choice >= out_of => None,
                0 => set.first().copied(),
                _ => random.pick(&set.iter().copied().collect::<Vec<_>>()),
            };
            match leaves {
                Some(rank) => {
                    line.remove(rank);
                    set.remove(&rank);
                }
                None => {
                    if set.insert(rank) {
                        line.insert(rank);
                    }
                }
            }
            assert_eq!((line.first(), line.len()), (set.first().copied(), set.len()));
            if !set.is_empty() {
                line.check();
            }
        }
    }
}
