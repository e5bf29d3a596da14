//! Moves of workers between the shards of a database (`cloakwork_scheduler::placement`).
//!
//! The owner of each shard publishes the shard's load. Each owner computes the moves of all workers
//! from the same loads, and carries out those away from its own shard. A worker that is to move
//! gets no new jobs. Once it holds nothing, its stream ends, and the refusal of its next call names
//! the other shard.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use cloakwork_scheduler::{
    Event, Stats, WorkerId,
    placement::{self, Load},
};
use tokio::sync::watch;

use super::{actor::Actor, backlog::Backlogs, command::WorkerReport};
use crate::{
    error::{ApiError, NOT_OWNER},
    shards::{PoolLoad, Seen},
};

/// The data that the owner of a shard exchanges with the owners of the others.
#[derive(Debug)]
pub struct Neighbours {
    /// The shard of this dispatcher.
    pub shard: i32,
    /// The owners and loads of all shards.
    pub seen: watch::Receiver<Seen>,
    /// The load of this shard, for the others.
    pub published: watch::Sender<Vec<PoolLoad>>,
}

impl Neighbours {
    /// The owner of the only shard.
    pub fn none() -> Self {
        Self { shard: 0, seen: watch::channel(Seen::default()).1, published: watch::Sender::default() }
    }
}

/// The wishes of a worker that attaches, about its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    /// The worker has no shard yet.
    Any,
    /// The worker belongs to this shard, but may move.
    Here,
    /// The worker runs inside the server, and serves its shard alone.
    Fixed,
}

/// Workers on their way to other shards.
#[derive(Debug)]
pub(super) struct Placement {
    /// Workers that are to leave once they hold nothing.
    leaving: BTreeMap<WorkerId, Bound>,
    /// Workers that have left a moment ago.
    left: BTreeMap<WorkerId, Left>,
    /// Workers that never leave.
    fixed: BTreeSet<WorkerId>,
    /// Since when each pool has had workers, or work without workers.
    terms: HashMap<String, Term>,
    /// From when on the next round may run, by the scheduler's time.
    next_micros: u64,
}

/// A worker's pool, and the shard that it goes to.
#[derive(Debug)]
struct Bound {
    pool: String,
    to: i32,
}

#[derive(Debug)]
struct Left {
    bound: Bound,
    at_micros: u64,
}

#[derive(Clone, Copy, Debug)]
struct Term {
    is_served: bool,
    since_micros: u64,
}

/// Time between two rounds. The loads of the other shards are as old.
const ROUND_MICROS: u64 = 1_000_000;

/// Time after the start in which the workers of the last owner attach again. Until then, the shard
/// would seem to need workers.
const SETTLE_MICROS: u64 = 5_000_000;

/// Time in which a worker that left attaches to its next shard. Until then it counts for this one,
/// so that the plan does not change. Later, this shard takes the worker again.
const ARRIVAL_MICROS: u64 = 5_000_000;

impl Placement {
    /// The placement of a dispatcher that has just started.
    pub(super) fn new() -> Self {
        Self {
            leaving: BTreeMap::new(),
            left: BTreeMap::new(),
            fixed: BTreeSet::new(),
            terms: HashMap::new(),
            next_micros: SETTLE_MICROS,
        }
    }

    pub(super) fn is_leaving(&self, worker: WorkerId) -> bool {
        self.leaving.contains_key(&worker)
    }

    /// When the next round is due, if there are several shards.
    pub(super) fn due(&self, neighbours: &Neighbours) -> Option<u64> {
        has_several(&neighbours.seen.borrow()).then_some(self.next_micros)
    }

    /// Forgets a worker that is gone.
    pub(super) fn forget(&mut self, worker: WorkerId) {
        self.leaving.remove(&worker);
        self.fixed.remove(&worker);
    }

