//! Memory of polynomials that are gone, for those to come: to get pages from the system and have them cleared takes
//! longer than to compute on them.

use std::{
    collections::BTreeMap,
    mem,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cloakwork_math::aligned::Aligned;

/// Words that are kept, by their number. Who asks for fewer gets some of up to twice as many: polynomials get shorter as
/// they lose levels, and what is kept would not be used again otherwise.
#[derive(Default)]
pub(crate) struct Pool {
    kept: Mutex<Kept>,
}

/// Bytes of polynomials of a ring, and of what is worked out in between: as many as were asked for and not given back. On top comes
/// what is kept, up to a gibibyte, and, of what was kept before and is longer than was asked for, as much again at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Now.
    pub now: usize,
    /// At most, since this was last asked.
    pub most: usize,
}

/// Words of a pool, which go back to it.
pub(crate) struct Words {
    words: Aligned<u64>,
    /// Of which so many were asked for.
    asked: usize,
    /// And so many are used.
    len: usize,
    pool: Arc<Pool>,
}

#[derive(Default)]
struct Kept {
    by_len: BTreeMap<usize, Vec<Aligned<u64>>>,
    words: usize,
    /// Words that were asked for, and that somebody has.
    lent: usize,
    lent_most: usize,
}

/// More is given back to the system: a gibibyte.
const WORDS_MAX: usize = (1 << 30) / size_of::<u64>();

impl Pool {
    /// So many words, to be written before they are read: whatever is in them.
    pub(crate) fn take(self: &Arc<Self>, len: usize) -> Words {
        self.take_of(len, 2 * len)
    }

    /// The same, and no longer than that: for what stays.
    pub(crate) fn take_exactly(self: &Arc<Self>, len: usize) -> Words {
        self.take_of(len, len)
    }

    /// How much memory is in use.
    pub(crate) fn memory_use(&self) -> MemoryUse {
        let mut kept = self.kept();
        let now = kept.lent;
        let [now, most] = [now, mem::replace(&mut kept.lent_most, now)].map(|words| words * size_of::<u64>());
        MemoryUse { now, most }
    }

    /// So many words, of memory for no more than that.
    fn take_of(self: &Arc<Self>, len: usize, len_max: usize) -> Words {
        let found = self.kept().lend(len, len_max);
        let mut words = found.unwrap_or_else(|| Aligned::for_work(len));
        if cfg!(debug_assertions) {
            // What is read all the same stands out.
            words.fill(u64::MAX);
        }
        Words { words, asked: len, len, pool: Arc::clone(self) }
    }

    /// Each change of it leaves nothing half done, whoever panics.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Words that there are; if there are none, somebody gets so many new ones.
    fn lend(&mut self, len: usize, len_max: usize) -> Option<Aligned<u64>> {
        let found = self.by_len.range_mut(len..=len_max).find_map(|(_, words)| words.pop());
        self.words -= found.as_deref().map_or(0, <[u64]>::len);
        self.lent += len;
        self.lent_most = self.lent_most.max(self.lent);
        found
    }

    /// Keeps words for somebody else, if there are not too many.
    fn keep(&mut self, words: Aligned<u64>) {
        if self.words + words.len() <= WORDS_MAX {
            self.words += words.len();
            self.by_len.entry(words.len()).or_default().push(words);
        }
    }
}

impl Words {
    /// Others from the same pool.
    pub(crate) fn others(&self, len: usize) -> Self {
        self.pool.take(len)
    }

    /// The same in memory of just their number: for what stays.
    pub(crate) fn fitted(self) -> Self {
        if self.words.len() == self.len {
            return self;
        }
        let mut fitted = self.pool.take_exactly(self.len);
        fitted.copy_from_slice(&self);
        fitted
    }

    /// Only the first of them.
    pub(crate) fn cut(&mut self, len: usize) {
        self.len = len.min(self.len);
    }
}

impl Deref for Words {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.words[..self.len]
    }
}

impl DerefMut for Words {
    fn deref_mut(&mut self) -> &mut [u64] {
        &mut self.words[..self.len]
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        let words = mem::replace(&mut self.words, Aligned::new(0));
        let mut kept = self.pool.kept();
        kept.lent -= self.asked;
        kept.keep(words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_used_again_and_no_more_than_the_limit_are_kept() {
        let pool = Arc::new(Pool::default());
        let kept = || pool.kept().words;
        let words = pool.take(64);
        let place = words.as_ptr();
        drop(words);
        assert_eq!(kept(), 64);
        let (other, same) = (pool.take(128), pool.take(40));
        assert_eq!((other.len(), same.len(), same.as_ptr(), kept()), (128, 40, place, 0));
        drop([other, same]);
        assert_eq!(kept(), 192);
        assert_ne!(pool.take(31).as_ptr(), place, "more than twice as many");
        assert_ne!(pool.take_exactly(40).words.len(), 64, "not as many");
        assert_eq!(pool.take_exactly(64).as_ptr(), place);
        (0..3).for_each(|_| pool.kept().keep(Aligned::new(WORDS_MAX / 2 - 132)));
        assert!((WORDS_MAX - 100..=WORDS_MAX).contains(&kept()), "two of the three");
    }

    #[test]
    fn what_somebody_has_is_counted_and_what_stays_takes_no_more_than_it_holds() {
        let pool = Arc::new(Pool::default());
        let in_use = |now: usize, most: usize| MemoryUse { now: 8 * now, most: 8 * most };
        let (first, mut second) = (pool.take(100), pool.take(60));
        drop(first);
        assert_eq!(pool.memory_use(), in_use(60, 160));
        assert_eq!(pool.memory_use(), in_use(60, 60), "since it was last asked");
        second.fill(7);
        second.cut(10);
        let fitted = second.fitted();
        assert_eq!((fitted[..] == [7; 10], pool.memory_use()), (true, in_use(10, 70)));
        let place = fitted.as_ptr();
        assert_eq!(fitted.fitted().as_ptr(), place, "nothing is to be gained");
    }
}
