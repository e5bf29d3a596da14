//! How a poison job is found, on a separate worker and on an embedded worker that kills the server
//! too.

use std::collections::BTreeSet;

use crate::common::{Bed, SECOND, With, attempts, job, leases, of};
use cloakwork_params::SetId;
use cloakwork_scheduler::{
    Config, Effect, End, Event, JobId, NewJob, Outcome, RestoredJob, Retry, Stage, Time, Why, WorkerId, reasons,
};

/// Runs jobs 1 to `count` on workers that die whenever they hold the culprit. Returns the number of
/// crashes.
fn hunt(count: u128, culprit: u128, config: Config) -> u32 {
    let mut bed = Bed::new(config);
    (1..=count).for_each(|id| drop(bed.submit(job(id))));
    let (mut crashes, mut ends) = (0, BTreeSet::new());
    for worker in 1.. {
        bed.report(worker, |report| report.wanted_cost = 10_000);
        let held = bed.core.assignment(WorkerId(worker));
        let effects = if held.iter().any(|(id, _)| *id == of(culprit)) {
            crashes += 1;
            bed.run(Event::WorkerGone { worker: WorkerId(worker), crashed: true })
        } else {
            let commits = held.iter().flat_map(|(id, epoch)| bed.commit(worker, id.0, *epoch));
            let mut effects: Vec<Effect> = commits.collect();
            effects.extend(bed.run(Event::WorkerGone { worker: WorkerId(worker), crashed: false }));
            effects
        };
        for effect in effects {
            if let Effect::Finished { job, end } = effect {
                let poison = End::Failed(reasons::POISON.into());
                assert_eq!(end, if job == of(culprit) { poison } else { End::Succeeded });
                assert!(ends.insert(job), "{job:?} ends twice");
            }
        }
        if ends.len() as u128 == count {
            break;
        }
    }
    crashes
}

#[test]
fn only_the_culprit_fails_after_few_crashes() {
    for (count, culprit) in [(1, 1), (2, 2), (7, 3), (64, 64), (100, 1), (1000, 421)] {
        let config = Config::default();
        let most = u128::BITS - (count - 1u128).leading_zeros() + config.solo_crashes_max;
        let crashes = hunt(count, culprit, config);
        assert!(crashes <= most, "{count} jobs: {crashes} crashes");
    }
}

#[test]
fn suspects_are_tried_with_nothing_beside_them() {
    let mut bed = Bed::new(Config::default());
    (1..=4).for_each(|id| drop(bed.submit(job(id))));
    bed.worker(1, 100);
    let effects = bed.run(Event::WorkerGone { worker: WorkerId(1), crashed: true });
    assert_eq!(
        effects.iter().filter(|effect| matches!(effect, Effect::Requeued { why: Why::WorkerCrashed, .. })).count(),
        4
    );
    bed.submit(job(5));
    bed.worker(2, 100);
    let held = bed.core.assignment(WorkerId(2));
    assert_eq!(held, [(of(1), 2), (of(2), 2)], "half of the suspects and no other jobs");
    bed.submit(job(6));
    assert_eq!(bed.core.assignment(WorkerId(2)), held);
    // Other workers compute other jobs meanwhile.
    bed.worker(3, 100);
    assert_eq!(bed.core.assignment(WorkerId(3)), [(of(5), 1), (of(6), 1)]);
}

#[test]
fn suspects_and_others_take_turns_on_the_only_worker() {
    let mut bed = Bed::new(Config::default());
    (1..=4).for_each(|id| drop(bed.submit(job(id))));
    bed.worker(1, 100);
    bed.run(Event::WorkerGone { worker: WorkerId(1), crashed: true });
    let (mut next, mut turns) = (10, Vec::new());
    for _ in 0..4 {
        // Other jobs are always waiting.
        (0..3).for_each(|_| {
            next += 1;
            bed.submit(job(next));
        });
        bed.worker(2, 2);
        let held = bed.core.assignment(WorkerId(2));
        turns.push(held.iter().all(|(id, _)| id.0 <= 4));
        held.iter().for_each(|(id, epoch)| drop(bed.commit(2, id.0, *epoch)));
        while let [(id, epoch), ..] = bed.core.assignment(WorkerId(2))[..] {
            turns.push(id.0 <= 4);
            bed.commit(2, id.0, epoch);
        }
    }
    let suspects = turns.iter().filter(|suspect| **suspect).count();
    assert!(suspects >= 2, "suspects get their turn: {turns:?}");
    assert!(turns.iter().filter(|suspect| !**suspect).count() >= 2, "so do others: {turns:?}");
}

