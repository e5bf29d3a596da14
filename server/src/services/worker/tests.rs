//! Calls of workers, made within this process, on real stores.

use std::time::Instant;

use bytes::Bytes;
use cloakwork_attestation::{Statement, WorkerKey};
use cloakwork_clock::{ManualClock, unix_micros_after};
use cloakwork_keystore::{Digest, KeyState, Reservation, TenantId};
use cloakwork_params::AnySet;
use cloakwork_proto::v1::{
    self, commit_header::Outcome, commit_result_request::Part, worker_service_client::WorkerServiceClient,
    worker_service_server::WorkerServiceServer,
};
use cloakwork_scheduler::{JobId, Report, Retry, WorkerId};
use cloakwork_share::FairShare;
use prost::Message as _;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic_types::StatusExt as _;

use super::{failures::Claim, *};
use crate::{
    dispatch::{Admitted, Leased, Wish, WorkerReport},
    error::{ApiError, STALE_LEASE},
    installation::tests::{attest, installation, worker_key},
    jobs::{Content, JobMeta, Timeline},
    keys::KeyUses,
    programs::Compiler,
    quota::Quota,
    store::tests::new_job,
    tenant_limits::TenantLimits,
    test_backend::TestBackend,
    test_objects::{self, KEY, set},
};

const TENANT: &str = "tenant";
const WORKER: WorkerId = WorkerId(1);
const ROWS: u32 = 3;
/// Timeout for steps that need almost no time. Shorter than the time for which the server waits for
/// the bytes of a result.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// Limits under which every output becomes a blob.
fn without_inline_outputs() -> Limits {
    Limits { inline_bytes: 0, ..Limits::default() }
}

fn tenant() -> TenantId {
    TenantId::new(TENANT).unwrap()
}