    /// Refuses a worker that belongs to another shard.
    pub(super) fn admit(
        &mut self,
        neighbours: &Neighbours,
        now_micros: u64,
        report: &WorkerReport,
        seat: Seat,
    ) -> Result<(), ApiError> {
        let seen = neighbours.seen.borrow();
        if !has_several(&seen) {
            return Ok(());
        }
        let left = self.left.get(&report.worker);
        let to = match seat {
            Seat::Fixed => {
                self.fixed.insert(report.worker);
                neighbours.shard
            }
            _ if left.is_some_and(|left| left.at_micros + ARRIVAL_MICROS > now_micros) => {
                left.map_or(neighbours.shard, |left| left.bound.to)
            }
            Seat::Here => neighbours.shard,
            Seat::Any => Table::of(&seen.loads, &report.report.pool).newcomer().unwrap_or(neighbours.shard),
        };
        match seen.shards.owner(to) {
            Some(url) if to != neighbours.shard => Err(NOT_OWNER
                .error("another shard needs the worker more")
                .with("shard", to.to_string())
                .with("owner", url.as_ref())),
            _ => Ok(()),
        }
    }

    /// The load of this shard, for each pool that has workers here or is named.
    fn loads(
        &mut self,
        shard: i32,
        now_micros: u64,
        stats: &Stats,
        backlogs: &Backlogs,
        named: BTreeSet<String>,
        drained: impl Fn(&str) -> usize,
    ) -> Vec<PoolLoad> {
        self.terms.retain(|pool, _| named.contains(pool));
        let of_left = |pool: &str| self.left.values().filter(|left| left.bound.pool == pool).count();
        let load = |pool: String| {
            let here = stats.pools.get(&pool).map_or(0, |pool| pool.workers);
            let workers = here.saturating_sub(drained(&pool)) + of_left(&pool);
            let backlog_millis = backlogs.millis(stats, &pool);
            let is_served = workers > 0;
            let begins = Term { is_served, since_micros: now_micros };
            let term = self.terms.entry(pool.clone()).or_insert(begins);
            if term.is_served != is_served || (!is_served && backlog_millis == 0) {
                *term = begins;
            }
            let term_millis = (now_micros - term.since_micros) / 1000;
            let workers = u32::try_from(workers).unwrap_or(u32::MAX);
            PoolLoad { pool, shard, load: Load { workers, backlog_millis, term_millis } }
        };
        named.into_iter().map(load).collect()
    }

    /// Lets workers of a pool leave, one for each shard in `wanted`. `workers` are those of the
    /// pool, the best to give up first.
    fn follow(&mut self, pool: &str, mut wanted: Vec<i32>, workers: &[WorkerId]) {
        for left in self.left.values().filter(|left| left.bound.pool == pool) {
            wanted.iter().position(|to| *to == left.bound.to).map(|place| wanted.swap_remove(place));
        }
        self.leaving.retain(|_, bound| {
            let place = wanted.iter().position(|to| *to == bound.to);
            let stays = bound.pool != pool || place.is_some();
            if let (true, Some(place)) = (bound.pool == pool, place) {
                wanted.swap_remove(place);
            }
            stays
        });
        let free: Vec<WorkerId> = workers
            .iter()
            .copied()
            .filter(|worker| !self.leaving.contains_key(worker) && !self.fixed.contains(worker))
            .collect();
        for (worker, to) in free.into_iter().zip(wanted) {
            self.leaving.insert(worker, Bound { pool: pool.to_owned(), to });
        }
    }
}

