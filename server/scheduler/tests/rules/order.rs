//! The order in which workers get jobs, and the causes that end an attempt or a job.

use crate::common::{Bed, SECOND, With, attempt_of, job, of};
use cloakwork_scheduler::{Config, Effect, End, Event, Limit, Outcome, Retry, Stage, Why, WorkerId};

#[test]
fn a_job_goes_to_a_free_worker_in_the_step_that_submits_it() {
    let mut bed = Bed::new(Config::default());
    bed.worker(1, 100);
    let effects = bed.step(Event::Submitted(job(1)));
    assert_eq!(attempt_of(&effects, 1).map(|attempt| (attempt.worker, attempt.epoch)), Some((WorkerId(1), 1)));
    let effects = bed.step(Event::Recorded { job: of(1), epoch: 1 });
    assert_eq!(effects, [Effect::Assign { worker: WorkerId(1), leases: vec![(of(1), 1)] }]);
}

#[test]
fn nothing_is_assigned_before_it_is_recorded() {
    let mut bed = Bed::new(Config::default());
    bed.worker(1, 100);
    bed.step(Event::Submitted(job(1)));
    assert_eq!(bed.core.assignment(WorkerId(1)), []);
    assert!(bed.commit(1, 1, 1).contains(&Effect::Refuse { job: of(1), epoch: 1 }));
}

#[test]
fn a_worker_gets_what_it_wants_and_one_job_at_least() {
    let mut bed = Bed::new(Config::default());
    for id in 1..=10 {
        bed.submit(job(id).cost(40));
    }
    bed.worker(1, 100);
    assert_eq!(bed.core.assignment(WorkerId(1)).len(), 3, "the last job may exceed the wanted cost");
    bed.worker(2, 1);
    assert_eq!(bed.core.assignment(WorkerId(2)).len(), 1);
    bed.worker(3, 0);
    assert_eq!(bed.core.assignment(WorkerId(3)).len(), 0);
}

#[test]
fn a_worker_gets_no_more_jobs_while_the_memory_for_its_jobs_is_full() {
    let mut bed = Bed::new(Config { leased_bytes_per_worker_max: 100, ..Config::default() });
    bed.worker(1, 100);
    (1..=4).for_each(|id| drop(bed.submit(job(id).bytes(60))));
    let held = |bed: &Bed| bed.core.assignment(WorkerId(1)).iter().map(|(job, _)| job.0).collect::<Vec<_>>();
    assert_eq!(held(&bed), [1, 2]);
    bed.commit(1, 1, 1);
    assert_eq!(held(&bed), [2, 3]);
    bed.worker(2, 100);
    assert_eq!(bed.core.assignment(WorkerId(2)), [(of(4), 1)], "another worker has memory of its own");
}

#[test]
fn a_worker_only_gets_sets_that_it_serves() {
    let mut bed = Bed::new(Config::default());
    bed.submit(job(1).set(9));
    bed.worker(1, 100);
    assert_eq!(bed.core.assignment(WorkerId(1)), []);
    bed.report(2, |report| report.sets.push(cloakwork_params::SetId(9)));
    assert_eq!(bed.core.assignment(WorkerId(2)), [(of(1), 1)]);
}

#[test]
fn a_tenant_with_a_thousand_jobs_does_not_starve_one_with_one() {
    let mut bed = Bed::new(Config { quantum_cost: 10, ..Config::default() });
    for id in 1..=1000 {
        bed.submit(job(id).cost(10));
    }
    bed.submit(job(2000).tenant(2).cost(10));
    bed.worker(1, 30);
    assert!(bed.core.assignment(WorkerId(1)).contains(&(of(2000), 1)), "its turn comes after a quantum of the other's");
}

