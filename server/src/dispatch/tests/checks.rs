//! Rows of accepted results that another worker computes a second time.

use std::{collections::HashSet, sync::Mutex};

use super::*;
use crate::error::WORKER_QUARANTINED;

const FIRST: WorkerId = WORKER;
const SECOND: WorkerId = WorkerId(2);
const THIRD: WorkerId = WorkerId(3);
const CLASS: &str = "class";

/// A dispatcher with workers of one class, and the leases of each.
struct Service {
    fixture: Fixture,
    wishes: Vec<(WorkerId, watch::Receiver<Wish>, u64)>,
    /// Jobs and checks whose outcome was handed in. Their leases may last a moment longer.
    handed_in: Mutex<HashSet<JobId>>,
}

fn report_of_class(worker: WorkerId, class: &str) -> Arc<WorkerReport> {
    let like = report(worker);
    let report = Report { class: class.to_owned(), ..like.report.clone() };
    let name = format!("worker {}", worker.0).into();
    Arc::new(WorkerReport { worker, name, report, waves: Vec::new(), resident: Vec::new(), resident_bytes: 0 })
}

/// The first two rows, as a worker has computed them.
fn sample(digest: u8) -> Sample {
    Sample { rows: vec![0, 1], digests: Some(vec![[digest; 32]]) }
}

impl Service {
    async fn new(workers: &[WorkerId]) -> Self {
        let (fixture, wishes, handed_in) = (Fixture::new().await, Vec::new(), Mutex::default());
        let mut service = Self { fixture, wishes, handed_in };
        for worker in workers {
            service.attach(*worker, CLASS).await;
        }
        service
    }

    /// A service whose first worker holds these jobs, and then two others of its class.
    async fn with_jobs_of_first(numbers: &[u8]) -> Self {
        let mut service = Self::new(&[FIRST]).await;
        for number in numbers {
            service.fixture.submit(*number, true).await.unwrap().unwrap();
            service.job_of_first(*number).await;
        }
        for worker in [SECOND, THIRD] {
            service.attach(worker, CLASS).await;
        }
        service
    }

    /// The lease of the first worker on a job.
    async fn job_of_first(&mut self, number: u8) -> Arc<Leased> {
        self.lease(FIRST, |leased| leased.meta.id == JobId(number.into())).await
    }

    async fn attach(&mut self, worker: WorkerId, class: &str) {
        let (wishes, stream) =
            self.fixture.dispatcher.attach(report_of_class(worker, class), Seat::Here).await.unwrap();
        self.wishes.push((worker, wishes, stream));
    }

    async fn detach(&mut self, worker: WorkerId) {
        let (_, _, stream) = self.wishes.iter().find(|(id, ..)| *id == worker).expect("attached");
        let like = report_of_class(worker, CLASS);
        let report = Report { draining: true, ..like.report.clone() };
        let last = WorkerReport {
            worker,
            name: like.name.clone(),
            report,
            waves: Vec::new(),
            resident: Vec::new(),
            resident_bytes: 0,
        };
        self.fixture.dispatcher.report(*stream, Arc::new(last)).await.unwrap();
        self.fixture.dispatcher.detach(worker, *stream).await.unwrap();
        self.wishes.retain(|(id, ..)| *id != worker);
    }

    /// Waits for a lease that `fits`.
    async fn lease(&mut self, worker: WorkerId, fits: impl Fn(&Leased) -> bool) -> Arc<Leased> {
        let (_, wishes, _) = self.wishes.iter_mut().find(|(id, ..)| *id == worker).expect("attached");
        let found = |wish: &Wish| wish.iter().flat_map(|leases| leases.values()).find(|leased| fits(leased)).cloned();
        let wish =
            timeout(STEP_TIMEOUT, wishes.wait_for(|wish| found(wish).is_some())).await.expect("a lease").unwrap();
        found(&wish).expect("a lease")
    }

    async fn check_of(&mut self, worker: WorkerId) -> Arc<Leased> {
        self.lease(worker, |leased| leased.check.is_some()).await
    }

