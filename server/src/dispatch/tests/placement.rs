//! Workers that other shards need more.

use cloakwork_scheduler::placement::Load;
use tonic_types::StatusExt as _;

use super::*;
use crate::{
    error::NOT_OWNER,
    shards::{PoolLoad, Seen, Shards},
};

/// The shard of the dispatcher.
const OWN: i32 = 1;

/// Another shard, and the URL of its owner.
const OTHER: i32 = 0;
const OTHER_URL: &str = "http://other";

/// A dispatcher without workers whose database has another shard, with this load.
struct Placing {
    actor: actor::Actor,
    time: ManualClock,
    seen: watch::Sender<Seen>,
    published: watch::Receiver<Vec<PoolLoad>>,
    _fixture: Fixture,
}

fn seen(workers: u32, backlog_millis: u64) -> Seen {
    let load = Load { workers, backlog_millis, term_millis: 0 };
    Seen {
        shards: Shards::owned([(OTHER, OTHER_URL), (OWN, "http://own")]),
        loads: vec![PoolLoad { pool: "cpu".to_owned(), shard: OTHER, load }],
    }
}

impl Placing {
    async fn new(workers: u32, backlog_millis: u64) -> Self {
        let mut fixture = Fixture::new().await;
        fixture.stop().await;
        let time = fixture.time.clone();
        let seen = watch::Sender::new(seen(workers, backlog_millis));
        let (sender, published) = watch::channel(Vec::new());
        let neighbours = Neighbours { shard: OWN, seen: seen.subscribe(), published: sender };
        let parts = Parts { neighbours, ..fixture.parts() };
        let (actor, _) = actor::Actor::restore(parts, mpsc::channel(COMMANDS_MAX).1).await.unwrap();
        // The workers of an earlier owner would attach in this time.
        time.advance(Duration::from_secs(5));
        Self { actor, time, seen, published, _fixture: fixture }
    }

    /// Attaches a worker, or returns the shard and the URL of the refusal.
    fn attach(&mut self, worker: WorkerId, seat: Seat) -> Result<watch::Receiver<Wish>, (String, String)> {
        let now_micros = self.actor.uptime.micros();
        let report = report(worker);
        self.actor.placement.admit(&self.actor.parts.neighbours, now_micros, &report, seat).map_err(|refusal| {
            assert_eq!(refusal.reason(), NOT_OWNER);
            let info = tonic::Status::from(refusal).get_details_error_info().expect("details");
            (info.metadata["shard"].clone(), info.metadata["owner"].clone())
        })?;
        let (wishes, _) = self.actor.workers.attach(report.clone()).unwrap();
        self.report(&report);
        Ok(wishes)
    }

    fn report(&mut self, report: &WorkerReport) {
        let mut event = report.report.clone();
        event.draining |= self.actor.placement.is_leaving(report.worker);
        self.actor.step(Event::Reported { worker: report.worker, report: event });
    }

    /// Lets the next round of the placement run.
    fn round(&mut self) {
        self.time.advance(Duration::from_secs(1));
        let stats = self.actor.scheduler.stats();
        self.actor.place_workers(&stats);
    }

    fn own_workers(&self) -> u32 {
        let PoolLoad { shard, load, .. } = &self.published.borrow()[0];
        assert_eq!(*shard, OWN);
        load.workers
    }
}

fn to_other() -> (String, String) {
    (OTHER.to_string(), OTHER_URL.to_owned())
}

#[tokio::test]
async fn an_idle_worker_goes_to_the_shard_that_needs_it() {
    let mut placing = Placing::new(1, 0).await;
    let [first, second] = [WORKER, WorkerId(2)];
    let mut wishes = [first, second].map(|worker| placing.attach(worker, Seat::Here).unwrap());
    placing.round();
    assert_eq!(placing.own_workers(), 2);
    assert!(!placing.actor.placement.is_leaving(first) && wishes[0].has_changed().is_ok());
    // The other shard gets more work than its worker does in a minute.
    placing.seen.send_replace(seen(1, 60_000));
    placing.round();
    assert!(wishes[0].has_changed().is_err(), "its stream ends");
    assert!(wishes[1].has_changed().is_ok());
    assert_eq!(placing.actor.scheduler.stats().pools["cpu"].workers, 1);
    assert_eq!(placing.attach(first, Seat::Here).unwrap_err(), to_other());
    // The worker counts for this shard until it arrives there, so that the plan stays.
    placing.round();
    assert_eq!(placing.own_workers(), 2);
    assert!(wishes[1].has_changed().is_ok(), "the last worker stays");
    for _ in 0..5 {
        placing.round();
    }
    assert_eq!(placing.own_workers(), 1);
    wishes[0] = placing.attach(first, Seat::Here).expect("the worker may come back");
    assert!(wishes[0].has_changed().is_ok());
}

/// The owner of the other shard would give it jobs.
#[tokio::test]
async fn a_drained_worker_stays_and_counts_for_no_shard() {
    let mut placing = Placing::new(1, 0).await;
    let [drained, second, third] = [WORKER, WorkerId(2), WorkerId(3)];
    let wishes = [drained, second, third].map(|worker| placing.attach(worker, Seat::Here).unwrap());
    assert!(placing.actor.set_drained(drained, true));
    placing.round();
    assert_eq!(placing.own_workers(), 2);
    placing.seen.send_replace(seen(1, 60_000));
    for _ in 0..3 {
        placing.round();
    }
    let stay = wishes.map(|wishes| wishes.has_changed().is_ok());
    assert_eq!(stay, [true, false, true], "one of the two others leaves");
}

#[tokio::test]
async fn a_busy_worker_leaves_after_its_jobs() {
    let mut placing = Placing::new(1, 60_000).await;
    let mut wishes = [WORKER, WorkerId(2)].map(|worker| placing.attach(worker, Seat::Here).unwrap());
    // Both workers still list a lease that they give back.
    for worker in [WORKER, WorkerId(2)] {
        let busy = report_of(worker, &[1]);
        placing.actor.workers.attach(busy.clone()).map(|(again, _)| wishes[worker.0 as usize - 1] = again).unwrap();
        placing.report(&busy);
    }
    placing.round();
    let leaving = || [WORKER, WorkerId(2)].map(|worker| placing.actor.placement.is_leaving(worker));
    assert_eq!(leaving(), [true, false]);
    assert!(wishes[0].has_changed().is_ok(), "it holds a job");
    placing.report(&report_of(WORKER, &[1]));
    assert_eq!(placing.actor.scheduler.stats().pools["cpu"].draining, 1, "it gets no new jobs");
    // The other shard needs it no more.
    placing.seen.send_replace(seen(1, 0));
    placing.round();
    placing.report(&report_of(WORKER, &[1]));
    assert_eq!(placing.actor.scheduler.stats().pools["cpu"].draining, 0);
}

#[tokio::test]
async fn a_new_worker_joins_the_shard_that_needs_it_and_an_embedded_one_stays() {
    let mut placing = Placing::new(0, 0).await;
    let _first = placing.attach(WORKER, Seat::Fixed).expect("an embedded worker serves its server");
    placing.round();
    assert_eq!(placing.attach(WorkerId(2), Seat::Any).unwrap_err(), to_other());
    let _second = placing.attach(WorkerId(2), Seat::Here).expect("a worker that was sent here");
    placing.seen.send_replace(seen(1, 600_000));
    placing.round();
    assert!(!placing.actor.placement.is_leaving(WORKER));
    // Without another shard, there is nothing to place.
    placing.seen.send_replace(Seen::default());
    placing.round();
    let _third = placing.attach(WorkerId(3), Seat::Any).expect("the only shard");
}
