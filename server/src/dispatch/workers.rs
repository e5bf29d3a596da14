//! Attached workers: their streams, the leases that they are to hold, and their latest reports.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use cloakwork_clock::Epoch;
use cloakwork_scheduler::{JobId, WorkerId};
use tokio::sync::watch;

use super::{
    PoolView, WorkerReport,
    live::{Leases, Wish},
    pools,
};
use crate::{
    error::{ApiError, WORKER_REFUSED},
    limits::Limits,
};

/// The attached workers, and those that lost their stream less than `reconnect_micros` ago.
pub(super) struct Workers {
    /// The scheduler's time, by which leases run out.
    uptime: Epoch,
    links: HashMap<WorkerId, Link>,
    streams: u64,
    /// How long a worker whose stream broke may take to reconnect before it counts as dead.
    reconnect_micros: u64,
    /// Maximum number of attached workers.
    most: usize,
}

pub(super) struct Link {
    pub(super) latest: Arc<WorkerReport>,
    /// Number of the current stream. A worker that attaches again makes its old stream invalid.
    stream: u64,
    wish: watch::Sender<Wish>,
    /// When the stream broke, by the scheduler's time.
    lost_micros: Option<u64>,
}

impl Workers {
    /// Creates an empty set of workers. A worker that reconnects within its lease keeps its jobs,
    /// because a lost connection is not a crash. A worker that stays away must be declared dead
    /// before its leases run out, one lease after its last report. Otherwise its jobs would count
    /// as unlucky (lease expired), although they are suspected of having killed the worker.
    pub(super) fn new(limits: &Limits, uptime: Epoch) -> Self {
        let lease = limits.lease_ms;
        let reconnect = lease.saturating_sub(limits.report_ms.saturating_mul(2)).max(lease / 3);
        let most = usize::try_from(limits.workers).unwrap_or(usize::MAX);
        Self { uptime, links: HashMap::new(), streams: 0, reconnect_micros: reconnect * 1000, most }
    }

    /// Registers a worker's new stream. The receiver yields the leases that the worker is to hold.
    pub(super) fn attach(&mut self, report: Arc<WorkerReport>) -> Result<(watch::Receiver<Wish>, u64), ApiError> {
        let old = self.links.remove(&report.worker);
        if self.links.len() >= self.most {
            return Err(WORKER_REFUSED.error(format!("{} workers are attached: that is the limit", self.most)));
        }
        self.streams += 1;
        let stream = self.streams;
        // Repeats the previous wish, if there was one, because the new stream has not received it
        // yet.
        let wish = watch::Sender::new(old.and_then(|link| link.wish.borrow().clone()));
        let receiver = wish.subscribe();
        self.links.insert(report.worker, Link { latest: report, stream, wish, lost_micros: None });
        Ok((receiver, stream))
    }

    /// Takes a report. Returns false if the report comes from a stream that was replaced.
    pub(super) fn report(&mut self, stream: u64, report: Arc<WorkerReport>) -> bool {
        match self.links.get_mut(&report.worker) {
            Some(link) if link.stream == stream => {
                link.latest = report;
                true
            }
            _ => false,
        }
    }

    /// Marks a stream as ended. Returns true when the worker had announced its departure and holds
    /// no leases.
    pub(super) fn detach(&mut self, worker: WorkerId, stream: u64) -> bool {
        let Some(link) = self.links.get_mut(&worker).filter(|link| link.stream == stream) else { return false };
        link.lost_micros = Some(self.uptime.micros());
        let left = link.latest.report.draining && link.latest.report.leases.is_empty();
        if left {
            self.links.remove(&worker);
        }
        left
    }

    /// Removes a worker. Its stream withdraws all leases, and ends. Returns whether the worker was
    /// known.
    pub(super) fn expel(&mut self, worker: WorkerId) -> bool {
        let link = self.links.remove(&worker);
        link.map(|link| link.wish.send_replace(Some(Arc::default()))).is_some()
    }

    /// Whether a worker is attached, or may still attach again.
    pub(super) fn is_known(&self, worker: WorkerId) -> bool {
        self.links.contains_key(&worker)
    }

    /// Removes the workers that have not reconnected in time, and returns their IDs and names.
    pub(super) fn take_lost(&mut self) -> Vec<(WorkerId, Arc<str>)> {
        let now_micros = self.uptime.micros();
        // The caller of an attach may have gone before it learned of its stream. That stream is
        // never detached.
        let unread = |link: &&mut Link| link.lost_micros.is_none() && link.wish.receiver_count() == 0;
        self.links.values_mut().filter(unread).for_each(|link| link.lost_micros = Some(now_micros));
        let late = |link: &Link| link.lost_micros.is_some_and(|lost| lost + self.reconnect_micros <= now_micros);
        self.links.extract_if(|_, link| late(link)).map(|(worker, link)| (worker, link.latest.name.clone())).collect()
    }

    /// When the next worker may have to be declared dead, by the scheduler's time.
    pub(super) fn next_lost(&self) -> Option<u64> {
        self.links.values().filter_map(|link| link.lost_micros).min().map(|lost| lost + self.reconnect_micros)
    }

