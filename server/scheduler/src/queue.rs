//! The order of queued jobs: deficit round robin across tenants, rank within a tenant.
//!
//! The rounds are computed instead of iterated. A tenant's round is its served cost divided by the
//! quantum, and the tenant in the lowest round is next. Deficit round robin serves tenants in this
//! order, too. The computation skips the rounds in which no tenant could afford its next job. A job
//! of a million bootstraps therefore causes no loop of a million rounds.
//!
//! If a worker has no key of the first tenant, it gets a short job of another tenant whose key it
//! has. While jobs of very many keys wait, workers would otherwise load keys for most of their
//! time, and the backlog would not shrink. Jobs of a quantum at most come before the first tenant's
//! in this way, and only of tenants that are at most [`QUANTA_AHEAD`] ahead of it.
//!
//! A tenant is charged for a whole job when the job is handed out. A tenant that was given a huge
//! job while others waited therefore waits until they have caught up. Where no other tenant waits,
//! the charge has no effect. The worker decides how running jobs share a device.

mod flow;
mod line;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use cloakwork_params::{KeyId, SetId};

use crate::seat::Seat;
use crate::types::{Group, TenantId, Time, WorkerId};
use flow::Flow;

/// Whether a job costs more than a quantum. Long jobs take separate places on a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Short,
    Long,
}

/// A job's order among its tenant's jobs: priority, then deadline, then age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    priority: Reverse<i8>,
    deadline: Time,
    sequence: u64,
    seat: Seat,
}

impl Rank {
    pub(crate) fn new(priority: i8, deadline: Time, sequence: u64, seat: Seat) -> Self {
        Self { priority: Reverse(priority), deadline, sequence, seat }
    }
}

/// The requirements that a job has on its worker. All jobs of a class fit the same workers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Class {
    pub(crate) set: SetId,
    /// Workers that have refused the job as too large, sorted.
    pub(crate) refused_by: Box<[WorkerId]>,
}

impl Class {
    /// The first class of a set in sort order: any worker that serves the set may take its jobs.
    fn any(set: SetId) -> Self {
        Self { set, refused_by: Box::default() }
    }
}

/// All keys by which the queue indexes a job.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) class: Class,
    pub(crate) tenant: TenantId,
    pub(crate) key: KeyId,
    pub(crate) size: Size,
    pub(crate) rank: Rank,
}

/// The jobs that a worker has room for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice<'a> {
    /// The next job of any size.
    Any,
    /// The next short job.
    Short,
    /// The next long job of a tenant that has no long job on this worker.
    Long {
        /// Tenants to skip because they have a long job here. Keep the map small: the search walks
        /// past each of them.
        besides: &'a BTreeMap<TenantId, usize>,
    },
}

/// The queued jobs that are not suspects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    quantum_cost: u64,
    overtaking_cost_max: u64,
    rings: BTreeMap<Class, Ring>,
    /// Cost that each tenant was served over all classes, for the choice between classes.
    accounts: BTreeMap<TenantId, Account>,
    /// Highest served cost of any tenant at its turn. A tenant that joins the queue starts from
    /// this cost.
    clock: u128,
    len: usize,
}

#[derive(Clone, Debug, Default)]
struct Account {
    served: u128,
    flows: usize,
}

/// Tenants with jobs of one class.
#[derive(Clone, Debug, Default)]
struct Ring {
    /// The round that is being served.
    round: u128,
    /// Tenants with queued short jobs, by round.
    short: BTreeSet<(u128, TenantId)>,
    /// Tenants with queued long jobs, by round.
    long: BTreeSet<(u128, TenantId)>,
    /// Tenants without queued jobs whose round has not come yet. The ring keeps them so that a
    /// tenant gains no second turn by leaving the queue briefly.
    resting: BTreeSet<(u128, TenantId)>,
    flows: BTreeMap<TenantId, Flow>,
    /// Keys of queued short jobs, with their tenants.
    keys: BTreeSet<(KeyId, TenantId)>,
    /// Cost of the jobs that were served since the last job of the first tenant.
    overtaken: u64,
}

/// Number of quanta by which a tenant may be ahead of the first one, if a worker has its key.
const QUANTA_AHEAD: u64 = 2;

/// Maximum number of tenants with equal key ids that a search examines.
const NAMESAKES_EXAMINED: usize = 4;

impl Ring {
    fn turns_mut(&mut self, size: Size) -> &mut BTreeSet<(u128, TenantId)> {
        match size {
            Size::Short => &mut self.short,
            Size::Long => &mut self.long,
        }
    }

    /// Whether no tenant has queued jobs.
    fn is_idle(&self) -> bool {
        self.short.is_empty() && self.long.is_empty()
    }

    /// The first tenant of the lowest round.
    fn first(&self) -> Option<&(u128, TenantId)> {
        self.short.first().into_iter().chain(self.long.first()).min()
    }

