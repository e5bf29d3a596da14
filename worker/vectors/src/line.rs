//! Queue of jobs: each key has a FIFO queue, and the keys take turns.
//!
//! A key takes gigabytes, and a computation reads all of its key. Jobs under one key therefore run
//! one after another. A cache that holds few keys then loads each of them once for many jobs.

use std::collections::{HashMap, VecDeque};

/// Waiting jobs, by key.
pub struct Line<K, J> {
    /// Keys in the order of their turns; the current key is first.
    turns: VecDeque<K>,
    waiting: HashMap<K, VecDeque<(u64, J)>>,
    /// Work that the current key has used in its turn.
    had: u64,
    turn: u64,
}

impl<K: Clone + Eq + std::hash::Hash, J> Line<K, J> {
    /// An empty queue. If other keys wait, a key's turn ends once its jobs have used `turn` units
    /// of work. A job therefore waits at most for the turns of the keys ahead of its own, and for
    /// earlier jobs under its own key. A turn exceeds this limit by at most one job.
    pub fn new(turn: u64) -> Self {
        Self { turns: VecDeque::new(), waiting: HashMap::new(), had: 0, turn }
    }

    /// Appends a job of `work` units.
    pub fn push(&mut self, key: K, work: u64, job: J) {
        let line = self.waiting.entry(key.clone()).or_default();
        if line.is_empty() && !self.turns.contains(&key) {
            self.turns.push_back(key);
        }
        line.push_back((work, job));
    }

    /// Removes and returns the next job with its key.
    pub fn pop(&mut self) -> Option<(K, J)> {
        loop {
            let key = self.turns.front()?.clone();
            let line = self.waiting.get_mut(&key);
            let has_more = line.as_ref().is_some_and(|line| !line.is_empty());
            let is_over = self.had >= self.turn && self.turns.len() > 1;
            match line.filter(|_| !is_over).and_then(VecDeque::pop_front) {
                Some((work, job)) => {
                    self.had = self.had.saturating_add(work);
                    return Some((key, job));
                }
                None => {
                    self.turns.pop_front();
                    self.had = 0;
                    if has_more {
                        self.turns.push_back(key);
                    } else {
                        self.waiting.remove(&key);
                    }
                }
            }
        }
    }

    /// Removes and returns the jobs for which `is_gone` is true.
    pub fn take(&mut self, is_gone: impl Fn(&J) -> bool) -> Vec<J> {
        let mut gone = Vec::new();
        for line in self.waiting.values_mut() {
            let (out, kept): (VecDeque<_>, VecDeque<_>) = line.drain(..).partition(|(_, job)| is_gone(job));
            *line = kept;
            gone.extend(out.into_iter().map(|(_, job)| job));
        }
        gone
    }

    /// Number of waiting jobs.
    pub fn len(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    /// Whether no job waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K, J> Line<K, J> {
    /// Removes and returns all jobs.
    pub fn take_all(&mut self) -> Vec<J> {
        self.turns.clear();
        self.waiting.drain().flat_map(|(_, line)| line).map(|(_, job)| job).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn jobs_of_one_key_follow_one_another_until_their_turn_is_over() {
        let mut line = Line::new(2);
        for (job, key) in "aababacb".chars().enumerate() {
            line.push(key, 1, job);
        }
        let order: String = std::iter::from_fn(|| line.pop()).map(|(key, _)| key).collect();
        assert_eq!(order, "aabbcaab");
        assert!(line.is_empty() && line.pop().is_none());
    }

    #[test]
    fn take_removes_cancelled_jobs_only() {
        let mut line = Line::new(1);
        (0..6).for_each(|job| line.push(job % 2, 1, job));
        assert_eq!(line.take(|job| job % 2 == 0), [0, 2, 4]);
        assert_eq!((line.len(), line.pop(), line.pop()), (3, Some((1, 1)), Some((1, 3))));
        assert_eq!(line.take_all(), [5]);
        assert!(line.is_empty() && line.pop().is_none());
    }

    #[test]
    fn a_late_job_joins_the_current_turn_of_its_key() {
        let mut line = Line::new(3);
        line.push('a', 1, 0);
        assert_eq!(line.pop(), Some(('a', 0)));
        line.push('b', 1, 1);
        line.push('a', 1, 2);
        assert_eq!(line.pop(), Some(('a', 2)), "its key is the one that is loaded");
        assert_eq!(line.pop(), Some(('b', 1)));
    }

    proptest! {
        /// Each key gets its turn within the promised amount of other keys' work, and its jobs keep
        /// their order.
        #[test]
        fn no_key_waits_longer_than_the_turns_of_the_others(jobs in prop::collection::vec((0_u8..5, 1_u64..9), 1..80), turn in 1_u64..20) {
            let mut line = Line::new(turn);
            for (number, (key, work)) in jobs.iter().enumerate() {
                line.push(*key, *work, (number, *work));
            }
            prop_assert_eq!(line.len(), jobs.len());
            let mut last = HashMap::new();
            let mut since = HashMap::new();
            let mut done = 0;
            while let Some((key, (number, work))) = line.pop() {
                prop_assert!(last.insert(key, number).is_none_or(|before| before < number));
                let waited: u64 = *since.get(&key).unwrap_or(&0);
                prop_assert!(waited <= 4 * (turn + 8), "{waited}");
                since.insert(key, 0);
                (0..5).filter(|other| *other != key).for_each(|other| *since.entry(other).or_insert(0) += work);
                done += 1;
            }
            prop_assert_eq!(done, jobs.len());
        }
    }
}
