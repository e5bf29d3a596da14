use std::future::{pending, ready};

use cloakwork_clock::unix_micros_after;
use cloakwork_scheduler::Event;
use tokio::sync::{mpsc, oneshot, watch};

use super::*;
use crate::{
    dispatch::{
        Admitted, Wish,
        tests::{Fixture, TENANT, WORKER, report, yield_often},
    },
    store::tests::new_job,
};

/// Time limit of the jobs. The lease of an attempt is longer.
const TIME_LIMIT: Duration = Duration::from_secs(5);

const ATTEMPT: (JobId, u64) = (JobId(1), 1);

fn loads(fixture: &Fixture) -> Loads {
    Loads::new(fixture.store.clone(), fixture.keystore.clone())
}

fn work() -> Work {
    Work { program: bytes::Bytes::new(), inputs: [].into(), key_parts: Vec::new(), companion_parts: Vec::new() }
}

/// Gives the actor a worker and job 1, and begins to read the job's work.
async fn hand_out(fixture: &Fixture, actor: &mut Actor) -> watch::Receiver<Wish> {
    let report = report(WORKER);
    let (wishes, _) = actor.workers.attach(report.clone()).unwrap();
    actor.step(Event::Reported { worker: WORKER, report: report.report.clone() });
    let job = fixture.large_job(1);
    let deadline_micros = unix_micros_after(fixture.time.clock().unix_micros(), TIME_LIMIT);
    let job = Admitted { meta: Arc::new(JobMeta { deadline_micros, ..(*job.meta).clone() }), ..job };
    let (share, (reply, _answer)) = (FairShare::new(1, 1).share(&TENANT.into()), oneshot::channel());
    actor.submit(job, true, share, reply).await;
    actor.finish().await;
    assert!(matches!(actor.loads.reads.get(&ATTEMPT), Some(Read::Begun(_))));
    wishes
}

/// A read that went on would hold up the reads for later attempts.
#[tokio::test]
async fn a_read_ends_with_its_attempt() {
    let cancel: fn(&Fixture, &mut Actor) = |_, actor| actor.step(Event::CancelRequested { job: JobId(1) });
    let expire: fn(&Fixture, &mut Actor) = |fixture, actor| {
        fixture.time.advance(TIME_LIMIT);
        actor.step(Event::Tick);
    };
    let requeue: fn(&Fixture, &mut Actor) = |_, actor| actor.step(Event::WorkerGone { worker: WORKER, crashed: false });
    for (how, end) in [("cancelled", cancel), ("expired", expire), ("requeued", requeue)] {
        let mut fixture = Fixture::new().await;
        let mut actor = fixture.actor().await;
        let _busy = fixture.hold_readers().await;
        let _wishes = hand_out(&fixture, &mut actor).await;
        yield_often().await;
        end(&fixture, &mut actor);
        assert!(actor.loads.reads.is_empty(), "{how}");
        yield_often().await;
        assert!(actor.loads.try_next().is_none(), "{how}");
        assert_eq!((actor.loads.tasks.len(), actor.loads.turns.tenants()), (0, 0), "{how}");
        // The read may have ended at the same moment.
        actor.loaded(Loaded { worker: WORKER, job: JobId(1), epoch: 1, work: Ok(work()) });
        assert!(actor.loads.reads.is_empty() && actor.loads.due().is_none(), "{how}");
    }
}

#[tokio::test]
async fn an_ended_read_leaves_the_line_and_hides_no_result() {
    let fixture = Fixture::new().await;
    let mut loads = loads(&fixture);
    let [first, second] = [1, 2].map(|number| new_job(TENANT, number).meta);
    loads.spawn(WORKER, 1, &first, pending());
    loads.spawn(WORKER, 1, &second, ready(Ok(work())));
    yield_often().await;
    assert!(loads.try_next().is_none(), "the second read waits for the first");
    loads.forget(JobId(1), 1);
    yield_often().await;
    // The end of the first read is in line before this result.
    assert_eq!(loads.try_next().map(|loaded| loaded.job), Some(JobId(2)));
}

/// After a reload, the same attempt may be read again.
#[tokio::test]
async fn results_from_before_a_reload_are_dropped() {
    let fixture = Fixture::new().await;
    let mut loads = loads(&fixture);
    let meta = new_job(TENANT, 1).meta;
    loads.spawn(WORKER, 1, &meta, ready(Err(database::unavailable())));
    yield_often().await;
    loads.forget_all();
    loads.spawn(WORKER, 1, &meta, ready(Ok(work())));
    yield_often().await;
    assert!(loads.try_next().expect("the new result").work.is_ok());
    assert!(loads.try_next().is_none());
}

#[tokio::test]
async fn a_read_that_panics_counts_as_a_failure_of_the_store() {
    let mut fixture = Fixture::new().await;
    let mut actor = fixture.actor().await;
    let meta = new_job(TENANT, 1).meta;
    actor.loads.spawn(WORKER, 1, &meta, async { panic!("a read") });
    yield_often().await;
    let loaded = actor.loads.try_next().expect("a result");
    assert_eq!(loaded.work.as_ref().expect_err("a failure").reason().grpc, tonic::Code::Unavailable);
    actor.loaded(loaded);
    assert!(matches!(actor.loads.reads.get(&ATTEMPT), Some(Read::Failed)));
    assert!(!actor.loads.begin(WORKER, 1, &meta), "no assignment waits for the read");
}

#[tokio::test]
async fn tenants_take_turns_to_read() {
    let fixture = Fixture::new().await;
    let mut loads = loads(&fixture);
    let (begun, mut order) = mpsc::unbounded_channel();
    for (tenant, number) in [("busy", 1), ("busy", 2), ("busy", 3), ("other", 4)] {
        let begun = begun.clone();
        loads.spawn(WORKER, 1, &new_job(tenant, number).meta, async move {
            begun.send(number).unwrap();
            // The others get in line meanwhile.
            tokio::task::yield_now().await;
            Ok(work())
        });
    }
    for _ in 0..4 {
        loads.next().await;
    }
    let order: Vec<u8> = std::iter::from_fn(|| order.try_recv().ok()).collect();
    assert_eq!(order.len(), 4);
    assert!(order.iter().position(|&number| number == 4) < order.iter().position(|&number| number == 3), "{order:?}");
}

/// An assignment takes time in proportion to the leases of its worker.
#[tokio::test]
async fn assignments_with_work_that_was_read_are_made_at_intervals() {
    let mut fixture = Fixture::new().await;
    let mut actor = fixture.actor().await;
    let wishes = hand_out(&fixture, &mut actor).await;
    let held = || wishes.borrow().as_ref().is_some_and(|leases| leases.contains_key(&ATTEMPT));
    let loaded = actor.loads.next().await;
    let now = Instant::now();
    actor.loads.hand_out_next = now + Duration::from_secs(3600);
    actor.loaded(loaded);
    assert_eq!(actor.loads.due(), Some(actor.loads.hand_out_next));
    actor.finish().await;
    assert!(!held(), "the interval is not over");
    actor.loads.hand_out_next = now;
    actor.finish().await;
    assert!(held());
    assert!(actor.loads.hand_out_next >= now + HAND_OUT_INTERVAL && actor.loads.due().is_none());
}
