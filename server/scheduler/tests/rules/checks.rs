//! How rows are computed a second time, and how a worker is quarantined.

use cloakwork_params::SetId;
use cloakwork_scheduler::{
    CheckEnd, Config, Effect, Event, JobId, NewCheck, Outcome, Reason, Retry, Stage, Time, Why, WorkerId,
};

use crate::common::{Bed, SECOND, With, attempt_of, attempts, job, of};

const CHECK: JobId = JobId(1000);
const LEASE: Time = 15 * SECOND;

/// A check of rows that worker 1 has computed.
fn check() -> NewCheck {
    NewCheck {
        id: CHECK,
        group: job(1).group,
        cost: 1,
        class: "class".to_owned(),
        excluded: vec![WorkerId(1)],
        urgent: false,
        until: 600 * SECOND,
    }
}

/// A service whose workers have one class each.
fn service(classes: &[&str]) -> Bed {
    let mut bed = Bed::new(Config { lease_micros: LEASE, ..Config::default() });
    for (class, id) in classes.iter().zip(1..) {
        report(&mut bed, id, class);
    }
    bed
}

fn report(bed: &mut Bed, id: u128, class: &str) -> Vec<Effect> {
    let leases = bed.core.assignment(WorkerId(id));
    let held: Vec<_> = leases.iter().map(|(job, epoch)| (job.0, *epoch, Stage::Computing, bed.now)).collect();
    bed.report(id, |report| {
        report.class = class.to_owned();
        report.leases = crate::common::leases(&held);
    })
}

fn submit(bed: &mut Bed, check: NewCheck) -> Option<CheckEnd> {
    end_of(&bed.run(Event::CheckSubmitted(check)))
}

fn end_of(effects: &[Effect]) -> Option<CheckEnd> {
    effects.iter().find_map(|effect| match effect {
        Effect::CheckEnded { check: CHECK, end } => Some(*end),
        _ => None,
    })
}

/// The workers that hold the check.
fn holders(bed: &Bed) -> Vec<u128> {
    let holds = |id: &u128| bed.core.assignment(WorkerId(*id)).iter().any(|(job, _)| *job == CHECK);
    (1..=4).filter(holds).collect()
}

#[test]
fn a_check_runs_on_another_worker_of_the_class() {
    let mut bed = service(&["class", "other", "", "class"]);
    assert_eq!(submit(&mut bed, check()), None);
    assert_eq!(holders(&bed), [4]);
    let stats = bed.core.stats();
    assert_eq!((stats.checks, stats.queued, stats.running, stats.tenants), (1, 0, 0, 0), "a check is no job");
    assert_eq!((stats.counters.submitted, stats.counters.attempts), (0, 0));
    // Another worker cannot hand the rows in.
    assert!(bed.commit(2, CHECK.0, 1).contains(&Effect::Refuse { job: CHECK, epoch: 1 }));
    let effects = bed.commit(4, CHECK.0, 1);
    assert!(effects.contains(&Effect::Accept { job: CHECK, epoch: 1 }));
    assert_eq!(end_of(&effects), Some(CheckEnd::Computed { worker: WorkerId(4) }));
    assert!(attempts(&effects).is_empty(), "nothing about a check is recorded");
    assert_eq!(holders(&bed), []);
    assert!(bed.commit(4, CHECK.0, 1).contains(&Effect::Refuse { job: CHECK, epoch: 1 }), "once only");
}

#[test]
fn a_check_without_a_worker_ends_at_once() {
    for classes in [&["class"][..], &["class", "other"], &["class", ""]] {
        let mut bed = service(classes);
        assert!(!bed.core.can_check("class", SetId(1), &[WorkerId(1)]));
        assert_eq!(submit(&mut bed, check()), Some(CheckEnd::NoWorker), "{classes:?}");
    }
    let mut bed = service(&["", ""]);
    assert_eq!(submit(&mut bed, NewCheck { class: String::new(), ..check() }), Some(CheckEnd::NoWorker));
    let mut bed = service(&["class", "class"]);
    let other_set = NewCheck { group: job(1).set(2).group, ..check() };
    assert_eq!(submit(&mut bed, other_set), Some(CheckEnd::NoWorker));
}