#[test]
fn a_failure_clears_a_suspect_as_a_success_does() {
    let mut bed = Bed::new(Config::default());
    bed.submit(job(1));
    bed.worker(1, 100);
    bed.run(Event::WorkerGone { worker: WorkerId(1), crashed: true });
    assert_eq!(bed.core.stats().suspects, 1);
    bed.worker(2, 100);
    let failed = Outcome::Failed { retry: Retry::Anywhere, reason: "IO".into() };
    let effects = bed.outcome(2, 1, 2, failed);
    let cleared = |effect: &Effect| matches!(effect, Effect::Requeued { suspect: None, .. });
    assert!(effects.iter().any(cleared), "{effects:?}");
}

/// The server dies with its embedded worker each time, so all state must pass through the store.
#[test]
fn the_culprit_is_found_over_restarts() {
    let culprit = of(37);
    let mut store: Vec<RestoredJob> = (1..=50)
        .map(|id| RestoredJob {
            job: job(id).cost(1),
            submitted: 0,
            attempts: 0,
            epoch: 0,
            suspect: None,
            solo_crashes: 0,
            holder: None,
        })
        .collect();
    let mut failed = Vec::new();
    let mut lives = 0;
    while !store.is_empty() {
        lives += 1;
        assert!(lives <= 20, "{store:?}");
        let mut bed = Bed::new(Config::default());
        for row in store.clone() {
            bed.step(Event::Restored(row));
        }
        let dead = (1..lives).map(WorkerId).collect();
        let effects = bed.step(Event::Recovered { dead });
        apply(&mut store, &mut failed, &effects);
        // One process: it reports and works until it gets the culprit.
        loop {
            let effects = bed.report(lives, |report| report.wanted_cost = 10_000);
            apply(&mut store, &mut failed, &effects);
            let held = bed.core.assignment(WorkerId(lives));
            if held.is_empty() || held.iter().any(|(id, _)| *id == culprit) {
                break;
            }
            for (id, epoch) in held {
                let effects = bed.commit(lives, id.0, epoch);
                apply(&mut store, &mut failed, &effects);
            }
        }
    }
    assert_eq!(failed, [culprit]);
    assert!(lives <= 6 + 3 + 1, "{lives} lives");
}

fn apply(store: &mut Vec<RestoredJob>, failed: &mut Vec<JobId>, effects: &[Effect]) {
    for attempt in attempts(effects) {
        let row = store.iter_mut().find(|row| row.job.id == attempt.job).expect("stored");
        (row.epoch, row.suspect, row.holder) = (attempt.epoch, attempt.suspect, Some(attempt.worker));
        (row.attempts, row.solo_crashes) = (attempt.attempts, attempt.solo_crashes);
    }
    for effect in effects {
        match effect {
            Effect::Requeued { job, suspect, solo_crashes, .. } => {
                let row = store.iter_mut().find(|row| row.job.id == *job).expect("stored");
                // A report may have handed the job out again in the same step.
                if attempts(effects).iter().all(|attempt| attempt.job != *job) {
                    row.holder = None;
                }
                (row.suspect, row.solo_crashes) = (*suspect, *solo_crashes);
            }
            Effect::Finished { job, end } => {
                store.retain(|row| row.job.id != *job);
                if *end != End::Succeeded {
                    failed.push(*job);
                }
            }
            _ => {}
        }
    }
}