#[test]
fn a_huge_job_costs_its_tenant_as_many_turns() {
    let mut bed = Bed::new(Config { quantum_cost: 10, ..Config::default() });
    bed.submit(job(1).tenant(1).cost(1000));
    bed.submit(job(2).tenant(1).cost(10));
    for id in 100..250 {
        bed.submit(job(id).tenant(2).cost(10));
    }
    bed.worker(1, 1);
    let mut order = Vec::new();
    while order.last() != Some(&of(2)) {
        let (id, epoch) = bed.core.assignment(WorkerId(1))[0];
        order.push(id);
        bed.commit(1, id.0, epoch);
    }
    assert_eq!(order[0], of(1));
    assert!((98..=102).contains(&(order.len() - 2)), "{} jobs of the other between", order.len() - 2);
}

#[test]
fn within_a_tenant_priority_counts_then_deadline_then_age() {
    let mut bed = Bed::new(Config::default());
    bed.submit(job(1));
    bed.submit(job(2));
    bed.submit(job(3).deadline(50 * SECOND));
    bed.submit(job(4).priority(5));
    bed.worker(1, 1);
    let mut order = Vec::new();
    while let Some(&(id, epoch)) = bed.core.assignment(WorkerId(1)).first() {
        order.push(id.0);
        bed.commit(1, id.0, epoch);
    }
    assert_eq!(order, [4, 3, 1, 2]);
}

#[test]
fn jobs_with_a_resident_key_overtake_others_up_to_a_cost() {
    let mut bed = Bed::new(Config { overtaking_cost_max: 50, ..Config::default() });
    bed.submit(job(1).key(1));
    for id in 2..=20 {
        bed.submit(job(id).key(2).cost(10));
    }
    bed.report(1, |report| {
        report.wanted_cost = 1;
        report.resident.push((cloakwork_params::KeyId([2; 16]), cloakwork_params::SetId(1)));
    });
    let mut before = 0;
    while let Some(&(id, epoch)) = bed.core.assignment(WorkerId(1)).first().filter(|lease| lease.0 != of(1)) {
        before += 1;
        bed.commit(1, id.0, epoch);
    }
    assert_eq!(before, 5, "as much as the limit allows");
}

/// Tenants in the order in which a worker with the key of the second tenant computes their jobs.
/// All jobs have the cost 10.
fn served(quantum_cost: u64, jobs_of_first: u128, count: usize) -> Vec<u64> {
    let mut bed = Bed::new(Config { quantum_cost, ..Config::default() });
    for id in 0..jobs_of_first {
        bed.submit(job(1 + id).tenant(1).key(1).cost(10));
    }
    for id in 0..200 {
        bed.submit(job(1001 + id).tenant(2).key(2).cost(10));
    }
    bed.report(1, |report| {
        report.wanted_cost = 1;
        report.resident.push((cloakwork_params::KeyId([2; 16]), cloakwork_params::SetId(1)));
    });
    let mut order = Vec::new();
    while order.len() < count {
        let (id, epoch) = bed.core.assignment(WorkerId(1))[0];
        order.push(if id.0 > 1000 { 2 } else { 1 });
        bed.commit(1, id.0, epoch);
    }
    order
}

/// Otherwise workers load keys for most of their time while jobs of very many keys wait.
#[test]
fn jobs_with_a_resident_key_overtake_the_first_tenant_up_to_a_quantum() {
    let order = served(100, 1, 50);
    assert_eq!(order.iter().position(|tenant| *tenant == 1), Some(10));
}

#[test]
fn a_tenant_with_a_resident_key_gets_at_most_two_quanta_ahead() {
    let mut ahead: i64 = 0;
    let mut most = 0;
    for tenant in served(100, 200, 200) {
        ahead += if tenant == 2 { 10 } else { -10 };
        most = most.max(ahead);
    }
    assert!((100..=210).contains(&most), "{most}");
}