impl Actor {
    /// Publishes the load of this shard, and lets workers leave that other shards need more.
    pub(super) fn place_workers(&mut self, stats: &Stats) {
        let now_micros = self.uptime.micros();
        let neighbours = &self.parts.neighbours;
        // Each round of the dispatcher comes here.
        if now_micros < self.placement.next_micros || !has_several(&neighbours.seen.borrow()) {
            return;
        }
        let seen = neighbours.seen.borrow().clone();
        self.placement.next_micros = now_micros + ROUND_MICROS;
        self.placement.left.retain(|_, left| left.at_micros + ARRIVAL_MICROS > now_micros);
        let shard = neighbours.shard;
        // Workers may name any pool. A name lasts only as long as a worker has it.
        let elsewhere = seen.loads.iter().filter(|load| load.load.workers > 0).map(|load| load.pool.clone());
        let pools: BTreeSet<String> = elsewhere.chain(stats.pools.keys().cloned()).collect();
        let drained = |pool: &str| {
            let is_drained = |report: &&Arc<WorkerReport>| self.drained.contains(&report.worker);
            self.workers.latest().filter(is_drained).filter(|report| report.report.pool == pool).count()
        };
        let own = self.placement.loads(shard, now_micros, stats, &self.parts.backlogs, pools.clone(), drained);
        let others = seen.loads.iter().filter(|load| load.shard != shard);
        let all: Vec<PoolLoad> = others.chain(&own).cloned().collect();
        neighbours.published.send_replace(own);
        for pool in pools {
            let gifts = Table::of(&all, &pool).gifts(shard);
            let workers = self.givable(&pool);
            self.placement.follow(&pool, gifts, &workers);
        }
        self.let_go(now_micros);
    }

    /// The workers of a pool, those with the fewest leases first.
    fn givable(&self, pool: &str) -> Vec<WorkerId> {
        let mut workers: Vec<(usize, WorkerId)> = self
            .workers
            .latest()
            .filter(|report| report.report.pool == pool && !report.report.draining)
            // The owner of another shard would not know that the worker is drained.
            .filter(|report| !self.drained.contains(&report.worker))
            .map(|report| (self.scheduler.assignment(report.worker).len(), report.worker))
            .collect();
        workers.sort_unstable();
        workers.into_iter().map(|(_, worker)| worker).collect()
    }

    /// Ends the streams of workers that are to leave and hold nothing.
    fn let_go(&mut self, now_micros: u64) {
        let is_free = |worker: &WorkerId| {
            self.scheduler.holds_nothing(*worker)
                && self.workers.reported(*worker).is_empty()
                && self.workers.wished(*worker).is_none_or(|wish| wish.is_empty())
        };
        let free: Vec<WorkerId> = self.placement.leaving.keys().copied().filter(is_free).collect();
        for worker in free {
            let Some(bound) = self.placement.leaving.remove(&worker) else { continue };
            tracing::info!(name = &*self.workers.name(worker), shard = bound.to, "a worker moves to another shard");
            self.parts.telemetry.metrics.worker_disconnects.add(1, ["moved"]);
            self.workers.expel(worker);
            self.step(Event::WorkerGone { worker, crashed: false });
            self.pools_changed();
            self.placement.left.insert(worker, Left { bound, at_micros: now_micros });
        }
    }
}

/// Whether there is another shard with an owner. A database that never had one needs no placement.
fn has_several(seen: &Seen) -> bool {
    seen.shards.numbers().nth(1).is_some()
}

/// The loads of a pool, by shard.
struct Table {
    shards: Vec<i32>,
    loads: Vec<Load>,
}

impl Table {
    fn of(all: &[PoolLoad], pool: &str) -> Self {
        let mut of_pool: Vec<&PoolLoad> = all.iter().filter(|load| load.pool == pool).collect();
        // All owners need the same order.
        of_pool.sort_by_key(|load| load.shard);
        let shards = of_pool.iter().map(|load| load.shard).collect();
        Self { shards, loads: of_pool.iter().map(|load| load.load).collect() }
    }

    /// The shards to which a shard gives a worker each.
    fn gifts(&self, shard: i32) -> Vec<i32> {
        let place = self.shards.iter().position(|it| *it == shard);
        let places = place.map(|place| placement::gifts(&self.loads, place)).unwrap_or_default();
        places.into_iter().map(|place| self.shards[place]).collect()
    }

    /// The shard that a new worker joins.
    fn newcomer(&self) -> Option<i32> {
        placement::newcomer(&self.loads).map(|place| self.shards[place])
    }
}