/// A program that looks one block up.
fn program() -> Bytes {
    let input = v1::program::Input { name: "x".to_owned(), r#type: v1::Type::Block.into(), ..Default::default() };
    let lookup = v1::Operation {
        kind: v1::operation::Kind::Lookup.into(),
        arguments: vec![0],
        tables: vec![v1::Table { entries: vec![0; 16] }],
        ..Default::default()
    };
    let program = v1::Program {
        parameter_set: set().name.to_owned(),
        inputs: vec![input],
        operations: vec![lookup],
        outputs: vec![1],
        ..Default::default()
    };
    program.encode_to_vec().into()
}

/// A list of the size that the program returns.
fn list(salt: u8) -> Bytes {
    test_objects::list(ROWS, salt)
}

fn proto_digest(bytes: &Bytes) -> v1::Digest {
    Content::inline(bytes.clone()).to_proto_digest()
}

fn data(bytes: &Bytes) -> CommitResultRequest {
    CommitResultRequest { part: Some(Part::Data(bytes.clone())) }
}

fn reason(status: &Status) -> String {
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

/// Waits for a condition.
async fn until(what: &str, is_met: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_met() {
        assert!(begun.elapsed() < STEP_TIMEOUT, "not in time: {what}");
        sleep(Duration::from_millis(1)).await;
    }
}

/// The services of a worker that is attached, and its leases.
struct Fixture {
    time: ManualClock,
    workers: Workers,
    wishes: watch::Receiver<Wish>,
    keys: KeyUses,
    directory: tempfile::TempDir,
}

impl Fixture {
    async fn new(limits: Limits) -> Self {
        let TestBackend { directory, time, limits, store, keystore, dispatcher, telemetry } =
            TestBackend::start(limits).await;
        let transfers = Transfers::new(telemetry.clone());
        let outputs = Outputs {
            keystore: keystore.clone(),
            quota: Quota::new(store.clone(), TenantLimits::default(), limits.tenant_inline_bytes),
            store,
            compiler: Compiler::new(&limits),
            clock: time.clock(),
            limits: limits.clone(),
            transfers: transfers.clone(),
            memory: OutputMemory::new(limits.inline_bytes),
            verify_percent: 0,
        };
        let report = WorkerReport {
            worker: WORKER,
            name: "worker".into(),
            report: Report {
                pool: "cpu".to_owned(),
                sets: vec![set().id],
                wanted_cost: 1 << 40,
                leases: Vec::new(),
                resident: Vec::new(),
                draining: false,
                class: "class".to_owned(),
            },
            waves: Vec::new(),
            resident: Vec::new(),
            resident_bytes: 0,
        };
        let (wishes, _) = dispatcher.attach(Arc::new(report), Seat::Here).await.unwrap();
        let workers = Workers {
            dispatcher,
            failures: Failures::new(keystore.clone(), telemetry.clone()),
            keystore,
            reads: Reads::default(),
            outputs,
            limits,
            installation: installation(directory.path(), time.clock(), telemetry.clone()),
            telemetry,
            transfers,
            draining: CancellationToken::new(),
        };
        Self { time, workers, wishes, keys: KeyUses::default(), directory }
    }

    /// Submits job `number`, and returns its first lease.
    async fn lease(&mut self, number: u8, inputs: &[Content], key_parts: &[Digest]) -> Arc<Leased> {
        let meta = JobMeta {
            key_id: KEY,
            set: AnySet::Tfhe(set()),
            rows: ROWS.into(),
            deadline_micros: unix_micros_after(self.time.clock().unix_micros(), Duration::from_secs(3600)),
            ..(*new_job(TENANT, number).meta).clone()
        };
        let job = Admitted {
            key_use: self.keys.begin(&tenant(), KEY),
            meta: Arc::new(meta),
            program: program(),
            inputs: inputs.into(),
            key_parts: key_parts.to_vec(),
            companion_parts: Vec::new(),
            reserved: Arc::new(Reservation::none(&tenant())),
            timeline: Timeline::start(Instant::now()),
        };
        self.workers.dispatcher.submit(job, true).await.unwrap();
        self.attempt(number, 1).await
    }

    /// The lease of an attempt at job `number`.
    async fn attempt(&mut self, number: u8, epoch: u64) -> Arc<Leased> {
        let lease = (JobId(number.into()), epoch);
        let is_there = |wish: &Wish| wish.as_ref().is_some_and(|leases| leases.contains_key(&lease));
        let wish = timeout(STEP_TIMEOUT, self.wishes.wait_for(is_there)).await.expect("a lease in time").unwrap();
        wish.as_ref().unwrap()[&lease].clone()
    }

    fn client(&self) -> WorkerServiceClient<WorkerServiceServer<Workers>> {
        WorkerServiceClient::new(WorkerServiceServer::new(self.workers.clone()))
    }

    /// Hands in an outcome. Returns whether it was accepted.
    async fn hand_in(&self, messages: Vec<CommitResultRequest>) -> Result<bool, Status> {
        let mut client = self.client();
        let call = client.commit_result(tokio_stream::iter(messages));
        Ok(timeout(STEP_TIMEOUT, call).await.expect("an end in time")?.into_inner().accepted)
    }

    /// Begins to hand in a result. Its bytes follow when the test sends them.
    async fn begin(&self, leased: &Leased, list: &Bytes) -> (mpsc::Sender<CommitResultRequest>, Call) {
        let (sender, messages) = mpsc::channel(4);
        sender.send(result(leased, &[proto_digest(list)])).await.unwrap();
        let mut client = self.client();
        let call = async move {
            let answer = client.commit_result(ReceiverStream::new(messages)).await;
            answer.map(|answer| answer.into_inner().accepted)
        };
        (sender, tokio::spawn(call))
    }

    /// Stores a key part, and registers a key of it.
    async fn register(&self) -> Digest {
        let part = test_objects::key_part();
        let digest = Digest::of(&part);
        self.workers.keystore.put(&tenant(), part, None).await.unwrap();
        self.workers.keystore.register_key(&tenant(), &[1; 16], &[digest]).await.unwrap();
        digest
    }

    /// Judges the claim that a part is damaged.
    async fn blame(&self, leased: &Leased, part: &Digest) -> Result<String, ApiError> {
        let claim = Claim::read(&blame(part)).unwrap();
        let still_leased = async { Ok(()) };
        let judged = self.workers.failures.judge(claim, WORKER, leased, still_leased).await;
        judged.map(|failure| failure.error.reason)
    }
}

/// A call that hands in a result.
type Call = JoinHandle<Result<bool, Status>>;

fn header(leased: &Leased, outcome: Outcome) -> CommitResultRequest {
    let header = v1::CommitHeader {
        worker_id: Bytes::copy_from_slice(&WORKER.0.to_be_bytes()),
        lease: Some(leased.lease()),
        latency: None,
        outcome: Some(outcome),
        lowering: v1::Lowering::Work.into(),
    };
    CommitResultRequest { part: Some(Part::Header(header)) }
}

/// A result with these digests, and the worker's attestation of it.
fn result(leased: &Leased, digests: &[v1::Digest]) -> CommitResultRequest {
    attested(leased, digests, attest(WORKER, leased, digests, |_| ()))
}

fn attested(leased: &Leased, digests: &[v1::Digest], attestation: Bytes) -> CommitResultRequest {
    header(leased, Outcome::Outputs(v1::CommitOutputs { digests: digests.to_vec(), attestation }))
}

fn blame(part: &Digest) -> v1::CommitFailure {
    v1::CommitFailure {
        reason: "KEY_CORRUPT".to_owned(),
        bad_key_part: Some(crate::digest::to_proto(part)),
        ..Default::default()
    }
}

#[tokio::test]
async fn an_output_of_another_size_takes_no_room() {
    let mut fixture = Fixture::new(without_inline_outputs()).await;
    let leased = fixture.lease(1, &[], &[]).await;
    let list = list(1);
    let right = proto_digest(&list);
    for size_bytes in [0, right.size_bytes - 1, right.size_bytes + 1, 16 << 30, u64::MAX] {
        let digest = v1::Digest { size_bytes, ..right.clone() };
        let status = fixture.hand_in(vec![result(&leased, &[digest])]).await.expect_err("another size");
        assert_eq!(reason(&status), "INVALID_ARGUMENT", "{status}");
        assert!(status.message().contains(&format!("expected {}", right.size_bytes)), "{status}");
    }
    assert!(fixture.hand_in(vec![result(&leased, &[right]), data(&list)]).await.unwrap());
}

#[tokio::test]
async fn a_header_with_more_outputs_than_any_program_has_is_refused() {
    let mut fixture = Fixture::new(Limits::default()).await;
    let leased = fixture.lease(1, &[], &[]).await;
    let many = vec![v1::Digest::default(); 10_000];
    let status = fixture.hand_in(vec![result(&leased, &many)]).await.expect_err("too many outputs");
    assert!(status.message().contains("10000 outputs: at most"), "{status}");
}

#[tokio::test]
async fn a_newer_call_for_a_lease_replaces_the_older_one() {
    let mut fixture = Fixture::new(without_inline_outputs()).await;
    let leased = fixture.lease(1, &[], &[]).await;
    let list = list(1);
    let (bytes, older) = fixture.begin(&leased, &list).await;
    bytes.send(data(&list.slice(..1))).await.unwrap();
    until("the older call has the turn", || leased.calls.try_turn().is_none()).await;
    // The connection of the older call is broken, and the server has not noticed.
    let messages = vec![result(&leased, &[proto_digest(&list)]), data(&list)];
    assert!(fixture.hand_in(messages).await.unwrap());
    let status = timeout(STEP_TIMEOUT, older).await.expect("it ends").unwrap().expect_err("it was replaced");
    assert_eq!(reason(&status), "OVERLOADED", "{status}");
    let stored = fixture.workers.keystore.blob(&tenant(), &Digest::of(&list)).await;
    assert_eq!(stored.unwrap().digest.size_bytes, list.len() as u64);
}

#[tokio::test]
async fn a_lease_has_one_result() {
    let mut fixture = Fixture::new(without_inline_outputs()).await;
    let leased = fixture.lease(1, &[], &[]).await;
    let [first, other] = [list(1), list(2)];
    let begun = vec![result(&leased, &[proto_digest(&first)]), data(&first.slice(..100))];
    let status = fixture.hand_in(begun).await.expect_err("most bytes are missing");
    assert!(status.message().contains("end early"), "{status}");
    let changed = vec![result(&leased, &[proto_digest(&other)]), data(&other)];
    let status = fixture.hand_in(changed).await.expect_err("another result");
    assert!(status.message().contains("other outputs under this lease"), "{status}");
    let repeated = vec![result(&leased, &[proto_digest(&first)]), data(&first)];
    assert!(fixture.hand_in(repeated).await.unwrap());
}

/// The server takes no bytes that it has already. A worker whose rows are checked could otherwise
/// announce one result, and send the rows of another.
#[tokio::test]
async fn a_result_whose_rows_are_checked_has_the_bytes_that_were_announced() {
    let mut fixture = Fixture::new(without_inline_outputs()).await;
    let [stored, begun, other] = [list(1), list(2), list(3)];
    let first = fixture.lease(1, &[], &[]).await;
    assert!(fixture.hand_in(vec![result(&first, &[proto_digest(&stored)]), data(&stored)]).await.unwrap());
    fixture.workers.outputs.verify_percent = 100;
    let second = fixture.lease(2, &[], &[]).await;
    let false_bytes = vec![result(&second, &[proto_digest(&stored)]), data(&other)];
    let status = fixture.hand_in(false_bytes).await.expect_err("bytes of another result");
    assert_eq!(reason(&status), "DIGEST_MISMATCH", "{status}");
    let third = fixture.lease(3, &[], &[]).await;
    let half = begun.len() / 2;
    let broken = vec![result(&third, &[proto_digest(&begun)]), data(&begun.slice(..half))];
    fixture.hand_in(broken).await.expect_err("a broken call");
    let mixed = vec![result(&third, &[proto_digest(&begun)]), data(&other.slice(..half)), data(&begun.slice(half..))];
    let status = fixture.hand_in(mixed).await.expect_err("a beginning of another result");
    assert_eq!(reason(&status), "DIGEST_MISMATCH", "{status}");
    let right = vec![result(&third, &[proto_digest(&begun)]), data(&begun)];
    assert!(fixture.hand_in(right).await.unwrap());
    let scraped = fixture.workers.telemetry.scrape(cloakwork_telemetry::Format::Prometheus);
    let line = format!("cloakwork_unverified_rows_total{{reason=\"no_worker\"}} {ROWS}");
    assert!(scraped.contains(&line), "{scraped}");
}

#[tokio::test]
async fn a_call_ends_when_its_lease_is_lost() {
    let mut fixture = Fixture::new(Limits { lease_ms: 50, ..Limits::default() }).await;
    let leased = fixture.lease(1, &[], &[]).await;
    let (_bytes, call) = fixture.begin(&leased, &list(1)).await;
    until("the call has the turn", || leased.calls.try_turn().is_none()).await;
    fixture.workers.dispatcher.cancel(TENANT, JobId(1)).await.unwrap().expect("a live job");
    let accepted = timeout(STEP_TIMEOUT, call).await.expect("it ends").unwrap();
    assert!(!accepted.expect("an answer"));
}

#[tokio::test]
async fn small_outputs_wait_for_memory() {
    let mut fixture = Fixture::new(Limits::default()).await;
    let list = list(1);
    let memory = FairShare::new(list.len() as u64, list.len() as u64);
    fixture.workers.outputs.memory = OutputMemory(memory.clone());
    let leased = fixture.lease(1, &[], &[]).await;
    let others = memory.take(&WorkerId(2), u64::MAX).await;
    let (bytes, call) = fixture.begin(&leased, &list).await;
    until("the call waits for memory", || memory.tenants() == 2).await;
    bytes.send(data(&list)).await.unwrap();
    drop((bytes, others));
    assert!(timeout(STEP_TIMEOUT, call).await.expect("it ends").unwrap().expect("an answer"));
    assert_eq!((memory.held(), memory.tenants()), (0, 0), "the memory is free after the commit");
}

#[tokio::test]
async fn reads_under_one_lease_are_limited() {
    let mut fixture = Fixture::new(Limits::default()).await;
    let list = list(1);
    fixture.workers.keystore.put(&tenant(), list.clone(), None).await.unwrap();
    let input = Content { bytes: None, ..Content::inline(list.clone()) };
    let leased = fixture.lease(1, &[input], &[]).await;
    let mut client = fixture.client();
    let request = v1::ReadBlobRequest {
        worker_id: Bytes::copy_from_slice(&WORKER.0.to_be_bytes()),
        lease: Some(leased.lease()),
        digest: Some(proto_digest(&list)),
        ..Default::default()
    };
    let mut open = Vec::new();
    let refused = loop {
        assert!(open.len() < 100, "no limit");
        match client.read_blob(request.clone()).await {
            Ok(stream) => open.push(stream.into_inner()),
            Err(status) => break status,
        }
    };
    assert_eq!(reason(&refused), "OVERLOADED", "{refused}");
    assert!(open.len() >= 4, "a worker reads a key part and an input at a time, perhaps on a new connection");
    // A read counts until its stream is dropped or has ended.
    drop(open.pop());
    let mut messages = client.read_blob(request.clone()).await.expect("a place").into_inner();
    let mut read = Vec::new();
    while let Some(message) = messages.next().await {
        read.extend_from_slice(&message.unwrap().data);
    }
    assert_eq!(read, list);
    drop(messages);
    client.read_blob(request).await.expect("a place");
}

/// Workers cannot have the server read a key part again and again.
#[tokio::test]
async fn a_key_part_is_read_once_for_the_attempts_that_began_before() {
    let mut fixture = Fixture::new(Limits::default()).await;
    let part = fixture.register().await;
    let first = fixture.lease(1, &[], &[part]).await;
    assert_eq!(fixture.blame(&first, &part).await.unwrap(), "DEVICE_FAILED");
    // From here on, a read would find the part damaged.
    let hex = part.hex();
    let mut files = std::fs::read_dir(fixture.directory.path().join("blobs").join(TENANT).join(&hex[..2])).unwrap();
    let path = files.find_map(|file| Some(file.unwrap().path()).filter(|path| path.to_string_lossy().contains(&hex)));
    let path = path.expect("the part");
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(fixture.blame(&first, &part).await.unwrap(), "DEVICE_FAILED");
    let failure = v1::CommitFailure { reason: "BLOB_UNAVAILABLE".to_owned(), retryable: true, ..Default::default() };
    assert!(fixture.hand_in(vec![header(&first, Outcome::Failure(failure))]).await.unwrap());
    let second = fixture.attempt(1, 2).await;
    assert_eq!(fixture.blame(&second, &part).await.unwrap(), "KEY_CORRUPT");
    let key = fixture.workers.keystore.key(&tenant(), KEY).await.unwrap();
    assert_eq!(key.state, KeyState::Quarantined);
}

#[tokio::test]
async fn a_key_part_is_not_read_for_a_lease_that_was_lost_meanwhile() {
    let mut fixture = Fixture::new(Limits::default()).await;
    let part = fixture.register().await;
    let leased = fixture.lease(1, &[], &[part]).await;
    let failures = fixture.workers.failures.clone();
    let others = failures.reading.take(&WorkerId(2), 1).await;
    let (judging, lost) = (failures.clone(), leased.clone());
    let call = tokio::spawn(async move {
        let still_leased = async { Err(STALE_LEASE.error("lost")) };
        judging.judge(Claim::read(&blame(&part)).unwrap(), WORKER, &lost, still_leased).await.map(drop)
    });
    until("the call waits for its turn", || failures.reading.tenants() == 2).await;
    drop(others);
    let error = timeout(STEP_TIMEOUT, call).await.expect("it ends").unwrap().expect_err("a lost lease");
    assert_eq!(error.reason(), STALE_LEASE);
}

#[tokio::test]
async fn a_job_that_failed_for_a_reason_of_its_worker_goes_to_another_worker() {
    let mut fixture = Fixture::new(Limits::default()).await;
    let part = fixture.register().await;
    let leased = fixture.lease(1, &[], &[part]).await;
    let cases = [
        ("DEVICE_FAILED", true, None, Retry::Elsewhere),
        ("WORKER_OUT_OF_MEMORY", true, None, Retry::Elsewhere),
        ("ATTESTATION_EXPIRED", true, None, Retry::Elsewhere),
        ("CERTIFICATE_UNAVAILABLE", true, None, Retry::Elsewhere),
        ("BLOB_UNAVAILABLE", true, None, Retry::Anywhere),
        ("unheard of", true, None, Retry::Anywhere),
        ("DEVICE_FAILED", false, None, Retry::Never),
        // Its bytes are intact.
        ("KEY_CORRUPT", false, Some(crate::digest::to_proto(&part)), Retry::Elsewhere),
    ];
    for (reason, retryable, bad_key_part, expected) in cases {
        let claim = v1::CommitFailure { reason: reason.to_owned(), retryable, bad_key_part, ..Default::default() };
        let claim = Claim::read(&claim).unwrap();
        let judged = fixture.workers.failures.judge(claim, WORKER, &leased, async { Ok(()) }).await.unwrap();
        assert_eq!(judged.retry, expected, "{reason}, retryable: {retryable}");
    }
}

/// A worker that could leave out the form of its result could choose which results are checked.
#[tokio::test]
async fn a_result_of_a_worker_with_a_class_states_its_lowering() {
    let mut fixture = Fixture::new(without_inline_outputs()).await;
    let leased = fixture.lease(1, &[], &[]).await;
    let list = list(1);
    let stated = result(&leased, &[proto_digest(&list)]);
    let mut missing = stated.clone();
    let Some(Part::Header(header)) = &mut missing.part else { panic!("a header") };
    header.lowering = v1::Lowering::Unspecified.into();
    let status = fixture.hand_in(vec![missing, data(&list)]).await.expect_err("no lowering");
    assert_eq!(reason(&status), "INVALID_ARGUMENT", "{status}");
    let fields = status.get_details_bad_request().expect("a field").field_violations;
    assert_eq!(fields[0].field, "lowering");
    assert!(fixture.hand_in(vec![stated, data(&list)]).await.unwrap());
}

#[tokio::test]
async fn a_result_that_no_certified_worker_has_signed_for_its_job_is_refused_and_counted() {
    let mut fixture = Fixture::new(without_inline_outputs()).await;
    let (leased, other) = (fixture.lease(1, &[], &[]).await, fixture.lease(2, &[], &[]).await);
    let list = list(1);
    let digests = [proto_digest(&list)];
    let good = attest(WORKER, &leased, &digests, |_| ());
    let mut flipped = good.to_vec();
    flipped[100] ^= 1;
    let changed = |change: fn(&mut Statement)| attest(WORKER, &leased, &digests, change);
    let late = fixture.time.clock().unix_micros() + 3600 * 1_000_000;
    let cases = [
        (Bytes::new(), "ATTESTATION_MISSING"),
        (good.slice(1..), "ATTESTATION_INVALID"),
        (Bytes::from(vec![0; 1 << 20]), "ATTESTATION_INVALID"),
        (flipped.into(), "ATTESTATION_INVALID"),
        (attest(WORKER, &other, &digests, |_| ()), "ATTESTATION_MISMATCH"),
        (attest(WorkerId(9), &leased, &digests, |_| ()), "ATTESTATION_MISMATCH"),
        (attest(WORKER, &leased, &[], |_| ()), "ATTESTATION_MISMATCH"),
        (changed(|it| it.subject.request = [0; 16]), "ATTESTATION_MISMATCH"),
        (changed(|it| it.subject.program = [0; 32]), "ATTESTATION_MISMATCH"),
        (changed(|it| it.subject.inputs = [0; 32]), "ATTESTATION_MISMATCH"),
        (changed(|it| it.subject.key = [0; 16]), "ATTESTATION_MISMATCH"),
        (changed(|it| it.subject.evaluation_key = [0; 32]), "ATTESTATION_MISMATCH"),
        (changed(|it| it.subject.set += 1), "ATTESTATION_MISMATCH"),
        (changed(|it| it.subject.rows += 1), "ATTESTATION_MISMATCH"),
        (changed(|it| it.signed_at_micros = -1), "ATTESTATION_EXPIRED"),
        (attest(WORKER, &leased, &digests, |it| it.signed_at_micros = late), "ATTESTATION_EXPIRED"),
    ];
    let refused = cases.len();
    for (index, (attestation, expected)) in cases.into_iter().enumerate() {
        let messages = vec![attested(&leased, &digests, attestation), data(&list)];
        let status = fixture.hand_in(messages).await.expect_err(expected);
        assert_eq!(reason(&status), expected, "case {index}: {status}");
    }
    // Nothing was stored, and the lease lasts.
    assert!(fixture.workers.keystore.blob(&tenant(), &Digest::of(&list)).await.is_err());
    assert!(fixture.hand_in(vec![attested(&leased, &digests, good.clone()), data(&list)]).await.unwrap());
    let scraped = fixture.workers.telemetry.scrape(cloakwork_telemetry::Format::Prometheus);
    let counted = scraped.lines().filter_map(|line| line.strip_prefix("cloakwork_attestations_refused_total{"));
    let counted: f64 = counted.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum();
    assert_eq!(counted, refused as f64, "{scraped}");
    let stored = fixture.workers.outputs.store.job(TENANT, JobId(1), true).await.unwrap().unwrap();
    let stored = stored.end.unwrap().attestation.clone().unwrap();
    assert_eq!((stored.signed, stored.key_parts), (good, Vec::<Bytes>::new()), "the job keeps the attestation");
}

#[tokio::test]
async fn a_worker_gets_a_certificate_before_its_first_job_and_none_without_a_key() {
    let fixture = Fixture::new(Limits::default()).await;
    let id = worker_key().public().worker_id();
    let report = |key: Bytes| AttachRequest {
        worker_id: Bytes::copy_from_slice(&id),
        name: "w".to_owned(),
        pool: "cpu".to_owned(),
        attestation_key: key,
        possession: Bytes::copy_from_slice(&worker_key().proof_of_possession()),
        ..AttachRequest::default()
    };
    let mut client = fixture.client();
    for key in [Bytes::new(), Bytes::from_static(&[1; 31]), Bytes::from_static(&[1; 33])] {
        let reports = tokio_stream::iter([report(key)]).chain(tokio_stream::pending());
        let status = client.attach(reports).await.expect_err("no key");
        assert_eq!(reason(&status), "FIELD_MISSING", "{status}");
    }
    let key = worker_key().public();
    let good = report(Bytes::copy_from_slice(&key.0));
    // No worker attaches with the id or the key of another.
    let other = WorkerKey::from_seed(&[9; 32]);
    let foreign_id = AttachRequest { worker_id: Bytes::from_static(&[3; 16]), ..good.clone() };
    let foreign_key =
        AttachRequest { possession: Bytes::copy_from_slice(&other.proof_of_possession()), ..good.clone() };
    let unproved = AttachRequest { possession: Bytes::new(), ..good.clone() };
    for (wrong, field) in [(foreign_id, "worker_id"), (foreign_key, "possession"), (unproved, "possession")] {
        let status = client.attach(tokio_stream::iter([wrong]).chain(tokio_stream::pending())).await.expect_err(field);
        assert_eq!(reason(&status), "INVALID_ARGUMENT", "{status}");
        let fields = status.get_details_bad_request().expect("a field").field_violations;
        assert_eq!(fields[0].field, field);
    }
    let reports = tokio_stream::iter([good]).chain(tokio_stream::pending());
    let mut answers = client.attach(reports).await.unwrap().into_inner();
    let first = timeout(STEP_TIMEOUT, answers.next()).await.expect("in time").expect("an answer").unwrap();
    let certificate = cloakwork_attestation::Certificate::decode(&first.certificate).unwrap();
    assert_eq!((certificate.claim().key, certificate.claim().worker), (key, id));
    // Later messages leave the certificate out.
    fixture.workers.draining.cancel();
    let second = timeout(STEP_TIMEOUT, answers.next()).await.expect("in time").expect("an answer").unwrap();
    assert!(second.draining && second.certificate.is_empty());
}
