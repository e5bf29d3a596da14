//! Decisions about jobs, and the sizes and settings that they depend on.

use cloakwork_storage::Survival;

use super::*;
use crate::store::Write;

#[test]
fn a_write_takes_a_unit_for_each_object_and_for_each_piece_of_its_bytes() {
    let content = |bytes: usize| Content::inline(Bytes::from(vec![0; bytes]));
    assert_eq!(units(&[]), 1);
    assert_eq!(units(&[content(UNIT_BYTES - 1)]), 2);
    assert_eq!(units(&[content(UNIT_BYTES), content(2 * UNIT_BYTES)]), 6);
}

#[test]
fn limits_reach_the_scheduler_in_its_units() {
    // The scheduler has defaults of its own, which differ from these.
    let limits = Limits {
        queued_jobs: 11,
        tenant_queued_jobs: 12,
        workers: 13,
        job_attempts: 14,
        lease_ms: 15,
        progress_ms: 16,
        ..Limits::default()
    };
    let config = actor::config(&limits);
    assert_eq!(config.lease_micros, limits.lease_ms * 1000);
    assert_eq!(config.progress_timeout_micros, limits.progress_ms * 1000);
    assert_eq!(u64::from(config.attempts_max), limits.job_attempts);
    assert_eq!(
        [config.jobs_max, config.jobs_per_tenant_max, config.workers_max].map(|count| count as u64),
        [limits.queued_jobs, limits.tenant_queued_jobs, limits.workers]
    );
    // Jobs of a tenant may overtake the tenant's first job by the cost of sixteen turns.
    assert_eq!((config.quantum_cost, config.overtaking_cost_max), (actor::QUANTUM_COST, 16 * actor::QUANTUM_COST));
}

#[tokio::test]
async fn a_draining_dispatcher_refuses_new_jobs_and_ends_those_that_it_has() {
    let mut fixture = Fixture::new().await;
    let mut watched = fixture.submit(1, true).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    fixture.dispatcher.drain().await.unwrap();
    let refused = fixture.submit(2, true).await.unwrap().expect_err("refused");
    assert_eq!(refused.reason().code, "DRAINING");
    assert!(fixture.commit(1).await.unwrap().unwrap());
    succeeded(&mut watched).await;
}

#[tokio::test]
async fn refused_results_count_as_stale_and_accepted_ones_do_not() {
    let mut fixture = Fixture::new().await;
    let _watched = fixture.submit(1, true).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    let is_counted = |fixture: &Fixture| {
        fixture
            .telemetry
            .scrape(cloakwork_telemetry::Format::Prometheus)
            .lines()
            .any(|line| line == "cloakwork_stale_results_total 1")
    };
    assert!(fixture.commit(1).await.unwrap().unwrap() && !is_counted(&fixture));
    assert!(!fixture.commit(1).await.unwrap().unwrap() && is_counted(&fixture));
}

/// The embedded worker of a process that has ended cannot return, so its leases need not expire.
#[tokio::test]
async fn a_job_of_the_embedded_worker_is_tried_again_at_once_after_a_crash() {
    let mut fixture = Fixture::new().await;
    fixture.store.begin_embedded_worker(WORKER.0).await.unwrap();
    // The next process reads the job's work from the store, for which a large job needs no key.
    let _watched = fixture.send(fixture.large_job(1), true).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    fixture.dispatcher.settled().await.unwrap();
    fixture.restart().await;
    (fixture.wishes, _) = fixture.dispatcher.attach(report(WorkerId(2)), Seat::Here).await.unwrap();
    // The clock stands still, so no lease expires.
    fixture.wished(&[1]).await;
}

/// A job that was submitted by a waiting call and is watched by another call has two callers, and
/// the second one relies on the job.
#[tokio::test]
async fn the_end_of_a_watched_job_waits_for_the_store() {
    let mut fixture = Fixture::new().await;
    let watched = fixture.submit(1, false).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    assert!(fixture.dispatcher.watch(TENANT, JobId(1)).await.unwrap().is_some());
    fixture.ends_after_the_commit(watched).await;
}

/// The caller has the names of the outputs only, and so relies on the server for their bytes.
#[tokio::test]
async fn the_end_of_a_job_with_outputs_by_name_waits_for_the_store() {
    let mut fixture = Fixture::new().await;
    let job = fixture.job(1);
    let job = Admitted { meta: Arc::new(JobMeta { inline_outputs: false, ..(*job.meta).clone() }), ..job };
    let watched = fixture.send(job, false).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    fixture.ends_after_the_commit(watched).await;
}

#[test]
fn the_work_of_a_job_counts_its_program_inputs_and_key_parts() {
    let work = work([Content::inline(Bytes::from_static(&[0; 100])), Content::inline(Bytes::from_static(&[0; 20]))]);
    assert_eq!(work.bytes(), 7 + 100 + 20 + 3 * size_of::<Digest>());
}

/// A worker may read the blobs of its leased jobs, and no others.
#[test]
fn a_lease_permits_reads_of_the_stored_inputs_and_key_parts_of_its_job_alone() {
    let stored = Content { digest: [4; 32], size_bytes: 1, bytes: None };
    let inline = Content::inline(Bytes::from_static(b"inline"));
    let now = std::time::Instant::now();
    let (meta, work, calls) = (new_job(TENANT, 1).meta, Arc::new(work([stored, inline.clone()])), Arc::default());
    let leased = Leased { meta, epoch: 1, work, since: now, deadline: now, calls, check: None, class: "".into() };
    for number in 1..=4 {
        assert!(leased.needs(&digest(number)), "blob {number}");
    }
    assert!(!leased.needs(&digest(5)) && !leased.needs(&inline.blob()));
    assert!(!leased.needs(&Digest { size_bytes: 2, ..digest(1) }), "the size is a part of the digest");
}

/// Work whose program has seven bytes. Two of its key parts belong to the key of the set, and the
/// third belongs to the key of the companion.
fn work(inputs: [Content; 2]) -> live::Work {
    live::Work {
        program: Bytes::from_static(&[0; 7]),
        inputs: inputs.into(),
        key_parts: vec![digest(1), digest(2)],
        companion_parts: vec![digest(3)],
    }
}

fn digest(number: u8) -> Digest {
    Digest { blake3: [number; 32], size_bytes: 1 }
}

#[tokio::test]
async fn a_job_that_only_the_database_has_is_a_violation_of_an_invariant() {
    let mut fixture = Fixture::new().await;
    let _watched = fixture.submit(1, true).await.unwrap().unwrap();
    fixture.wished(&[1]).await;
    let violations = |fixture: &Fixture, count: u64| {
        let line = format!("cloakwork_invariant_violations_total{{invariant=\"live_jobs\"}} {count}");
        fixture.telemetry.scrape(cloakwork_telemetry::Format::Prometheus).lines().any(|found| found == line)
    };
    assert!(violations(&fixture, 0));
    // A job that no dispatcher has accepted.
    fixture.store.apply(Survival::Crash, &[Write::Submitted(new_job(TENANT, 9))]).await.unwrap();
    fixture.time.advance(Duration::from_secs(61));
    let begun = Instant::now();
    while !violations(&fixture, 1) {
        assert!(begun.elapsed() < STEP_TIMEOUT, "the job is not noticed");
        fixture.dispatcher.settled().await.unwrap();
        sleep(Duration::from_millis(1)).await;
    }
}