    async fn holds_check(&mut self, worker: WorkerId) -> bool {
        self.fixture.settles().await;
        let found = self.wished().into_iter().find(|(id, _)| *id == worker);
        let wish = found.and_then(|(_, wish)| wish);
        wish.iter().flat_map(|leases| leases.values()).any(|leased| leased.check.is_some())
    }

    /// Hands in the outcome of a job, with the rows that are drawn of its outputs.
    async fn hand_in(
        &self,
        worker: WorkerId,
        leased: &Leased,
        result: Result<Vec<Content>, Failure>,
        sample: Option<Sample>,
    ) -> Result<bool, ApiError> {
        self.commit(worker, leased, result, sample, None).await
    }

    /// Hands in the rows of a check.
    async fn hand_in_rows(&self, worker: WorkerId, leased: &Leased, digest: u8) -> bool {
        let rows = Some(vec![[digest; 32]]);
        self.commit(worker, leased, Ok(Vec::new()), None, rows).await.expect("no error")
    }

    async fn commit(
        &self,
        worker: WorkerId,
        leased: &Leased,
        result: Result<Vec<Content>, Failure>,
        sample: Option<Sample>,
        check: Option<Vec<[u8; 32]>>,
    ) -> Result<bool, ApiError> {
        self.handed_in.lock().unwrap().insert(leased.meta.id);
        let now = std::time::Instant::now();
        let outcome = Outcome {
            worker,
            job: leased.meta.id,
            epoch: leased.epoch,
            result,
            memory: None,
            sample,
            check,
            lowering: v1::Lowering::Depth,
            latency: LatencyRecord::default(),
            attestation: None,
            returned: now,
            stored: now,
        };
        self.fixture.dispatcher.commit(TENANT, outcome).await
    }

    /// Has a worker succeed with a job whose sample it is.
    async fn first_result(&mut self, number: u8, sample: Sample) -> WorkerId {
        self.fixture.submit(number, true).await.unwrap().unwrap();
        let worker = self.holder(number).await;
        let leased = self.lease(worker, |leased| leased.meta.id == JobId(number.into())).await;
        let outputs = Ok(vec![Content::inline(Bytes::from_static(b"output"))]);
        assert!(self.hand_in(worker, &leased, outputs, Some(sample)).await.unwrap());
        worker
    }

    /// The worker that holds a job.
    async fn holder(&mut self, number: u8) -> WorkerId {
        self.fixture.settles().await;
        let holds = |wish: &Wish| wish.iter().flat_map(|leases| leases.keys()).any(|(id, _)| id.0 == number.into());
        let holder = self.wished().into_iter().find(|(_, wish)| holds(wish));
        holder.map(|(worker, _)| worker).expect("a holder")
    }

    async fn answer(&mut self, worker: WorkerId, digest: u8) {
        let leased = self.check_of(worker).await;
        assert!(self.hand_in_rows(worker, &leased, digest).await);
        self.fixture.settles().await;
    }

    /// Hands in that a worker has failed with its check.
    async fn fail(&mut self, worker: WorkerId) {
        let leased = self.check_of(worker).await;
        let error = v1::JobError { reason: "DEVICE_FAILED".to_owned(), message: String::new() };
        let failure = Failure { error, retry: cloakwork_scheduler::Retry::Anywhere };
        assert!(self.hand_in(worker, &leased, Err(failure), None).await.unwrap());
        self.fixture.settles().await;
    }

    /// The leases of each worker whose stream is open.
    fn wished(&self) -> Vec<(WorkerId, Wish)> {
        let open = self.wishes.iter().filter(|(_, wishes, _)| wishes.has_changed().is_ok());
        open.map(|(worker, wishes, _)| (*worker, wishes.borrow().clone())).collect()
    }

    /// The worker that holds a check.
    async fn checker(&mut self) -> WorkerId {
        self.check_of_rows(2).await.0
    }

    /// A check of this number of rows, and its worker.
    async fn check_of_rows(&self, rows: usize) -> (WorkerId, Arc<Leased>) {
        self.held(|_, leased| leased.check.as_ref().is_some_and(|check| check.rows.len() == rows)).await
    }