/// A worker wants no work until it has a certificate.
#[test]
fn a_check_waits_for_a_worker_that_wants_no_work_at_present() {
    let mut bed = service(&["class"]);
    bed.report(2, |report| {
        report.class = "class".to_owned();
        report.wanted_cost = 0;
    });
    assert!(bed.core.can_check("class", SetId(1), &[WorkerId(1)]));
    assert_eq!((submit(&mut bed, check()), holders(&bed)), (None, vec![]));
    report(&mut bed, 2, "class");
    assert_eq!(holders(&bed), [2]);
}

#[test]
fn checks_are_limited_in_number() {
    let mut bed = Bed::new(Config { checks_max: 1, ..Config::default() });
    for id in [1, 2] {
        report(&mut bed, id, "class");
    }
    let first = NewCheck { id: JobId(1001), ..check() };
    assert_eq!(submit(&mut bed, first), None);
    assert_eq!(submit(&mut bed, check()), Some(CheckEnd::Crowded));
}

#[test]
fn no_check_takes_the_place_of_a_job() {
    let mut bed = service(&["class", "class"]);
    assert_eq!(submit(&mut bed, NewCheck { cost: 100, ..check() }), None);
    assert_eq!(holders(&bed), [2]);
    // Worker 2 wants a cost of 100, and the check takes none of it.
    bed.report(1, |report| report.draining = true);
    let effects = bed.submit(job(1).cost(60));
    assert_eq!(attempt_of(&effects, 1).map(|attempt| attempt.worker), Some(WorkerId(2)));
    let effects = bed.submit(job(2).cost(60));
    assert_eq!(attempt_of(&effects, 2).map(|attempt| attempt.worker), Some(WorkerId(2)));
}

#[test]
fn a_check_waits_for_a_worker_that_lacks_work_but_not_for_ever() {
    let mut bed = service(&["class", "class"]);
    for id in 1..=4 {
        bed.submit(job(id).cost(100));
    }
    assert_eq!(submit(&mut bed, check()), None);
    assert_eq!(holders(&bed), [], "the workers are full");
    bed.now += LEASE - 1;
    report(&mut bed, 2, "class");
    assert_eq!(holders(&bed), []);
    bed.now += 1;
    report(&mut bed, 2, "class");
    assert_eq!(holders(&bed), [2], "after a lease's time the check runs beside jobs");
    // One for each worker, so that a share of the device is left to the jobs.
    let second = NewCheck { id: JobId(1001), ..check() };
    submit(&mut bed, second);
    bed.now += LEASE;
    report(&mut bed, 2, "class");
    assert_eq!(bed.core.assignment(WorkerId(2)).iter().filter(|(id, _)| id.0 >= 1000).count(), 1);
}

#[test]
fn an_urgent_check_runs_beside_jobs_at_once() {
    let mut bed = service(&["class", "class"]);
    for id in 1..=4 {
        bed.submit(job(id).cost(100));
    }
    assert_eq!(submit(&mut bed, NewCheck { urgent: true, ..check() }), None);
    assert_eq!(holders(&bed), [2]);
}

#[test]
fn a_check_ends_with_its_time_its_failure_or_its_worker() {
    let failed = || Outcome::Failed { retry: Retry::Anywhere, reason: Reason::Borrowed("DEVICE_FAILED") };
    let mut bed = service(&["class", "class"]);
    submit(&mut bed, check());
    assert_eq!(end_of(&bed.outcome(2, CHECK.0, 1, failed())), Some(CheckEnd::Failed { worker: WorkerId(2) }));
    for crashed in [false, true] {
        let mut bed = service(&["class", "class"]);
        submit(&mut bed, check());
        let effects = bed.run(Event::WorkerGone { worker: WorkerId(2), crashed });
        assert_eq!(end_of(&effects), Some(CheckEnd::WorkerLost { worker: WorkerId(2) }));
    }
    let mut bed = service(&["class", "class"]);
    submit(&mut bed, NewCheck { until: 5 * SECOND, ..check() });
    assert!(bed.core.next_timer().is_some_and(|due| due <= 5 * SECOND));
    bed.now = 5 * SECOND;
    assert_eq!(end_of(&bed.run(Event::Tick)), Some(CheckEnd::Expired));
    assert_eq!(holders(&bed), []);
}

