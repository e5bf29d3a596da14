//! How a suspect that computes for hours is acquitted, and how a job that crashes late is found
//! even so.

use cloakwork_scheduler::{
    Config, Effect, End, Event, JobId, LeaseReport, NewJob, RestoredJob, Stage, SuspectId, Time, WorkerId, reasons,
};

use crate::common::{Bed, SECOND, With, job, of};

const LEASE: Time = 15 * SECOND;

/// A job that takes days.
fn giant(id: u128) -> NewJob {
    job(id).cost(1 << 30).deadline(Time::MAX / 2)
}

fn holds(bed: &Bed, worker: u128, id: u128) -> bool {
    bed.core.assignment(WorkerId(worker)).iter().any(|(job, _)| *job == of(id))
}

/// Advances time with reports of a worker. Jobs that `computes` selects are computing; the others
/// wait.
fn go_on(bed: &mut Bed, worker: u128, time: Time, computes: impl Fn(JobId) -> bool) {
    let end = bed.now + time;
    while bed.now < end {
        bed.now += (LEASE / 3).min(end - bed.now);
        let (held, progress) = (bed.core.assignment(WorkerId(worker)), bed.now);
        bed.report(worker, |report| {
            let lease = |&(job, epoch): &(JobId, u64)| match computes(job) {
                true => LeaseReport { job, epoch, stage: Stage::Computing, progress, rows_done: 0 },
                false => LeaseReport { job, epoch, stage: Stage::Waiting, progress: 3, rows_done: 0 },
            };
            report.leases = held.iter().map(lease).collect();
        });
    }
}

fn crash(bed: &mut Bed, worker: u128) -> Vec<Effect> {
    bed.run(Event::WorkerGone { worker: WorkerId(worker), crashed: true })
}

#[test]
fn a_suspect_that_goes_on_for_two_leases_lets_others_in() {
    let mut bed = Bed::new(Config::default());
    bed.submit(giant(1));
    bed.worker(1, 100);
    crash(&mut bed, 1);
    bed.worker(2, 100);
    assert!(holds(&bed, 2, 1), "the suspect is tried");
    bed.submit(job(2).tenant(2));
    go_on(&mut bed, 2, 2 * LEASE, |_| true);
    assert!(!holds(&bed, 2, 2), "computing counts from the first report, just after the start");
    go_on(&mut bed, 2, LEASE, |_| true);
    assert!(holds(&bed, 2, 2) && holds(&bed, 2, 1));
}

#[test]
fn a_suspect_that_does_not_compute_is_not_acquitted() {
    let mut bed = Bed::new(Config { progress_timeout_micros: 3600 * SECOND, ..Config::default() });
    bed.submit(giant(1));
    bed.worker(1, 100);
    crash(&mut bed, 1);
    bed.worker(2, 100);
    bed.submit(job(2).tenant(2));
    go_on(&mut bed, 2, 20 * LEASE, |_| false);
    assert!(holds(&bed, 2, 1) && !holds(&bed, 2, 2));
}

#[test]
fn suspects_that_wait_behind_an_acquitted_job_stay_suspects() {
    let mut bed = Bed::new(Config::default());
    (1..=4).for_each(|id| drop(bed.submit(job(id).cost(50).deadline(Time::MAX / 2))));
    bed.worker(1, 1000);
    assert_eq!(bed.core.assignment(WorkerId(1)).len(), 4);
    crash(&mut bed, 1);
    bed.worker(2, 1000);
    assert!(holds(&bed, 2, 1) && holds(&bed, 2, 2));
    bed.submit(job(5).tenant(2));
    go_on(&mut bed, 2, 4 * LEASE, |id| id == of(1));
    assert!(holds(&bed, 2, 1) && holds(&bed, 2, 5) && !holds(&bed, 2, 2));
    assert_eq!(bed.core.stats().suspects, 3);
    bed.commit(2, 5, 1);
    bed.commit(2, 1, 2);
    go_on(&mut bed, 2, LEASE, |_| false);
    assert!(holds(&bed, 2, 2) ^ holds(&bed, 2, 3), "then it is the turn of the others");
}

/// However late a job crashes its worker, it ends as poison after few crashes, and no other job
/// does.
#[test]
fn a_job_that_crashes_late_is_found_with_others_beside_it() {
    for late in [LEASE / 2, 3 * LEASE, 40 * LEASE, 500 * LEASE] {
        let mut bed = Bed::new(Config { quantum_cost: 10, ..Config::default() });
        bed.submit(giant(1).tenant(1));
        let (mut crashes, mut ended) = (0, false);
        while !ended {
            let worker = 10 + crashes;
            // Other jobs come with every new worker, and run for as long.
            bed.submit(job(100 + crashes).tenant(2 + crashes as u64).cost(50).deadline(Time::MAX / 2));
            bed.worker(worker, 100);
            go_on(&mut bed, worker, LEASE, |_| true);
            while !holds(&bed, worker, 1) {
                for (id, epoch) in bed.core.assignment(WorkerId(worker)) {
                    bed.commit(worker, id.0, epoch);
                }
                go_on(&mut bed, worker, LEASE, |_| true);
            }
            // A job waits to join it, and does so after its acquittal.
            bed.submit(job(200 + crashes).tenant(200 + crashes as u64).cost(5).deadline(Time::MAX / 2));
            go_on(&mut bed, worker, late, |_| true);
            crashes += 1;
            assert!(crashes < 40, "{late}");
            for effect in crash(&mut bed, worker) {
                if let Effect::Finished { job, end } = effect {
                    assert_eq!((job, end), (of(1), End::Failed(reasons::POISON.into())), "{late}");
                    ended = true;
                }
            }
        }
        // The time of a trial doubles until it exceeds the job's time to crash.
        let doublings = u128::from(Time::BITS - (late / LEASE).leading_zeros());
        let most = 2 * doublings + u128::from(Config::default().solo_crashes_max) + 2;
        assert!(crashes <= most, "{late}: {crashes} crashes");
    }
}

#[test]
fn an_acquittal_that_the_store_does_not_know_is_renewed_where_others_have_joined() {
    let row = |id, suspect| RestoredJob {
        job: giant(id),
        submitted: 0,
        attempts: 0,
        epoch: 2,
        suspect,
        solo_crashes: 1,
        holder: Some(WorkerId(9)),
    };
    for joined in [true, false] {
        let mut bed = Bed::new(Config::default());
        bed.step(Event::Restored(row(1, Some(SuspectId(4)))));
        if joined {
            bed.step(Event::Restored(row(2, None)));
        }
        bed.step(Event::Recovered { dead: vec![] });
        bed.submit(job(3).tenant(3));
        go_on(&mut bed, 9, SECOND, |_| true);
        assert_eq!(holds(&bed, 9, 3), joined, "alone, it is tried once more");
        go_on(&mut bed, 9, 4 * LEASE, |_| true);
        assert!(holds(&bed, 9, 3));
        // The job's earlier solo crashes still count.
        bed.commit(9, 3, 1);
        if !joined {
            crash(&mut bed, 9);
            bed.worker(10, 100);
            let effects = crash(&mut bed, 10);
            let poison = |effect: &Effect| matches!(effect, Effect::Finished { end: End::Failed(_), .. });
            assert!(effects.iter().any(poison), "the third: {effects:?}");
        }
    }
}