#[test]
fn a_job_goes_to_a_worker_with_its_key_or_else_to_the_least_loaded() {
    let mut bed = Bed::new(Config::default());
    bed.worker(1, 100);
    bed.worker(2, 100);
    bed.submit(job(1).key(1));
    bed.submit(job(2).key(2));
    bed.submit(job(3).key(2));
    assert_eq!(bed.core.assignment(WorkerId(1)), [(of(1), 1)]);
    assert_eq!(bed.core.assignment(WorkerId(2)), [(of(2), 1), (of(3), 1)]);
}

#[test]
fn among_many_full_workers_a_job_finds_those_with_room() {
    let mut bed = Bed::new(Config::default());
    for id in 1..=20 {
        bed.worker(id, 1);
        bed.submit(job(id));
    }
    assert_eq!(attempt_of(&bed.submit(job(21)), 21), None, "all workers are full");
    bed.worker(7, 100);
    bed.worker(12, 100);
    let worker_of = |effects: &[Effect], id| attempt_of(effects, id).map(|attempt| attempt.worker);
    assert_eq!(worker_of(&bed.submit(job(22).key(2)), 22), Some(WorkerId(12)), "the least loaded");
    assert_eq!(worker_of(&bed.submit(job(23).key(2).cost(90)), 23), Some(WorkerId(12)), "the one with the key");
    assert_eq!(worker_of(&bed.submit(job(24)), 24), Some(WorkerId(7)), "both have the key, and this one has less work");
}

#[test]
fn a_worker_with_room_that_reports_other_sets_gets_jobs_of_those_alone() {
    let mut bed = Bed::new(Config::default());
    bed.worker(1, 100);
    bed.report(1, |report| report.sets = vec![cloakwork_params::SetId(9)]);
    assert_eq!(attempt_of(&bed.submit(job(1)), 1), None);
    assert!(attempt_of(&bed.submit(job(2).set(9)), 2).is_some());
}

#[test]
fn a_lease_that_is_not_reported_runs_out_and_its_result_is_refused() {
    let mut bed = Bed::new(Config::default());
    bed.worker(1, 100);
    bed.submit(job(1));
    bed.now += 10 * SECOND;
    bed.report_leases(1, &[]);
    bed.now += 6 * SECOND;
    let effects = bed.step(Event::Tick);
    assert!(
        matches!(effects[0], Effect::Requeued { attempts: 0, epoch: 1, why: Why::LeaseExpired, .. }),
        "{effects:?}"
    );
    assert!(bed.commit(1, 1, 1).contains(&Effect::Refuse { job: of(1), epoch: 1 }));
    assert_eq!(bed.core.stats().counters.refused, 1);
}

#[test]
fn a_reported_lease_lives_on() {
    let mut bed = Bed::new(Config::default());
    bed.worker(1, 100);
    bed.submit(job(1));
    for _ in 0..10 {
        bed.now += 10 * SECOND;
        bed.report_leases(1, &[(1, 1, Stage::Waiting, 0)]);
        assert_eq!(bed.step(Event::Tick), []);
    }
    assert!(bed.commit(1, 1, 1).contains(&Effect::Accept { job: of(1), epoch: 1 }));
}

#[test]
fn a_job_without_progress_loses_its_lease_unless_it_waits() {
    for (stage, why) in [(Stage::Computing, Some(Why::NoProgress)), (Stage::Waiting, None)] {
        let mut bed = Bed::new(Config::default());
        bed.worker(1, 100);
        bed.submit(job(1));
        let mut lost = None;
        for _ in 0..13 {
            bed.now += 10 * SECOND;
            bed.report_leases(1, &[(1, 1, stage, 7)]);
            for effect in bed.step(Event::Tick) {
                if let Effect::Requeued { why, .. } = effect {
                    lost = Some(why);
                }
            }
        }
        assert_eq!(lost, why, "{stage:?}");
    }
}

#[test]
fn a_silent_worker_is_removed() {
    let mut bed = Bed::new(Config::default());
    bed.worker(1, 100);
    bed.submit(job(1));
    bed.now += 20 * SECOND;
    let effects = bed.step(Event::Tick);
    assert!(matches!(effects[..], [Effect::Requeued { why: Why::LeaseExpired, .. }]), "{effects:?}");
    assert_eq!(bed.core.stats().pools.len(), 0);
}

