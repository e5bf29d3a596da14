//! Whose job is next: deficit round robin across tenants, rank within a tenant.
//!
//! The rounds are counted instead of walked: a tenant's round is the cost it was served over the quantum, and the
//! tenant in the lowest round is next. That is the order in which deficit round robin serves them, with the rounds in
//! which nobody could afford their next job left out, so that one job of a million bootstraps is no loop of a million.

mod flow;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use cloakwork_params::{KeyId, SetId};

use crate::types::{Group, JobId, TenantId, Time};
use flow::Flow;

/// A job's place among those of its tenant: priority, then deadline, then age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    priority: Reverse<i8>,
    deadline: Time,
    sequence: u64,
    job: JobId,
}

impl Rank {
    pub(crate) fn new(priority: i8, deadline: Time, sequence: u64, job: JobId) -> Self {
        Self { priority: Reverse(priority), deadline, sequence, job }
    }
}

/// The queued jobs that are not suspects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    quantum: u64,
    patience: u64,
    rings: BTreeMap<SetId, Ring>,
    /// Cost that a tenant was served over all sets, for the choice between sets.
    accounts: BTreeMap<TenantId, Account>,
    /// Highest account that was ever next. A tenant that comes to the queue begins there.
    clock: u128,
    len: usize,
}

#[derive(Clone, Debug, Default)]
struct Account {
    served: u128,
    flows: usize,
}

/// Tenants with jobs of one parameter set.
#[derive(Clone, Debug, Default)]
struct Ring {
    /// The round that is being served.
    round: u128,
    /// Tenants with queued jobs, by their round.
    turns: BTreeSet<(u128, TenantId)>,
    /// Tenants without, whose round has not come yet: leaving the queue for a moment buys no second turn.
    resting: BTreeSet<(u128, TenantId)>,
    flows: BTreeMap<TenantId, Flow>,
}

impl Queue {
    pub(crate) fn new(quantum: u64, patience: u64) -> Self {
        Self { quantum: quantum.max(1), patience, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn insert(&mut self, group: Group, rank: Rank) {
        let ring = self.rings.entry(group.set).or_default();
        let quantum = u128::from(self.quantum);
        let flow = ring.flows.entry(group.tenant).or_insert_with(|| {
            let account = self.accounts.entry(group.tenant).or_default();
            account.flows += 1;
            account.served = account.served.max(self.clock);
            Flow::default()
        });
        if flow.is_empty() {
            ring.resting.remove(&(flow.spent / quantum, group.tenant));
            flow.spent = flow.spent.max(ring.round * quantum);
            ring.turns.insert((flow.spent / quantum, group.tenant));
        }
        flow.insert(group.key, rank);
        self.len += 1;
    }

    /// Takes a job out without serving it.
    pub(crate) fn remove(&mut self, group: Group, rank: Rank) {
        self.leave(group, rank, 0);
    }

    /// The job that a worker with these sets should have next. `near` says of which groups it has the key.
    pub(crate) fn pick(&self, sets: &BTreeSet<SetId>, near: impl Fn(&Group) -> bool) -> Option<JobId> {
        let next = |set: &SetId| {
            let &(_, tenant) = self.rings.get(set)?.turns.first()?;
            Some((self.accounts[&tenant].served, *set, tenant))
        };
        let (_, set, tenant) = sets.iter().filter_map(next).min()?;
        let near_key = |key: KeyId| near(&Group { tenant, key, set });
        self.rings[&set].flows[&tenant].choose(near_key, self.patience).map(|rank| rank.job)
    }

    /// Takes a job out and charges its tenant for it.
    pub(crate) fn serve(&mut self, group: Group, rank: Rank, cost: u64) {
        if let Some(account) = self.accounts.get_mut(&group.tenant) {
            self.clock = self.clock.max(account.served);
            account.served += u128::from(cost);
        }
        if let Some(ring) = self.rings.get_mut(&group.set)
            && let Some(flow) = ring.flows.get_mut(&group.tenant)
        {
            ring.round = ring.round.max(flow.spent / u128::from(self.quantum));
            flow.note_choice(group.key, cost);
        }
        self.leave(group, rank, cost);
    }

    fn leave(&mut self, group: Group, rank: Rank, cost: u64) {
        let quantum = u128::from(self.quantum);
        let Some(ring) = self.rings.get_mut(&group.set) else { return };
        let Some(flow) = ring.flows.get_mut(&group.tenant) else { return };
        let before = flow.spent / quantum;
        if !flow.remove(group.key, rank) {
            debug_assert!(false, "a queued job is in its flow");
            return;
        }
        self.len -= 1;
        flow.spent += u128::from(cost);
        let after = flow.spent / quantum;
        if flow.is_empty() {
            ring.turns.remove(&(before, group.tenant));
            ring.resting.insert((after, group.tenant));
        } else if after != before {
            ring.turns.remove(&(before, group.tenant));
            ring.turns.insert((after, group.tenant));
        }
        self.forget(group.set);
    }

    /// Forgets tenants whose past no longer matters: their round is over, or nobody waits.
    fn forget(&mut self, set: SetId) {
        let Some(ring) = self.rings.get_mut(&set) else { return };
        while let Some(&(round, tenant)) = ring.resting.first() {
            if round >= ring.round && !ring.turns.is_empty() {
                break;
            }
            ring.resting.pop_first();
            ring.flows.remove(&tenant);
            if let Some(account) = self.accounts.get_mut(&tenant) {
                account.flows -= 1;
                if account.flows == 0 {
                    self.accounts.remove(&tenant);
                }
            }
        }
        if ring.flows.is_empty() {
            self.rings.remove(&set);
        }
    }

    /// Panics where two indexes disagree. `queued` has every job that should be here, once.
    pub(crate) fn check(&self, queued: impl Iterator<Item = (Group, Rank)>) {
        let mut count = 0;
        for (group, rank) in queued {
            count += 1;
            assert!(self.rings[&group.set].flows[&group.tenant].contains(group.key, &rank), "{rank:?} is not queued");
        }
        assert_eq!(count, self.len, "queue length");
        let mut in_flows = 0;
        let mut flows_of: BTreeMap<TenantId, usize> = BTreeMap::new();
        for (set, ring) in &self.rings {
            assert_eq!(ring.flows.len(), ring.turns.len() + ring.resting.len(), "tenants of {set:?}");
            for (tenant, flow) in &ring.flows {
                in_flows += flow.check();
                *flows_of.entry(*tenant).or_default() += 1;
                let turn = (flow.spent / u128::from(self.quantum), *tenant);
                let index = if flow.is_empty() { &ring.resting } else { &ring.turns };
                assert!(index.contains(&turn), "{tenant:?} has no turn in {set:?}");
            }
        }
        assert_eq!(in_flows, self.len, "jobs in flows");
        assert_eq!(self.accounts.len(), flows_of.len(), "accounts");
        for (tenant, flows) in flows_of {
            assert_eq!(self.accounts[&tenant].flows, flows, "flows of {tenant:?}");
        }
    }
}
