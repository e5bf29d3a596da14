//! Jobs that are too large for a worker.

use crate::common::{Bed, SECOND, With, attempt_of, attempts, job, leases, of};
use cloakwork_scheduler::{Config, Effect, End, Event, Outcome, Retry, Stage, WorkerId};

/// A worker with room, and a worker that is busy with another tenant's job.
fn one_free_and_one_busy() -> Bed {
    let mut bed = Bed::new(Config::default());
    bed.worker(2, 1);
    bed.submit(job(900).tenant(9));
    bed.worker(1, 100);
    bed
}

fn refuse(bed: &mut Bed, worker: u128, id: u128, epoch: u64) -> Vec<Effect> {
    bed.outcome(worker, id, epoch, Outcome::Failed { retry: Retry::Elsewhere, reason: "TOO_LARGE".into() })
}

/// Lets 15 seconds (a lease) pass, in which workers report.
fn rest(bed: &mut Bed, workers: &[u128]) -> Vec<Effect> {
    let mut effects = Vec::new();
    for _ in 0..15 {
        bed.now += SECOND;
        workers.iter().for_each(|id| effects.extend(bed.worker(*id, 100)));
        effects.extend(bed.run(Event::Tick));
    }
    effects
}

#[test]
fn a_job_that_one_worker_refused_waits_for_another_busy_worker() {
    let mut bed = one_free_and_one_busy();
    bed.submit(job(1));
    let effects = refuse(&mut bed, 1, 1, 1);
    assert_eq!(attempts(&effects), [], "worker 1 has room and has refused it; worker 2 is busy");
    // Reports do not change this, nor do smaller jobs of the tenant, which worker 1 still takes.
    assert_eq!(attempts(&bed.worker(1, 100)), []);
    assert_eq!(attempt_of(&bed.submit(job(2)), 2).map(|attempt| attempt.worker), Some(WorkerId(1)));
    let effects = bed.commit(2, 900, 1);
    let attempt = attempt_of(&effects, 1).expect("worker 2 is free");
    assert_eq!((attempt.worker, attempt.epoch, attempt.attempts), (WorkerId(2), 2, 1));
}

#[test]
fn a_job_of_higher_rank_that_was_refused_is_still_first() {
    let mut bed = one_free_and_one_busy();
    bed.submit(job(1).priority(5));
    refuse(&mut bed, 1, 1, 1);
    bed.worker(1, 0);
    bed.submit(job(2).priority(1));
    bed.submit(job(3).priority(9));
    bed.worker(2, 3);
    let held: Vec<_> = bed.core.assignment(WorkerId(2)).into_iter().map(|(id, _)| id).collect();
    assert_eq!(held, [of(1), of(3), of(900)]);
}

#[test]
fn a_job_that_its_only_worker_refuses_rests_is_retried_and_finally_fails() {
    let mut bed = Bed::new(Config { attempts_max: 3, ..Config::default() });
    bed.worker(1, 100);
    bed.report(2, |report| report.sets = vec![cloakwork_params::SetId(7)]);
    bed.submit(job(1));
    for epoch in 1..=2 {
        assert_eq!(attempts(&refuse(&mut bed, 1, 1, epoch)), [], "the job rests");
        assert_eq!(attempt_of(&rest(&mut bed, &[1]), 1).map(|attempt| attempt.epoch), Some(epoch + 1));
    }
    let end = Effect::Finished { job: of(1), end: End::Failed("TOO_LARGE".into()) };
    assert!(refuse(&mut bed, 1, 1, 3).contains(&end));
}

#[test]
fn a_job_refused_by_all_workers_becomes_open_to_all_again() {
    let mut bed = Bed::new(Config::default());
    bed.worker(1, 100);
    bed.worker(2, 100);
    let first = attempt_of(&bed.submit(job(1)), 1).expect("handed out").worker;
    let second = attempt_of(&refuse(&mut bed, first.0, 1, 1), 1).expect("handed out").worker;
    assert_ne!(first, second);
    assert_eq!(attempts(&refuse(&mut bed, second.0, 1, 2)), []);
    assert_eq!(attempt_of(&rest(&mut bed, &[1, 2]), 1).map(|attempt| attempt.epoch), Some(3));
}

#[test]
fn a_resting_job_goes_to_a_new_worker() {
    let mut bed = Bed::new(Config::default());
    bed.worker(1, 100);
    bed.submit(job(1));
    refuse(&mut bed, 1, 1, 1);
    bed.now += SECOND;
    assert_eq!(attempt_of(&bed.worker(2, 100), 1).map(|attempt| attempt.worker), Some(WorkerId(2)));
    bed.now += 10 * SECOND;
    assert_eq!(attempts(&bed.run(Event::Tick)), [], "the job's rest is over");
}