#[test]
fn a_worker_may_go_on_after_the_server_was_away() {
    let mut bed = Bed::new(Config::default());
    let row = RestoredJob {
        job: job(1),
        submitted: 0,
        attempts: 1,
        epoch: 4,
        suspect: None,
        solo_crashes: 0,
        holder: Some(WorkerId(9)),
    };
    bed.step(Event::Restored(row));
    bed.step(Event::Recovered { dead: vec![] });
    assert_eq!(bed.core.assignment(WorkerId(9)), [(of(1), 4)]);
    assert_eq!(bed.commit(9, 1, 3)[0], Effect::Refuse { job: of(1), epoch: 3 });
    assert_eq!(bed.commit(9, 1, 4)[0], Effect::Accept { job: of(1), epoch: 4 });
}

/// A crashed worker's jobs 1 and 2, which only worker 2 and only worker 3 can try. Half of the
/// workers try suspects at a time, so job 2 waits for the end of the trial of job 1.
fn one_trial_at_a_time(first: NewJob) -> Bed {
    let mut bed = Bed::new(Config::default());
    bed.report(1, |report| report.sets.push(SetId(2)));
    bed.submit(first);
    bed.submit(job(2).set(2));
    bed.run(Event::WorkerGone { worker: WorkerId(1), crashed: true });
    for set in [1, 2] {
        bed.report(1 + u128::from(set), |report| report.sets = vec![SetId(set)]);
    }
    assert_eq!([2, 3].map(|worker| bed.core.assignment(WorkerId(worker)).len()), [1, 0]);
    bed
}

#[test]
fn the_end_of_a_trial_begins_the_next_one_on_another_worker() {
    let mut bed = one_trial_at_a_time(job(1));
    let effects = bed.commit(2, 1, 2);
    assert_eq!(attempts(&effects).iter().map(|attempt| attempt.worker).collect::<Vec<_>>(), [WorkerId(3)]);
}

#[test]
fn an_acquittal_begins_the_next_trial_on_another_worker() {
    let mut bed = one_trial_at_a_time(job(1).cost(1 << 30).deadline(Time::MAX / 2));
    for _ in 0..100 {
        bed.now += 5 * SECOND;
        bed.report(3, |report| report.sets = vec![SetId(2)]);
        let progress = bed.now;
        let effects = bed.report_leases(2, &[(1, 2, Stage::Computing, progress)]);
        if bed.core.stats().counters.acquitted > 0 {
            return assert_eq!(attempts(&effects)[0].worker, WorkerId(3));
        }
        assert_eq!(bed.core.assignment(WorkerId(3)), []);
    }
    panic!("job 1 was not acquitted");
}

#[test]
fn half_of_the_workers_try_suspects() {
    let mut bed = Bed::new(Config::default());
    bed.worker(1, 100);
    [1, 2].into_iter().for_each(|id| drop(bed.submit(job(id))));
    (2..=5).for_each(|id| drop(bed.worker(id, 100)));
    let effects = bed.run(Event::WorkerGone { worker: WorkerId(1), crashed: true });
    assert_eq!(attempts(&effects).len(), 2, "two of four workers try one job each");
}

#[test]
fn a_worker_that_still_computes_a_cancelled_job_tries_no_suspect() {
    let mut bed = Bed::new(Config::default());
    bed.worker(2, 1);
    bed.submit(job(900).tenant(9));
    let held = [(900, 1, Stage::Computing, 1)];
    bed.report_leases(2, &held);
    bed.worker(1, 100);
    bed.report(2, |report| (report.wanted_cost, report.leases) = (0, leases(&held)));
    bed.submit(job(1));
    bed.report_leases(2, &held);
    bed.run(Event::WorkerGone { worker: WorkerId(1), crashed: true });
    bed.run(Event::CancelRequested { job: of(900) });
    bed.report_leases(2, &held);
    assert_eq!(bed.core.assignment(WorkerId(2)), [], "a crash would be blamed on the suspect");
    bed.report_leases(2, &[]);
    assert_eq!(bed.core.assignment(WorkerId(2)), [(of(1), 2)]);
}