    /// Waits for a lease that `fits`, of any worker.
    async fn held(&self, fits: impl Fn(WorkerId, &Leased) -> bool) -> (WorkerId, Arc<Leased>) {
        let begun = Instant::now();
        loop {
            for (worker, wish) in self.wished() {
                let is_new = |leased: &&Arc<Leased>| !self.handed_in.lock().unwrap().contains(&leased.meta.id);
                let mut leases = wish.iter().flat_map(|leases| leases.values()).filter(is_new);
                if let Some(leased) = leases.find(|leased| fits(worker, leased)) {
                    return (worker, leased.clone());
                }
            }
            assert!(begun.elapsed() < STEP_TIMEOUT, "a worker gets the lease");
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Whether a worker is refused as quarantined.
    async fn is_quarantined(&self, worker: WorkerId) -> bool {
        match self.fixture.dispatcher.leased(worker, JobId(0), 1).await {
            Ok(_) => {
                self.fixture.dispatcher.refuse_quarantined(worker).await.expect("it may attach");
                false
            }
            Err(error) => {
                assert_eq!(error.reason(), WORKER_QUARANTINED, "{error}");
                let refused = self.fixture.dispatcher.refuse_quarantined(worker).await.unwrap_err();
                assert_eq!(refused.reason(), WORKER_QUARANTINED, "{refused}");
                true
            }
        }
    }

    fn assert_metrics(&self, lines: &[&str]) {
        let scraped = self.fixture.telemetry.scrape(cloakwork_telemetry::Format::Prometheus);
        for line in lines {
            assert!(scraped.lines().any(|found| found == *line), "no {line}:\n{scraped}");
        }
    }
}

#[tokio::test]
async fn rows_with_the_same_bits_are_verified_and_nothing_of_the_check_stays() {
    let mut service = Service::new(&[FIRST, SECOND]).await;
    assert_eq!(service.first_result(1, sample(7)).await, FIRST);
    let leased = service.check_of(SECOND).await;
    let content = leased.content();
    assert_eq!(content.lowering(), v1::Lowering::Depth, "the form of the first result");
    assert!(content.companion.is_none() && content.priority < -10);
    assert_ne!(leased.meta.id, JobId(1));
    service.answer(SECOND, 7).await;
    assert!(!service.holds_check(SECOND).await);
    service.assert_metrics(&["cloakwork_verified_rows_total 2"]);
    assert!(!service.is_quarantined(FIRST).await && !service.is_quarantined(SECOND).await);
    let stored = service.fixture.store.job(TENANT, leased.meta.id, true).await.unwrap();
    assert!(stored.is_none(), "a check is not stored");
    assert!(
        service.fixture.dispatcher.find(TENANT, leased.meta.id).await.unwrap().is_none(),
        "nor can a tenant see it"
    );
}

#[tokio::test]
async fn the_worker_that_differs_from_two_others_is_quarantined() {
    for (digests, liar) in [([7, 8, 7], 1), ([7, 8, 8], 0)] {
        let mut service = Service::new(&[FIRST, SECOND, THIRD]).await;
        let first = service.first_result(1, sample(digests[0])).await;
        service.fixture.settles().await;
        let mut order = vec![first];
        for digest in &digests[1..] {
            let others = [FIRST, SECOND, THIRD].into_iter().filter(|worker| !order.contains(worker));
            let mut next = None;
            for worker in others {
                if service.holds_check(worker).await {
                    next = Some(worker);
                }
            }
            let next = next.expect("another worker has the check");
            service.answer(next, *digest).await;
            order.push(next);
        }
        for (index, worker) in order.iter().enumerate() {
            assert_eq!(service.is_quarantined(*worker).await, index == liar, "{index} with {digests:?}");
        }
        service.assert_metrics(&["cloakwork_verify_mismatches_total 1", "cloakwork_workers_quarantined_total 1"]);
        // The liar gets no job any more, the others do.
        for number in 2..=5 {
            service.fixture.submit(number, true).await.unwrap().unwrap();
            assert_ne!(service.holder(number).await, order[liar]);
        }
        // Its stream has ended, and it cannot attach again.
        let liar = order[liar];
        let (_, wishes, _) = service.wishes.iter().find(|(id, ..)| *id == liar).expect("attached");
        assert!(wishes.has_changed().is_err(), "the stream is closed");
        let refused = service.fixture.dispatcher.attach(report_of_class(liar, CLASS), Seat::Here).await.unwrap_err();
        assert_eq!(refused.reason(), WORKER_QUARANTINED);
    }
}

#[tokio::test]
async fn three_different_results_quarantine_all_three() {
    let mut service = Service::new(&[FIRST, SECOND, THIRD]).await;
    assert_eq!(service.first_result(1, sample(7)).await, FIRST);
    for digest in [8, 9] {
        let checker = service.checker().await;
        service.answer(checker, digest).await;
    }
    for worker in [FIRST, SECOND, THIRD] {
        assert!(service.is_quarantined(worker).await);
    }
}

#[tokio::test]
async fn without_a_third_worker_both_are_quarantined() {
    let mut service = Service::new(&[FIRST, SECOND]).await;
    service.first_result(1, sample(7)).await;
    service.answer(SECOND, 8).await;
    assert!(service.is_quarantined(FIRST).await && service.is_quarantined(SECOND).await);
    service.fixture.time.advance(Duration::from_secs(2));
    service.fixture.settles().await;
    assert!(service.fixture.dispatcher.pools().is_empty(), "clients see no worker that gets no jobs");
    service.assert_metrics(&[
        "cloakwork_verify_mismatches_total 1",
        "cloakwork_unverified_rows_total{reason=\"no_worker\"} 2",
    ]);
    // A third worker that fails to answer protects no liar.
    let mut service = Service::new(&[FIRST, SECOND, THIRD]).await;
    service.first_result(1, sample(7)).await;
    let second = service.checker().await;
    service.answer(second, 8).await;
    let third = service.checker().await;
    service.fail(third).await;
    let found = [FIRST, second, third];
    assert!(service.is_quarantined(found[0]).await && service.is_quarantined(found[1]).await);
    assert!(!service.is_quarantined(found[2]).await);
    service.assert_metrics(&["cloakwork_unverified_rows_total{reason=\"failed\"} 2"]);
}

#[tokio::test]
async fn a_check_that_one_worker_fails_is_computed_by_another() {
    let mut service = Service::new(&[FIRST, SECOND, THIRD]).await;
    service.first_result(1, sample(7)).await;
    let second = service.checker().await;
    service.fail(second).await;
    let third = service.checker().await;
    assert_ne!(third, second);
    service.answer(third, 7).await;
    service.assert_metrics(&["cloakwork_verified_rows_total 2"]);
    // A mismatch is worth more attempts, and the loss of a worker is no reason to stop.
    let [fourth, fifth] = [4, 5].map(WorkerId);
    let mut service = Service::new(&[FIRST, SECOND, THIRD, fourth, fifth]).await;
    service.first_result(1, sample(7)).await;
    let second = service.checker().await;
    service.answer(second, 8).await;
    let third = service.checker().await;
    service.fail(third).await;
    let next = service.checker().await;
    service.detach(next).await;
    let last = service.checker().await;
    service.answer(last, 8).await;
    assert!(service.is_quarantined(FIRST).await && !service.is_quarantined(second).await);
    service.assert_metrics(&[
        "cloakwork_workers_quarantined_total 1",
        "cloakwork_unverified_rows_total{reason=\"wrong\"} 2",
    ]);
}

#[tokio::test]
async fn a_worker_that_differs_from_a_quarantined_one_is_not_suspected() {
    let mut service = Service::with_jobs_of_first(&[1, 2]).await;
    // Two results of the first worker are checked at the same time.
    for (number, rows) in [(1, vec![0, 1]), (2, vec![0, 1, 2])] {
        let leased = service.job_of_first(number).await;
        let outputs = Ok(vec![Content::inline(Bytes::from_static(b"output"))]);
        let sample = Some(Sample { rows, ..sample(7) });
        assert!(service.hand_in(FIRST, &leased, outputs, sample).await.unwrap());
    }
    let (holder, open) = service.check_of_rows(3).await;
    for _ in 0..2 {
        let (worker, leased) = service.check_of_rows(2).await;
        assert!(service.hand_in_rows(worker, &leased, 8).await);
    }
    assert!(service.is_quarantined(FIRST).await);
    // No third worker is left for the second result, and none is needed.
    service.detach(if holder == SECOND { THIRD } else { SECOND }).await;
    assert!(service.hand_in_rows(holder, &open, 8).await);
    service.fixture.settles().await;
    assert!(!service.is_quarantined(holder).await);
    service.assert_metrics(&[
        "cloakwork_workers_quarantined_total 1",
        "cloakwork_verify_mismatches_total 2",
        "cloakwork_unverified_rows_total{reason=\"wrong\"} 5",
    ]);
}

#[tokio::test]
async fn the_jobs_of_a_quarantined_worker_go_to_others_and_its_results_are_refused() {
    let mut service = Service::with_jobs_of_first(&[2, 1]).await;
    let [leased, checked] = [service.job_of_first(2).await, service.job_of_first(1).await];
    let outputs = || Ok(vec![Content::inline(Bytes::from_static(b"output"))]);
    assert!(service.hand_in(FIRST, &checked, outputs(), Some(sample(7))).await.unwrap());
    for _ in 0..2 {
        let (worker, _) = service.check_of_rows(2).await;
        service.answer(worker, 8).await;
    }
    assert!(service.is_quarantined(FIRST).await);
    let answer = service.hand_in(FIRST, &leased, outputs(), None).await;
    assert_eq!(answer.unwrap_err().reason(), WORKER_QUARANTINED);
    assert_ne!(service.holder(2).await, FIRST, "another worker has the job");
}

/// The store fails when the job of a quarantined worker is to go to another one. The store still
/// names the quarantined worker, and the new scheduler takes the job from it at once.
#[tokio::test]
async fn the_job_of_a_quarantined_worker_goes_to_another_though_the_store_fails() {
    let mut service = Service::with_jobs_of_first(&[1, 2]).await;
    let checked = service.job_of_first(1).await;
    let outputs = Ok(vec![Content::inline(Bytes::from_static(b"output"))]);
    assert!(service.hand_in(FIRST, &checked, outputs, Some(sample(7))).await.unwrap());
    let (second, _) = service.check_of_rows(2).await;
    service.answer(second, 8).await;
    service.fixture.break_store("UPDATE ON jobs").await;
    let (third, leased) = service.held(|worker, leased| worker != second && leased.check.is_some()).await;
    // Its answer may have to wait for the store.
    let _ = service.commit(third, &leased, Ok(Vec::new()), None, Some(vec![[8; 32]])).await;
    assert!(service.is_quarantined(FIRST).await);
    service.fixture.heal_store().await;
    // The clock stands still, so no lease runs out meanwhile.
    service.held(|worker, leased| worker != FIRST && leased.meta.id == JobId(2)).await;
}

#[tokio::test]
async fn rows_that_cannot_be_checked_are_counted_by_reason() {
    let mut service = Service::new(&[FIRST]).await;
    service.first_result(1, sample(7)).await;
    service.attach(SECOND, "another class").await;
    // The view of the pools is made once a second.
    service.fixture.time.advance(Duration::from_secs(2));
    service.fixture.settles().await;
    let pools = service.fixture.dispatcher.pools();
    assert!(!pools.is_empty() && pools.iter().all(|pool| !pool.verifiable));
    service.first_result(2, sample(7)).await;
    let without = Sample { digests: None, ..sample(7) };
    service.first_result(3, without).await;
    service.fixture.settles().await;
    service.assert_metrics(&[
        "cloakwork_unverified_rows_total{reason=\"no_worker\"} 4",
        "cloakwork_unverified_rows_total{reason=\"not_reproducible\"} 2",
    ]);
}

/// A worker that could change its class with its result could choose which results are checked.
#[tokio::test]
async fn a_result_is_checked_in_the_class_that_its_worker_had_when_it_got_the_job() {
    let mut service = Service::new(&[FIRST, SECOND]).await;
    service.fixture.submit(1, true).await.unwrap().unwrap();
    assert_eq!(service.holder(1).await, FIRST);
    let leased = service.lease(FIRST, |leased| leased.meta.id == JobId(1)).await;
    let (_, _, stream) = service.wishes.iter().find(|(id, ..)| *id == FIRST).expect("attached");
    let changed = report_of_class(FIRST, "another class");
    service.fixture.dispatcher.report(*stream, changed).await.unwrap();
    let outputs = Ok(vec![Content::inline(Bytes::from_static(b"output"))]);
    assert!(service.hand_in(FIRST, &leased, outputs, Some(sample(7))).await.unwrap());
    service.answer(SECOND, 7).await;
    service.assert_metrics(&["cloakwork_verified_rows_total 2"]);
}

/// An alert on an increase does not see the first value of a series that begins with it.
#[tokio::test]
async fn counters_of_checks_begin_with_zero() {
    let telemetry = Telemetry::new(10).unwrap();
    checks::export_zeros(&telemetry.metrics);
    let scraped = telemetry.scrape(cloakwork_telemetry::Format::Prometheus);
    let names = ["cloakwork_verified_rows_total", "cloakwork_verify_mismatches_total"];
    let names = names.into_iter().chain(["cloakwork_workers_quarantined_total"]).map(str::to_owned);
    let reasons = ["no_worker", "not_reproducible", "crowded", "too_large", "failed", "lost", "late", "wrong"];
    let by_reason = reasons.map(|reason| format!("cloakwork_unverified_rows_total{{reason=\"{reason}\"}}"));
    for series in names.chain(by_reason) {
        assert!(scraped.lines().any(|line| *line == format!("{series} 0")), "no {series}:\n{scraped}");
    }
}

#[tokio::test]
async fn a_check_whose_worker_leaves_goes_to_another() {
    let mut service = Service::new(&[FIRST, SECOND]).await;
    service.first_result(1, sample(7)).await;
    service.check_of(SECOND).await;
    service.detach(SECOND).await;
    service.attach(THIRD, CLASS).await;
    service.answer(THIRD, 7).await;
    service.assert_metrics(&["cloakwork_verified_rows_total 2"]);
    assert!(!service.is_quarantined(FIRST).await);
}

/// The store fails between the check and its end. The new scheduler knows no checks, and the old
/// quarantines.
#[tokio::test]
async fn no_check_outlives_its_scheduler_and_every_quarantine_does() {
    let mut service = Service::new(&[FIRST, SECOND]).await;
    service.first_result(1, sample(7)).await;
    service.answer(SECOND, 8).await;
    assert!(service.is_quarantined(FIRST).await && service.is_quarantined(SECOND).await);
    service.attach(THIRD, CLASS).await;
    service.attach(WorkerId(4), CLASS).await;
    let first = service.first_result(2, sample(7)).await;
    let second = if first == THIRD { WorkerId(4) } else { THIRD };
    let leased = service.check_of(second).await;
    service.fixture.break_store("INSERT ON jobs").await;
    assert!(service.fixture.submit(3, true).await.unwrap().is_err(), "the store fails");
    service.fixture.heal_store().await;
    let begun = Instant::now();
    while service.holds_check(second).await {
        assert!(begun.elapsed() < STEP_TIMEOUT, "the check is withdrawn");
        sleep(Duration::from_millis(10)).await;
    }
    assert!(!service.hand_in_rows(second, &leased, 8).await, "a lost lease");
    service.assert_metrics(&["cloakwork_unverified_rows_total{reason=\"lost\"} 2"]);
    assert!(service.is_quarantined(FIRST).await && !service.is_quarantined(second).await);
    for number in 4..=6 {
        service.fixture.submit(number, true).await.unwrap().unwrap();
        assert!([THIRD, WorkerId(4)].contains(&service.holder(number).await));
    }
}