    fn next(&self, choice: Choice<'_>) -> Option<TenantId> {
        let turn = match choice {
            Choice::Any => self.first(),
            Choice::Short => self.short.first(),
            Choice::Long { besides } => self.long.iter().find(|(_, tenant)| !besides.contains_key(tenant)),
        };
        turn.map(|(_, tenant)| *tenant)
    }
}

impl Queue {
    /// A short job whose key is one of `keys`, of a tenant that is not far ahead of the first.
    fn near(
        &self,
        ring: &Ring,
        keys: impl Iterator<Item = KeyId>,
        near: impl Fn(TenantId, KeyId) -> bool,
    ) -> Option<Rank> {
        let (_, first) = ring.first().filter(|_| ring.overtaken < self.quantum_cost)?;
        let spent_max = ring.flows[first].spent + u128::from(QUANTA_AHEAD * self.quantum_cost);
        let tenants = keys.flat_map(|key| {
            let namesakes = ring.keys.range((key, TenantId(0))..).take_while(move |(other, _)| *other == key);
            namesakes.take(NAMESAKES_EXAMINED).map(|(_, tenant)| *tenant)
        });
        let jobs = tenants.filter_map(|tenant| {
            let flow = &ring.flows[&tenant];
            let chosen = flow.lane(Size::Short).choose(|key| near(tenant, key), self.overtaking_cost_max)?;
            (flow.spent <= spent_max && chosen.is_near).then_some((flow.spent, chosen.rank))
        });
        jobs.min().map(|(_, rank)| rank)
    }