#[test]
fn rests_double_and_last_about_half_a_minute_in_total() {
    let mut bed = Bed::new(Config::default());
    bed.worker(1, 100);
    bed.submit(job(1));
    let mut ends = Vec::new();
    for epoch in 1..=4 {
        refuse(&mut bed, 1, 1, epoch);
        let began = bed.now;
        while bed.core.assignment(WorkerId(1)).is_empty() {
            bed.now += SECOND / 8;
            bed.worker(1, 100);
            bed.run(Event::Tick);
        }
        ends.push((bed.now - began) * 8 / SECOND);
    }
    assert_eq!(ends, [15, 30, 60, 120], "eighths of a second");
}

#[test]
fn a_refused_job_opens_to_all_when_its_last_possible_worker_leaves_or_drains() {
    type Leave = fn(&mut Bed) -> Vec<Effect>;
    let ways: [Leave; 4] = [
        |bed| bed.run(Event::WorkerGone { worker: WorkerId(2), crashed: false }),
        |bed| bed.report(2, |report| report.draining = true),
        |bed| bed.report(2, |report| report.sets.clear()),
        |bed| {
            bed.now += Config::default().lease_micros;
            let held = leases(&[]);
            let mut effects = bed.report(1, |report| report.leases.clone_from(&held));
            effects.extend(bed.run(Event::Tick));
            effects
        },
    ];
    for (number, leave) in ways.into_iter().enumerate() {
        let mut bed = one_free_and_one_busy();
        bed.submit(job(1));
        refuse(&mut bed, 1, 1, 1);
        let attempt = attempt_of(&leave(&mut bed), 1).unwrap_or_else(|| panic!("way {number}: no worker gets the job"));
        assert_eq!(attempt.worker, WorkerId(1), "way {number}");
    }
}

#[test]
fn a_job_handed_back_by_a_draining_worker_is_open_to_all() {
    let mut bed = one_free_and_one_busy();
    bed.submit(job(1));
    refuse(&mut bed, 1, 1, 1);
    bed.commit(2, 900, 1);
    assert_eq!(bed.core.assignment(WorkerId(2)), [(of(1), 2)]);
    bed.report(2, |report| (report.draining, report.leases) = (true, leases(&[(1, 2, Stage::Computing, 1)])));
    let failed = Outcome::Failed { retry: Retry::Anywhere, reason: "BROKE".into() };
    let effects = bed.outcome(2, 1, 2, failed);
    assert_eq!(attempt_of(&effects, 1).map(|attempt| attempt.worker), Some(WorkerId(1)));
}

#[test]
fn many_refused_jobs_of_one_tenant_do_not_pass_those_of_another() {
    let mut bed = Bed::new(Config { quantum_cost: 1, ..Config::default() });
    bed.worker(2, 1);
    bed.submit(job(900).tenant(9));
    bed.worker(1, 100);
    for id in 1..=50 {
        bed.submit(job(id));
        refuse(&mut bed, 1, id, 1);
    }
    bed.worker(1, 0);
    for id in 101..=110 {
        bed.submit(job(id).tenant(2));
    }
    bed.commit(2, 900, 1);
    let mut order = Vec::new();
    while let [(id, epoch)] = bed.core.assignment(WorkerId(2))[..] {
        order.push(id.0);
        bed.commit(2, id.0, epoch);
    }
    let last = order.iter().rposition(|id| *id > 100).expect("the others ran");
    assert!(last < 22, "tenant 2 has its turns: {order:?}");
    assert_eq!(order.len(), 60);
}

#[test]
fn the_loss_of_a_lease_that_never_began_counts_no_attempt() {
    let mut bed = Bed::new(Config { attempts_max: 2, ..Config::default() });
    bed.worker(1, 100);
    bed.submit(job(1));
    for epoch in 1..=10 {
        assert_eq!(bed.core.assignment(WorkerId(1)), [(of(1), epoch)], "the job does not end because of lost leases");
        bed.now += 14 * SECOND;
        bed.report_leases(1, &[]);
        bed.now += SECOND;
        let effects = bed.run(Event::Tick);
        assert_eq!(attempt_of(&effects, 1).map(|attempt| attempt.attempts), Some(0), "{effects:?}");
    }
    // The loss of an attempt that had begun does count.
    bed.report_leases(1, &[(1, 11, Stage::Computing, 1)]);
    for _ in 0..15 {
        bed.now += SECOND;
        bed.report_leases(1, &[]);
    }
    let effects = bed.run(Event::Tick);
    assert_eq!(attempt_of(&effects, 1).map(|attempt| attempt.attempts), Some(1), "{effects:?}");
}

#[test]
fn a_refused_job_does_not_return_to_its_worker_while_another_could_take_it() {
    let mut bed = one_free_and_one_busy();
    bed.submit(job(1));
    refuse(&mut bed, 1, 1, 1);
    for _ in 0..10 {
        bed.now += SECOND;
        let effects = [bed.worker(1, 100), bed.run(Event::Tick)].concat();
        assert_eq!(attempts(&effects), []);
    }
    let effects = bed.commit(2, 900, 1);
    assert_eq!(attempt_of(&effects, 1).map(|attempt| attempt.worker), Some(WorkerId(2)));
}
