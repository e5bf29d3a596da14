//! Long jobs that exceed the cost that a worker wants, and the jobs beside them.

use cloakwork_params::SetId;
use cloakwork_scheduler::{Config, Event, JobId, LeaseReport, NewJob, Stage, WorkerId};

use crate::common::{Bed, SECOND, With, attempt_of, job, of};

/// A scheduler whose short jobs cost at most 10; a worker wants 100.
fn bed() -> Bed {
    Bed::new(Config { quantum_cost: 10, ..Config::default() })
}

/// A job that takes hours.
fn giant(id: u128) -> NewJob {
    job(id).cost(100_000)
}

fn holds(bed: &Bed, worker: u128, id: u128) -> bool {
    bed.core.assignment(WorkerId(worker)).iter().any(|(job, _)| *job == of(id))
}

/// Reports how many rows of each held job are done.
fn progress(bed: &mut Bed, worker: u128, rows_done: impl Fn(JobId) -> u64) {
    let held = bed.core.assignment(WorkerId(worker));
    bed.report(worker, |report| {
        let lease = |&(job, epoch): &(JobId, u64)| {
            let rows_done = rows_done(job);
            LeaseReport { job, epoch, stage: Stage::Computing, progress: rows_done, rows_done }
        };
        report.leases = held.iter().map(lease).collect();
    });
}

#[test]
fn single_bootstraps_go_to_a_worker_with_a_giant_job_in_the_step_that_submits_them() {
    for tenant in [2, 1] {
        let mut bed = bed();
        bed.worker(1, 100);
        bed.submit(giant(1).tenant(1));
        for id in 10..1000 {
            let effects = bed.step(Event::Submitted(job(id).tenant(tenant)));
            assert!(attempt_of(&effects, id).is_some(), "job {id} waits");
            bed.step(Event::Recorded { job: of(id), epoch: 1 });
            bed.commit(1, id, 1);
        }
        assert!(holds(&bed, 1, 1), "the giant goes on");
    }
}

#[test]
fn short_jobs_beside_a_giant_are_as_many_as_the_worker_wants() {
    let mut bed = bed();
    bed.worker(1, 100);
    bed.submit(giant(1));
    (10..40).for_each(|id| drop(bed.submit(job(id).tenant(2).cost(10))));
    assert_eq!(bed.core.assignment(WorkerId(1)).len(), 1 + 10);
}

#[test]
fn many_long_jobs_of_a_tenant_do_not_shut_out_other_tenants() {
    let mut bed = bed();
    (1..=50).for_each(|id| drop(bed.submit(giant(id).tenant(1))));
    bed.worker(1, 100);
    assert_eq!(bed.core.assignment(WorkerId(1)).len(), 1, "the worker holds one long job of the tenant at a time");
    let effects = bed.step(Event::Submitted(job(60).tenant(2).cost(90)));
    assert!(attempt_of(&effects, 60).is_some(), "a job below the wanted cost is assigned at once");
    bed.step(Event::Recorded { job: of(60), epoch: 1 });
    bed.submit(job(61).tenant(2).cost(90));
    assert!(!holds(&bed, 1, 61), "the tenant's second long job waits for the first");
    bed.commit(1, 60, 1);
    assert!(holds(&bed, 1, 61));
}

#[test]
fn a_giant_joins_another_only_when_no_other_worker_comes() {
    let mut bed = bed();
    bed.worker(1, 100);
    bed.submit(giant(1).tenant(1));
    bed.submit(giant(2).tenant(2));
    assert!(!holds(&bed, 1, 2));
    bed.worker(2, 100);
    assert!(holds(&bed, 2, 2), "an empty worker takes it at once");
    bed.submit(giant(3).tenant(3));
    for _ in 0..4 {
        assert!(!holds(&bed, 1, 3) && !holds(&bed, 2, 3));
        bed.now += Config::default().lease_micros / 4;
        progress(&mut bed, 1, |_| 0);
        progress(&mut bed, 2, |_| 0);
    }
    assert!(holds(&bed, 1, 3) || holds(&bed, 2, 3), "the job has waited for a lease's time");
}

#[test]
fn a_giant_that_does_not_fit_yet_does_not_delay_another_tenants_long_job() {
    let mut bed = bed();
    bed.worker(1, 100);
    bed.submit(giant(1).tenant(1));
    (2..=10).for_each(|id| drop(bed.submit(giant(id).tenant(id as u64))));
    assert_eq!(bed.core.assignment(WorkerId(1)).len(), 1, "the giants wait for a better place");
    let effects = bed.step(Event::Submitted(job(20).tenant(20).cost(90)));
    assert!(attempt_of(&effects, 20).is_some(), "a job below the wanted cost is assigned at once");
}