    /// Sets the leases that a worker is to hold from now on.
    pub(super) fn wish(&self, worker: WorkerId, wish: Arc<Leases>) {
        if let Some(link) = self.links.get(&worker) {
            link.wish.send_replace(Some(wish));
        }
    }

    /// The leases that a worker is to hold, as far as decided.
    pub(super) fn wished(&self, worker: WorkerId) -> Wish {
        self.links.get(&worker).and_then(|link| link.wish.borrow().clone())
    }

    /// The attempts that a worker's latest report lists, by job ID and epoch.
    pub(super) fn reported(&self, worker: WorkerId) -> HashSet<(JobId, u64)> {
        let leases = self.links.get(&worker).into_iter().flat_map(|link| &link.latest.report.leases);
        leases.map(|lease| (lease.job, lease.epoch)).collect()
    }

    /// The class of a worker's results.
    pub(super) fn class(&self, worker: WorkerId) -> Arc<str> {
        self.links.get(&worker).map_or_else(|| "".into(), |link| link.latest.report.class.as_str().into())
    }

    /// The pool of a worker.
    pub(super) fn pool(&self, worker: WorkerId) -> Option<&str> {
        self.links.get(&worker).map(|link| &*link.latest.report.pool)
    }

    /// The name of a worker.
    pub(super) fn name(&self, worker: WorkerId) -> Arc<str> {
        self.links.get(&worker).map_or_else(|| "gone".into(), |link| link.latest.name.clone())
    }

    /// The latest report of each worker.
    pub(super) fn latest(&self) -> impl Iterator<Item = &Arc<WorkerReport>> {
        self.links.values().map(|link| &link.latest)
    }

    /// The latest report of each worker, and whether the worker's stream is open.
    pub(super) fn latest_with_connection(&self) -> impl Iterator<Item = (&Arc<WorkerReport>, bool)> {
        self.links.values().map(|link| (&link.latest, link.lost_micros.is_none()))
    }

    /// The attached workers, grouped by kind.
    pub(super) fn pools(&self) -> Vec<PoolView> {
        let attached = self.links.values().filter(|link| link.lost_micros.is_none());
        pools::view(attached.map(|link| &*link.latest))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cloakwork_clock::ManualClock;

    use super::*;

    fn report() -> Arc<WorkerReport> {
        Arc::new(WorkerReport {
            worker: WorkerId(1),
            name: "worker".into(),
            report: cloakwork_scheduler::Report::default(),
            waves: Vec::new(),
            resident: Vec::new(),
            resident_bytes: 0,
        })
    }

    #[test]
    fn a_worker_that_comes_back_within_its_lease_goes_on() {
        let limits = Limits { lease_ms: 60_000, report_ms: 1000, ..Limits::default() };
        let time = ManualClock::at(0);
        let mut workers = Workers::new(&limits, time.clock().epoch());
        let (_, stream) = workers.attach(report()).unwrap();
        workers.wish(WorkerId(1), Arc::default());
        time.advance(Duration::from_secs(5));
        assert!(!workers.detach(WorkerId(1), stream), "the worker has not announced its departure");
        assert_eq!(workers.next_lost(), Some(63_000_000), "two report intervals before the lease expires");
        time.advance(Duration::from_secs(57));
        assert_eq!(workers.take_lost(), []);
        let (wishes, again) = workers.attach(report()).unwrap();
        assert_ne!(stream, again);
        assert!(wishes.borrow().is_some(), "the worker keeps its leases");
        assert_eq!(workers.next_lost(), None);
    }

    #[test]
    fn a_worker_that_stays_away_is_lost_before_its_lease_runs_out() {
        let limits = Limits { lease_ms: 60, report_ms: 10, ..Limits::default() };
        let time = ManualClock::at(0);
        let mut workers = Workers::new(&limits, time.clock().epoch());
        let (_, stream) = workers.attach(report()).unwrap();
        workers.detach(WorkerId(1), stream);
        time.advance(Duration::from_millis(40));
        let lost: Vec<WorkerId> = workers.take_lost().into_iter().map(|(worker, _)| worker).collect();
        assert_eq!(lost, [WorkerId(1)]);
        assert_eq!(workers.take_lost(), []);
    }

    #[test]
    fn a_stream_that_nobody_reads_is_lost_without_a_detach() {
        let limits = Limits { lease_ms: 60, report_ms: 10, ..Limits::default() };
        let time = ManualClock::at(0);
        let mut workers = Workers::new(&limits, time.clock().epoch());
        let (wishes, _) = workers.attach(report()).unwrap();
        let mut lost_after = |millis| {
            time.advance(Duration::from_millis(millis));
            workers.take_lost().len()
        };
        assert_eq!(lost_after(1000), 0, "the stream is read");
        drop(wishes);
        assert_eq!(lost_after(1000), 0, "the worker may attach again");
        assert_eq!(lost_after(40), 1);
    }
}