#[test]
fn a_worker_that_drains_gives_its_checks_back() {
    let mut bed = service(&["class", "class", "class"]);
    submit(&mut bed, check());
    let [holder] = holders(&bed)[..] else { panic!("one worker holds the check") };
    let other = 5 - holder;
    bed.report(holder, |report| {
        report.class = "class".to_owned();
        report.draining = true;
    });
    assert_eq!(holders(&bed), [other]);
}

#[test]
fn a_job_beside_a_check_is_suspected_of_a_crash_but_not_convicted() {
    let config = Config { solo_crashes_max: 1, ..Config::default() };
    let mut bed = Bed::new(config);
    for id in [1, 2] {
        report(&mut bed, id, "class");
    }
    submit(&mut bed, check());
    bed.report(1, |report| report.draining = true);
    bed.submit(job(1));
    assert_eq!(holders(&bed), [2]);
    let effects = bed.run(Event::WorkerGone { worker: WorkerId(2), crashed: true });
    let requeued = effects.iter().find_map(|effect| match effect {
        Effect::Requeued { suspect, solo_crashes, attempts, .. } => Some((suspect.is_some(), *solo_crashes, *attempts)),
        _ => None,
    });
    assert_eq!(requeued, Some((true, 0, 0)), "{effects:?}");
    // Alone, the job is convicted.
    bed.worker(3, 100);
    let effects = bed.run(Event::WorkerGone { worker: WorkerId(3), crashed: true });
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Finished { .. })), "{effects:?}");
}

#[test]
fn a_trial_of_suspects_takes_the_checks_off_its_worker() {
    let mut bed = service(&["class", "class"]);
    bed.report(3, |_| ());
    bed.run(Event::Submitted(job(1)));
    assert_eq!(bed.core.assignment(WorkerId(1)), [(of(1), 1)]);
    submit(&mut bed, check());
    assert_eq!(holders(&bed), [2]);
    bed.report(3, |report| report.draining = true);
    bed.run(Event::WorkerGone { worker: WorkerId(1), crashed: true });
    assert_eq!(holders(&bed), [], "worker 2 is to try a suspect");
    assert_eq!(bed.core.assignment(WorkerId(2)), [], "the check may still run there");
    report(&mut bed, 2, "class");
    assert_eq!(bed.core.assignment(WorkerId(2)), [(of(1), 2)]);
}

#[test]
fn a_quarantined_worker_has_no_work_and_gets_none() {
    let mut bed = service(&["class", "class"]);
    bed.report(2, |report| {
        report.class = "class".to_owned();
        report.draining = true;
    });
    bed.submit(job(1));
    report(&mut bed, 2, "class");
    submit(&mut bed, NewCheck { excluded: vec![WorkerId(2)], ..check() });
    assert_eq!(holders(&bed), [1]);
    let effects = bed.run(Event::Quarantined { worker: WorkerId(1) });
    // Its check waits for another worker.
    assert_eq!((end_of(&effects), holders(&bed)), (None, vec![]));
    let requeued = |effect: &Effect| matches!(effect, Effect::Requeued { attempts: 0, why: Why::Quarantined, .. });
    assert!(effects.iter().any(requeued), "{effects:?}");
    assert_eq!(attempt_of(&effects, 1).map(|attempt| (attempt.worker, attempt.attempts)), Some((WorkerId(2), 0)));
    assert!(bed.commit(1, 1, 1).contains(&Effect::Refuse { job: of(1), epoch: 1 }));
    assert!(!bed.core.can_check("class", SetId(1), &[WorkerId(2)]));
    // Nothing changes with further reports, nor after the worker was away.
    report(&mut bed, 1, "class");
    bed.run(Event::WorkerGone { worker: WorkerId(1), crashed: true });
    report(&mut bed, 1, "class");
    bed.run(Event::WorkerGone { worker: WorkerId(2), crashed: false });
    assert_eq!(bed.core.assignment(WorkerId(1)), []);
    assert_eq!(bed.core.stats().queued, 1);
}