#[test]
fn a_worker_takes_long_jobs_of_at_most_eight_tenants() {
    let mut bed = bed();
    bed.worker(1, 100);
    (1..=20).for_each(|id| drop(bed.submit(giant(id).tenant(id as u64))));
    for _ in 0..3 {
        bed.now += 10 * SECOND;
        progress(&mut bed, 1, |_| 0);
    }
    assert_eq!(bed.core.assignment(WorkerId(1)).len(), 8);
    let effects = bed.step(Event::Submitted(job(100).tenant(100)));
    assert!(attempt_of(&effects, 100).is_some(), "short jobs have separate places");
}

#[test]
fn finished_rows_no_longer_count_as_held_cost() {
    let mut bed = bed();
    bed.worker(1, 100);
    (1..=3).for_each(|id| drop(bed.submit(job(id).cost(150))));
    assert_eq!(bed.core.assignment(WorkerId(1)).len(), 1);
    progress(&mut bed, 1, |_| 50);
    assert_eq!(bed.core.assignment(WorkerId(1)).len(), 1, "100 are left, and 100 are wanted");
    progress(&mut bed, 1, |_| 51);
    assert_eq!(bed.core.assignment(WorkerId(1)).len(), 2, "the next job comes before the first has ended");
    // A report of fewer rows than before, or of more than there are, changes nothing.
    progress(&mut bed, 1, |_| 0);
    progress(&mut bed, 1, |_| u64::MAX);
    assert_eq!(bed.core.stats().pools["cpu"].held_cost, 150, "the cost of the third job, which has just come");
}

#[test]
fn suspects_wait_for_a_giant_job_while_other_jobs_go_on() {
    let mut bed = bed();
    bed.worker(1, 100);
    bed.submit(giant(1));
    bed.worker(2, 100);
    (2..=3).for_each(|id| drop(bed.submit(job(id))));
    let suspects: Vec<u128> = (2..=3).filter(|id| holds(&bed, 2, *id)).collect();
    assert_eq!(suspects, [2, 3], "the worker that lacks work comes first");
    bed.run(Event::WorkerGone { worker: WorkerId(2), crashed: true });
    for id in 10..20 {
        let effects = bed.step(Event::Submitted(job(id).tenant(2)));
        assert!(attempt_of(&effects, id).is_some(), "job {id} waits");
        bed.step(Event::Recorded { job: of(id), epoch: 1 });
        progress(&mut bed, 1, |_| 0);
    }
    bed.submit(job(30).tenant(3).cost(50));
    assert!(!holds(&bed, 1, 30), "another long job would delay the suspects for ever");
    progress(&mut bed, 1, |_| 99_950);
    assert_eq!(bed.submit(job(31).tenant(2)), [], "the worker is reserved, because its last job ends soon");
    for (id, epoch) in bed.core.assignment(WorkerId(1)) {
        bed.commit(1, id.0, epoch);
    }
    bed.report(1, |report| report.sets = vec![SetId(1)]);
    assert!(holds(&bed, 1, 2) ^ holds(&bed, 1, 3), "half of the suspects, and nothing else");
    assert_eq!(bed.core.assignment(WorkerId(1)).len(), 1);
}

#[test]
fn short_jobs_that_fill_a_worker_leave_the_order_to_turns() {
    let mut bed = bed();
    bed.worker(1, 100);
    (10..20).for_each(|id| drop(bed.submit(job(id).tenant(1).cost(10))));
    bed.submit(job(30).tenant(2).cost(10));
    assert_eq!(bed.submit(job(1).tenant(3).cost(90)), [], "there will be room in a moment");
    bed.commit(1, 10, 1);
    assert!(holds(&bed, 1, 30) && !holds(&bed, 1, 1), "first come, first served");
    bed.commit(1, 11, 1);
    assert!(holds(&bed, 1, 1));
}

/// A worker has at most one long job of each tenant. The best worker for a job must have room for
/// it, or the job would wait although another worker has room.
#[test]
fn a_second_long_job_of_a_tenant_goes_to_another_worker_in_the_step_that_submits_it() {
    let mut bed = bed();
    bed.worker(1, 100);
    bed.submit(giant(1).tenant(1));
    bed.worker(2, 100);
    bed.submit(giant(2).tenant(2));
    let effects = bed.submit(job(3).tenant(1).cost(50));
    assert_eq!(attempt_of(&effects, 3).map(|attempt| attempt.worker), Some(WorkerId(2)));
}

#[test]
fn a_worker_that_wants_nothing_gets_no_long_job_however_long_it_waits() {
    let mut bed = bed();
    bed.submit(giant(1));
    for _ in 0..3 {
        bed.now += 10 * SECOND;
        bed.worker(1, 0);
    }
    assert_eq!(bed.core.assignment(WorkerId(1)), []);
}
