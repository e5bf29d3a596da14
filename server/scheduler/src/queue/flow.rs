//! The queued jobs of one tenant and one class.

use std::collections::{BTreeMap, BTreeSet};

use cloakwork_params::KeyId;

use super::line::Line;
use super::{Choice, Rank, Size};

/// Maximum number of keys that the search for a resident key examines.
const KEYS_EXAMINED: usize = 16;

/// The queued jobs of one tenant and one class.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    /// Cost served to the tenant, plus the cost that a late arrival skips.
    pub(super) spent: u128,
    short: Lane,
    long: Lane,
}

/// A job that is next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub(super) rank: Rank,
    /// Whether its key is resident.
    pub(super) is_near: bool,
}

/// The jobs of one size, by key.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    keys: BTreeMap<KeyId, Line>,
    /// The first job of each key.
    heads: BTreeSet<(Rank, KeyId)>,
    /// Cost served ahead of the first job.
    passed_over: u64,
}

impl Flow {
    pub(super) fn lane(&self, size: Size) -> &Lane {
        match size {
            Size::Short => &self.short,
            Size::Long => &self.long,
        }
    }

    pub(super) fn lane_mut(&mut self, size: Size) -> &mut Lane {
        match size {
            Size::Short => &mut self.short,
            Size::Long => &mut self.long,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.short.is_empty() && self.long.is_empty()
    }

    /// The lane from which a choice takes its job.
    pub(super) fn lane_for(&self, choice: Choice<'_>) -> &Lane {
        match choice {
            Choice::Any => self.first_lane(),
            Choice::Short => self.lane(Size::Short),
            Choice::Long { .. } => self.lane(Size::Long),
        }
    }

    /// The lane whose first job has the lower rank.
    fn first_lane(&self) -> &Lane {
        match (self.short.first(), self.long.first()) {
            (Some(short), Some(long)) if long < short => &self.long,
            (None, _) => &self.long,
            _ => &self.short,
        }
    }

    /// The ranks of all jobs, in arbitrary order.
    pub(super) fn ranks(&self) -> impl Iterator<Item = Rank> {
        [&self.short, &self.long].into_iter().flat_map(|lane| lane.keys.values()).flat_map(Line::ranks)
    }

    /// Panics where two indexes disagree. Returns the number of jobs.
    pub(super) fn check(&self) -> usize {
        self.short.check() + self.long.check()
    }
}

impl Lane {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn first(&self) -> Option<&Rank> {
        self.heads.first().map(|(rank, _)| rank)
    }

    pub(super) fn insert(&mut self, key: KeyId, rank: Rank) {
        let line = self.keys.entry(key).or_default();
        let before = line.first();
        line.insert(rank);
        if before.is_none_or(|before| rank < before) {
            before.map(|before| self.heads.remove(&(before, key)));
            self.heads.insert((rank, key));
        }
    }

    /// Removes a job that is in this lane.
    pub(super) fn remove(&mut self, key: KeyId, rank: Rank) {
        let Some(line) = self.keys.get_mut(&key) else { return };
        let before = line.first();
        line.remove(rank);
        if before == Some(rank) {
            self.heads.remove(&(rank, key));
            match line.first() {
                Some(next) => drop(self.heads.insert((next, key))),
                None => drop(self.keys.remove(&key)),
            }
        }
    }

    /// The first job, or a job of equal priority that is the first one of a resident key. Once jobs
    /// of cost `overtaking_cost_max` have passed the first job, only the first job is chosen.
    pub(super) fn choose(&self, near: impl Fn(KeyId) -> bool, overtaking_cost_max: u64) -> Option<Chosen> {
        let (first, key) = self.heads.first()?;
        if self.passed_over >= overtaking_cost_max {
            return Some(Chosen { rank: *first, is_near: near(*key) });
        }
        let mut peers = self.heads.iter().take(KEYS_EXAMINED).take_while(|(rank, _)| rank.priority == first.priority);
        let nearest = peers.find(|(_, key)| near(*key));
        Some(Chosen { rank: nearest.map_or(*first, |(rank, _)| *rank), is_near: nearest.is_some() })
    }

    /// Whether a job of this key is in the lane.
    pub(super) fn has(&self, key: KeyId) -> bool {
        self.keys.contains_key(&key)
    }

    /// The keys of all jobs.
    pub(super) fn keys(&self) -> impl Iterator<Item = KeyId> {
        self.keys.keys().copied()
    }

    /// Records that a job of this key is being served.
    pub(super) fn note_choice(&mut self, key: KeyId, cost: u64) {
        let first = self.heads.first().is_some_and(|(_, first)| *first == key);
        self.passed_over = if first { 0 } else { self.passed_over.saturating_add(cost.max(1)) };
    }

    pub(super) fn contains(&self, key: KeyId, rank: &Rank) -> bool {
        self.keys.get(&key).is_some_and(|line| line.contains(rank))
    }

    fn check(&self) -> usize {
        self.keys.values().for_each(Line::check);
        let heads: BTreeSet<_> = self.keys.iter().filter_map(|(key, line)| Some((line.first()?, *key))).collect();
        assert_eq!(heads, self.heads, "first jobs of the keys");
        assert_eq!(heads.len(), self.keys.len(), "a key without jobs is forgotten");
        self.keys.values().map(Line::len).sum()
    }
}
