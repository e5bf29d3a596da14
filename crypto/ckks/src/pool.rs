//! Memory of polynomials that are gone, for those to come: to get pages from the system and have them cleared takes
//! longer than to compute on them.

use std::{
    collections::BTreeMap,
    mem,
    ops::{Deref, DerefMut, RangeInclusive},
    sync::{Arc, Mutex, PoisonError},
};

use cloakwork_math::aligned::Aligned;

/// Words that are kept, by their number. Who asks for fewer gets some of up to twice as many: polynomials get shorter as
/// they lose levels, and what is kept would not be used again otherwise.
#[derive(Default)]
pub(crate) struct Pool {
    kept: Mutex<Kept>,
}

/// Words of a pool, which go back to it.
pub(crate) struct Words {
    words: Aligned<u64>,
    /// Of which so many are used.
    len: usize,
    pool: Arc<Pool>,
}

#[derive(Default)]
struct Kept {
    by_len: BTreeMap<usize, Vec<Aligned<u64>>>,
    words: usize,
}

/// More is given back to the system: a gibibyte.
const WORDS_MAX: usize = (1 << 30) / size_of::<u64>();

impl Pool {
    /// So many words, to be written before they are read: whatever is in them.
    pub(crate) fn take(self: &Arc<Self>, len: usize) -> Words {
        self.take_one_of(len, len..=2 * len)
    }

    /// The same, and no more than are used: for what stays for long.
    pub(crate) fn take_exactly(self: &Arc<Self>, len: usize) -> Words {
        self.take_one_of(len, len..=len)
    }

    fn take_one_of(self: &Arc<Self>, len: usize, lengths: RangeInclusive<usize>) -> Words {
        let found = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let found = kept.by_len.range_mut(lengths).find_map(|(_, words)| words.pop());
            kept.words -= found.as_deref().map_or(0, <[u64]>::len);
            found
        };
        let mut words = found.unwrap_or_else(|| Aligned::for_work(len));
        if cfg!(debug_assertions) {
            // What is read all the same stands out.
            words.fill(u64::MAX);
        }
        Words { words, len, pool: Arc::clone(self) }
    }

    /// Keeps words for somebody else, if there are not too many.
    fn keep(&self, words: Aligned<u64>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.words + words.len() <= WORDS_MAX {
            kept.words += words.len();
            kept.by_len.entry(words.len()).or_default().push(words);
        }
    }
}

impl Words {
    /// Others from the same pool.
    pub(crate) fn others(&self, len: usize) -> Self {
        self.pool.take(len)
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
        self.pool.keep(mem::replace(&mut self.words, Aligned::new(0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_used_again_and_no_more_than_the_limit_are_kept() {
        let pool = Arc::new(Pool::default());
        let kept = || pool.kept.lock().expect("not poisoned").words;
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
        (0..3).for_each(|_| pool.keep(Aligned::new(WORDS_MAX / 2 - 132)));
        assert!((WORDS_MAX - 100..=WORDS_MAX).contains(&kept()), "two of the three");
    }
}
