//! Reuse of the memory of dropped polynomials. Getting pages from the system and clearing them
//! takes longer than the computation on them.

use std::{
    collections::BTreeMap,
    mem,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cloakwork_math::aligned::Aligned;

/// Free buffers by length. A request may receive a buffer of up to twice its length, since
/// polynomials get shorter as they lose levels. Free buffers would not be reused otherwise.
#[derive(Default)]
pub(crate) struct Pool {
    kept: Mutex<Kept>,
}

/// Memory use of a ring's polynomials and intermediate results in bytes: requested and not yet
/// returned.
///
/// The process holds more than this. The pool keeps up to a gibibyte of free buffers, and reused
/// buffers that are longer than requested take at most as much again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Current use.
    pub now: usize,
    /// Maximum use since the last query.
    pub most: usize,
}

/// Words of a pool, which return to it on drop.
pub(crate) struct Words {
    words: Aligned<u64>,
    /// Number of words requested.
    asked: usize,
    /// Number of words in use.
    len: usize,
    pool: Arc<Pool>,
}

#[derive(Default)]
struct Kept {
    by_len: BTreeMap<usize, Vec<Aligned<u64>>>,
    words: usize,
    /// Number of words requested and not yet returned.
    lent: usize,
    lent_most: usize,
}

/// Maximum number of words in free buffers, a gibibyte. Further buffers are returned to the system.
const FREE_WORDS_MAX: usize = (1 << 30) / size_of::<u64>();

impl Pool {
    /// Lends `len` words with any content, which must be written before they are read.
    pub(crate) fn take(self: &Arc<Self>, len: usize) -> Words {
        self.take_of(len, 2 * len)
    }

    /// As [`Self::take`], in a buffer of exactly this length, for long-lived data.
    pub(crate) fn take_exactly(self: &Arc<Self>, len: usize) -> Words {
        self.take_of(len, len)
    }

    /// Memory in use.
    pub(crate) fn memory_use(&self) -> MemoryUse {
        let mut kept = self.kept();
        let now = kept.lent;
        let [now, most] = [now, mem::replace(&mut kept.lent_most, now)].map(|words| words * size_of::<u64>());
        MemoryUse { now, most }
    }

    /// Lends `len` words in a buffer of at most `len_max` words.
    fn take_of(self: &Arc<Self>, len: usize, len_max: usize) -> Words {
        let found = self.kept().lend(len, len_max);
        let mut words = found.unwrap_or_else(|| Aligned::for_work(len));
        if cfg!(debug_assertions) {
            // A distinct value exposes reads before the first write.
            words.fill(u64::MAX);
        }
        Words { words, asked: len, len, pool: Arc::clone(self) }
    }

    /// No code that runs under this lock leaves the state half changed, so a poisoned lock is safe
    /// to use.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Lends a free buffer of a suitable length. Returns `None` if no free buffer has one, and the
    /// caller then allocates `len` words.
    fn lend(&mut self, len: usize, len_max: usize) -> Option<Aligned<u64>> {
        let found = self.by_len.range_mut(len..=len_max).find_map(|(_, words)| words.pop());
        self.words -= found.as_deref().map_or(0, <[u64]>::len);
        self.lent += len;
        self.lent_most = self.lent_most.max(self.lent);
        found
    }

    /// Keeps a buffer for reuse, unless the pool is full.
    fn keep(&mut self, words: Aligned<u64>) {
        if self.words + words.len() <= FREE_WORDS_MAX {
            self.words += words.len();
            self.by_len.entry(words.len()).or_default().push(words);
        }
    }
}

impl Words {
    /// Takes other words from the same pool.
    pub(crate) fn others(&self, len: usize) -> Self {
        self.pool.take(len)
    }

    /// Moves the words to a buffer of exactly their number, for long-lived data.
    pub(crate) fn fitted(self) -> Self {
        if self.words.len() == self.len {
            return self;
        }
        let mut fitted = self.pool.take_exactly(self.len);
        fitted.copy_from_slice(&self);
        fitted
    }

    /// Keeps only the first `len` words.
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
    fn buffers_are_reused_and_kept_up_to_the_limit() {
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
        (0..3).for_each(|_| pool.kept().keep(Aligned::new(FREE_WORDS_MAX / 2 - 132)));
        assert!((FREE_WORDS_MAX - 100..=FREE_WORDS_MAX).contains(&kept()), "two of the three");
    }

    #[test]
    fn lent_words_are_counted_and_fitted_words_have_exact_buffers() {
        let pool = Arc::new(Pool::default());
        let in_use = |now: usize, most: usize| MemoryUse { now: 8 * now, most: 8 * most };
        let (first, mut second) = (pool.take(100), pool.take(60));
        drop(first);
        assert_eq!(pool.memory_use(), in_use(60, 160));
        assert_eq!(pool.memory_use(), in_use(60, 60), "since the last query");
        second.fill(7);
        second.cut(10);
        let fitted = second.fitted();
        assert_eq!((fitted[..] == [7; 10], pool.memory_use()), (true, in_use(10, 70)));
        let place = fitted.as_ptr();
        assert_eq!(fitted.fitted().as_ptr(), place, "the buffer fits already");
    }
}