#[test]
fn a_worker_with_withdrawn_leases_gets_no_new_jobs_until_it_releases_them() {
    let mut bed = Bed::new(Config::default());
    bed.worker(1, 100);
    let effects = bed.report_leases(1, &[(77, 3, Stage::Computing, 1)]);
    assert_eq!(effects, [Effect::Assign { worker: WorkerId(1), leases: vec![] }]);
    bed.now += 10 * SECOND;
    bed.report_leases(1, &[(77, 3, Stage::Computing, 1)]);
    bed.now += 10 * SECOND;
    bed.report_leases(1, &[(77, 3, Stage::Computing, 1)]);
    assert_eq!(bed.submit(job(1)), []);
    bed.report_leases(1, &[]);
    assert_eq!(bed.core.assignment(WorkerId(1)), [(of(1), 1)]);
}

#[test]
fn retryable_failures_are_retried_up_to_the_limit_and_others_end_the_job() {
    let mut bed = Bed::new(Config { attempts_max: 3, ..Config::default() });
    bed.worker(1, 100);
    bed.submit(job(1));
    let failed = |retry| Outcome::Failed { retry, reason: "BROKE".into() };
    for epoch in 1..=2 {
        let effects = bed.outcome(1, 1, epoch, failed(Retry::Anywhere));
        assert!(effects.iter().any(|effect| matches!(effect, Effect::Requeued { why: Why::Failed, .. })));
    }
    let end = Effect::Finished { job: of(1), end: End::Failed("BROKE".into()) };
    assert_eq!(bed.outcome(1, 1, 3, failed(Retry::Anywhere))[1], end);
    bed.submit(job(2));
    let effects = bed.outcome(1, 2, 1, failed(Retry::Never));
    assert_eq!(effects[1], Effect::Finished { job: of(2), end: End::Failed("BROKE".into()) });
}

#[test]
fn the_same_result_counts_once() {
    let mut bed = Bed::new(Config::default());
    bed.worker(1, 100);
    bed.submit(job(1));
    let effects = bed.commit(1, 1, 1);
    let end = Effect::Finished { job: of(1), end: End::Succeeded };
    assert_eq!(effects[..2], [Effect::Accept { job: of(1), epoch: 1 }, end]);
    assert_eq!(bed.commit(1, 1, 1)[0], Effect::Refuse { job: of(1), epoch: 1 });
}

#[test]
fn a_cancelled_job_ends_at_once_and_is_withdrawn() {
    let mut bed = Bed::new(Config::default());
    bed.worker(1, 1);
    bed.submit(job(1));
    bed.submit(job(2));
    let end = |id| Effect::Finished { job: of(id), end: End::Cancelled };
    assert_eq!(bed.step(Event::CancelRequested { job: of(2) }), [end(2)]);
    let effects = bed.step(Event::CancelRequested { job: of(1) });
    assert_eq!(effects, [end(1), Effect::Assign { worker: WorkerId(1), leases: vec![] }]);
    assert_eq!(bed.step(Event::CancelRequested { job: of(1) }), []);
    assert_eq!(bed.commit(1, 1, 1)[0], Effect::Refuse { job: of(1), epoch: 1 });
}

#[test]
fn a_deadline_ends_a_job_wherever_it_is() {
    let mut bed = Bed::new(Config::default());
    bed.worker(1, 1);
    bed.submit(job(1).deadline(3 * SECOND));
    bed.submit(job(2).deadline(3 * SECOND));
    assert_eq!(bed.core.next_timer(), Some(3 * SECOND));
    bed.now = 3 * SECOND;
    let effects = bed.step(Event::Tick);
    for id in [1, 2] {
        assert!(effects.contains(&Effect::Finished { job: of(id), end: End::DeadlineExceeded }), "{effects:?}");
    }
    assert!(effects.contains(&Effect::Assign { worker: WorkerId(1), leases: vec![] }), "{effects:?}");
}