    pub(crate) fn new(quantum_cost: u64, overtaking_cost_max: u64) -> Self {
        Self { quantum_cost: quantum_cost.max(1), overtaking_cost_max, ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn insert(&mut self, entry: &Entry) {
        let ring = self.rings.entry(entry.class.clone()).or_default();
        let quantum = u128::from(self.quantum_cost);
        let flow = ring.flows.entry(entry.tenant).or_insert_with(|| {
            let account = self.accounts.entry(entry.tenant).or_default();
            account.flows += 1;
            account.served = account.served.max(self.clock);
            Flow::default()
        });
        if flow.is_empty() {
            ring.resting.remove(&(flow.spent / quantum, entry.tenant));
            flow.spent = flow.spent.max(ring.round * quantum);
        }
        let turn = (flow.spent / quantum, entry.tenant);
        flow.lane_mut(entry.size).insert(entry.key, entry.rank);
        ring.turns_mut(entry.size).insert(turn);
        if entry.size == Size::Short {
            ring.keys.insert((entry.key, entry.tenant));
        }
        self.len += 1;
    }

    /// Removes a job without serving it.
    pub(crate) fn remove(&mut self, entry: &Entry) {
        self.leave(entry, 0);
    }

    /// The next job for a worker that serves these sets and has these keys. `near` says whether the
    /// worker has the key of a group, or is about to have it.
    pub(crate) fn pick(
        &self,
        worker: WorkerId,
        sets: &BTreeSet<SetId>,
        keys: &BTreeSet<(KeyId, SetId)>,
        choice: Choice<'_>,
        near: impl Fn(&Group) -> bool,
    ) -> Option<Seat> {
        let fitting = |(class, _): &(&Class, &Ring)| !class.refused_by.contains(&worker);
        let rings = sets.iter().flat_map(|set| self.rings_of(*set)).filter(fitting);
        let nexts = rings.filter_map(|(class, ring)| {
            let tenant = ring.next(choice)?;
            Some((ring, class.set, tenant, ring.flows[&tenant].lane_for(choice)))
        });
        // A tenant's jobs of different classes are ordered by rank, like jobs of the same class.
        let (ring, set, tenant, lane) =
            nexts.min_by_key(|(_, _, tenant, lane)| (self.accounts[tenant].served, *tenant, lane.first()))?;
        let is_near = |tenant, key| near(&Group { tenant, key, set });
        let chosen = lane.choose(|key| is_near(tenant, key), self.overtaking_cost_max)?;
        let keys = keys.iter().filter(|(_, of)| *of == set).map(|(key, _)| *key);
        let nearer = match choice {
            Choice::Any | Choice::Short if !chosen.is_near => self.near(ring, keys, is_near),
            _ => None,
        };
        Some(nearer.unwrap_or(chosen.rank).seat)
    }

    fn rings_of(&self, set: SetId) -> impl Iterator<Item = (&Class, &Ring)> {
        self.rings.range(Class::any(set)..).take_while(move |(class, _)| class.set == set)
    }

    /// Removes a job and charges its tenant for it.
    pub(crate) fn serve(&mut self, entry: &Entry, cost: u64) {
        if let Some(account) = self.accounts.get_mut(&entry.tenant) {
            self.clock = self.clock.max(account.served);
            account.served += u128::from(cost);
        }
        if let Some(ring) = self.rings.get_mut(&entry.class)
            && let Some(flow) = ring.flows.get_mut(&entry.tenant)
        {
            ring.round = ring.round.max(flow.spent / u128::from(self.quantum_cost));
            flow.lane_mut(entry.size).note_choice(entry.key, cost);
            let is_first = ring.first().is_some_and(|(_, first)| *first == entry.tenant);
            ring.overtaken = if is_first { 0 } else { ring.overtaken.saturating_add(cost) };
        }
        self.leave(entry, cost);
    }

    fn leave(&mut self, entry: &Entry, cost: u64) {
        let quantum = u128::from(self.quantum_cost);
        let Some(ring) = self.rings.get_mut(&entry.class) else { return };
        let Some(flow) = ring.flows.get_mut(&entry.tenant) else { return };
        let before = (flow.spent / quantum, entry.tenant);
        flow.lane_mut(entry.size).remove(entry.key, entry.rank);
        if entry.size == Size::Short && !flow.lane(Size::Short).has(entry.key) {
            ring.keys.remove(&(entry.key, entry.tenant));
        }
        self.len -= 1;
        flow.spent += u128::from(cost);
        let after = (flow.spent / quantum, entry.tenant);
        for (lane, turns) in [(flow.lane(Size::Short), &mut ring.short), (flow.lane(Size::Long), &mut ring.long)] {
            if lane.is_empty() {
                turns.remove(&before);
            } else if after != before {
                turns.remove(&before);
                turns.insert(after);
            }
        }
        if flow.is_empty() {
            ring.resting.insert(after);
        }
        self.forget(&entry.class);
    }

    /// Drops tenants whose served cost no longer matters: their round is over, or no tenant waits.
    fn forget(&mut self, class: &Class) {
        let Some(ring) = self.rings.get_mut(class) else { return };
        while let Some(&(round, tenant)) = ring.resting.first() {
            if round >= ring.round && !ring.is_idle() {
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
            self.rings.remove(class);
        }
    }

    /// Classes of waiting jobs that some worker has refused.
    pub(crate) fn refused(&self) -> impl Iterator<Item = &Class> {
        let waits = |(class, ring): &(&Class, &Ring)| !class.refused_by.is_empty() && !ring.is_idle();
        self.rings.iter().filter(waits).map(|(class, _)| class)
    }

    /// The jobs of a class.
    pub(crate) fn seats_of(&self, class: &Class) -> Vec<Seat> {
        let flows = self.rings.get(class).into_iter().flat_map(|ring| ring.flows.values());
        flows.flat_map(Flow::ranks).map(|rank| rank.seat).collect()
    }

    /// Panics where two indexes disagree. `queued` yields every job that should be queued, once.
    pub(crate) fn check(&self, queued: impl Iterator<Item = Entry>) {
        let mut count = 0;
        for entry in queued {
            count += 1;
            let lane = self.rings[&entry.class].flows[&entry.tenant].lane(entry.size);
            assert!(lane.contains(entry.key, &entry.rank), "{entry:?} is not queued");
        }
        assert_eq!(count, self.len, "queue length");
        let mut in_flows = 0;
        let mut flows_of: BTreeMap<TenantId, usize> = BTreeMap::new();
        for (class, ring) in &self.rings {
            let (mut short, mut long, mut resting) = (0, 0, 0);
            for (tenant, flow) in &ring.flows {
                in_flows += flow.check();
                *flows_of.entry(*tenant).or_default() += 1;
                let turn = (flow.spent / u128::from(self.quantum_cost), *tenant);
                let sizes = [Size::Short, Size::Long].map(|size| !flow.lane(size).is_empty());
                let places = [(sizes[0], &ring.short), (sizes[1], &ring.long), (flow.is_empty(), &ring.resting)];
                for (due, index) in places {
                    assert_eq!(index.contains(&turn), due, "turn of {tenant:?} in {class:?}");
                }
                short += usize::from(sizes[0]);
                long += usize::from(sizes[1]);
                resting += usize::from(flow.is_empty());
            }
            let keys =
                ring.flows.iter().flat_map(|(tenant, flow)| flow.lane(Size::Short).keys().map(|key| (key, *tenant)));
            assert_eq!(keys.collect::<BTreeSet<_>>(), ring.keys, "keys of {class:?}");
            let lengths = (ring.short.len(), ring.long.len(), ring.resting.len());
            assert_eq!(lengths, (short, long, resting), "tenants of {class:?}");
        }
        assert_eq!(in_flows, self.len, "jobs in flows");
        assert_eq!(self.accounts.len(), flows_of.len(), "accounts");
        for (tenant, flows) in flows_of {
            assert_eq!(self.accounts[&tenant].flows, flows, "flows of {tenant:?}");
        }
    }
}