#[test]
fn a_worker_that_drains_gets_nothing_new_and_leaves_without_blame() {
    let mut bed = Bed::new(Config::default());
    bed.worker(1, 100);
    bed.submit(job(1));
    bed.report(1, |report| {
        report.draining = true;
        report.leases = crate::common::leases(&[(1, 1, Stage::Computing, 1)]);
    });
    assert_eq!(bed.submit(job(2)), []);
    let effects = bed.step(Event::WorkerGone { worker: WorkerId(1), crashed: false });
    assert!(
        matches!(effects[..], [Effect::Requeued { attempts: 0, suspect: None, why: Why::WorkerLeft, .. }]),
        "{effects:?}"
    );
}

#[test]
fn limits_refuse_with_a_retry_delay() {
    let mut bed = Bed::new(Config { jobs_max: 3, jobs_per_tenant_max: 2, ..Config::default() });
    bed.submit(job(1));
    bed.submit(job(2));
    let refusal = bed.core.admit(cloakwork_scheduler::TenantId(1), None).expect_err("over the limit");
    assert_eq!((refusal.limit, refusal.used, refusal.max), (Limit::JobsPerTenant, 2, 2));
    assert!(refusal.retry_after > 0);
    // A tenant may have a limit of its own.
    assert_eq!(bed.core.admit(cloakwork_scheduler::TenantId(1), Some(3)), Ok(()));
    assert_eq!(bed.core.admit(cloakwork_scheduler::TenantId(2), Some(0)).expect_err("no job at all").max, 0);
    bed.submit(job(3).tenant(2));
    assert_eq!(bed.core.admit(cloakwork_scheduler::TenantId(2), None).expect_err("over the limit").limit, Limit::Jobs);
}

#[test]
fn workers_beyond_the_limit_get_an_empty_assignment() {
    let mut bed = Bed::new(Config { workers_max: 1, ..Config::default() });
    bed.worker(1, 100);
    assert_eq!(bed.report(2, |_| {}), [Effect::Assign { worker: WorkerId(2), leases: vec![] }]);
    assert_eq!(bed.core.stats().pools["cpu"].workers, 1);
}

#[test]
fn an_older_short_job_goes_before_a_long_job_of_its_tenant() {
    let mut bed = Bed::new(Config { quantum_cost: 10, ..Config::default() });
    bed.submit(job(1).cost(5));
    bed.submit(job(2).cost(50));
    bed.worker(1, 1);
    assert_eq!(bed.core.assignment(WorkerId(1)), [(of(1), 1)]);
}

#[test]
fn an_assignment_is_repeated_only_to_a_worker_that_does_not_report_it() {
    let mut bed = Bed::new(Config::default());
    bed.worker(1, 100);
    bed.submit(job(1));
    let effects = bed.report_leases(1, &[(1, 1, Stage::Computing, 1)]);
    assert_eq!(effects, []);
    let effects = bed.report_leases(1, &[]);
    assert_eq!(effects, [Effect::Assign { worker: WorkerId(1), leases: vec![(of(1), 1)] }]);
}

/// While no job waits, the served cost of each tenant is forgotten. A tenant would otherwise wait
/// for others because of what it used alone.
#[test]
fn tenants_begin_evenly_after_a_time_without_waiting_jobs() {
    let mut bed = Bed::new(Config { quantum_cost: 10, ..Config::default() });
    bed.worker(1, 1);
    bed.submit(job(1).tenant(1).cost(1000));
    bed.commit(1, 1, 1);
    bed.worker(1, 0);
    bed.submit(job(2).tenant(1).cost(10));
    bed.submit(job(3).tenant(2).cost(10));
    bed.worker(1, 1);
    assert_eq!(bed.core.assignment(WorkerId(1)), [(of(2), 1)]);
}
