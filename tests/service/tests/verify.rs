//! Second computations of rows on another worker: honest workers agree, and one that lies is found.

use std::{io::Write as _, time::Duration};

use bytes::Bytes;
use cloakwork_attestation::{CLOCK_SKEW_MICROS, Certificate, Statement, Subject, WorkerKey, digest_of_list};
use cloakwork_client::params::{CiphertextInfo, EnvelopeWriter, Header, KeyId, Layout, ObjectKind, table};
use cloakwork_proto::v1::{
    self, JobState, assigned_input::Source, commit_header::Outcome, commit_result_request::Part,
};
use cloakwork_tests_service::{Server, Setup, TOY, Tenant, VALUES, Worker, binary, eventually};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use crate::{
    liar::{WorkerStub, worker_stub},
    refusals::reason,
};

/// On a busy machine, no lease and no check may end early.
fn setup() -> Setup {
    let setup = Setup::default().without_worker().with("verify_percent", 100);
    setup.with("limits.lease_ms", 600_000).with("limits.report_ms", 200)
}

/// Waits until this number of workers is attached.
async fn workers(server: &Server, number: usize) {
    eventually("the workers are attached", || async {
        server.metrics().await.contains(&format!("cloakwork_workers{{pool=\"cpu\",state=\"ready\"}} {number}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_rows_are_verified_between_two_workers_of_one_class() {
    let server = Server::start(setup()).await;
    let token = server.token("workers", "worker");
    let tenant = Tenant::new(server.client().await).await;
    let _first = Worker::start(&server, "first", &token);
    workers(&server, 1).await;
    let pools = tenant.client.capabilities().await.expect("an answer").pools;
    assert_eq!(pools.iter().map(|pool| (pool.verify_percent, pool.verifiable)).collect::<Vec<_>>(), [(100, false)]);
    tenant.check_squares(&[1, 2, 3]).await;
    let unverified = server.metrics().await;
    assert!(unverified.contains("cloakwork_unverified_rows_total{reason=\"no_worker\"} 3"), "{unverified}");

    let _second = Worker::start(&server, "second", &token);
    workers(&server, 2).await;
    eventually("the server shows the second worker", || async {
        let pools = tenant.client.capabilities().await.expect("an answer").pools;
        pools.iter().all(|pool| pool.verifiable)
    })
    .await;
    let mut rows = 0;
    for number in [1, 2, 40, 300] {
        let values: Vec<u64> = (0..number).map(|row| row % VALUES).collect();
        tenant.check_squares(&values).await;
        rows += number;
    }
    // The output of this job becomes a blob.
    let values: Vec<u64> = (0..2000).map(|row| row % VALUES).collect();
    let job = tenant.client.submit(&tenant.squares(&values)).await.expect("accepted");
    assert_eq!(tenant.client.wait(&job.name).await.expect("an end").state(), JobState::Succeeded);
    rows += 2000;
    eventually("all rows are verified", || async {
        server.metric("cloakwork_verified_rows_total").await == rows as f64
    })
    .await;
    assert_eq!(server.metric("cloakwork_verify_mismatches_total").await, 0.0);
    assert_eq!(server.metric("cloakwork_unverified_rows_total").await, 3.0);
    let jobs = server.metric("cloakwork_jobs_submitted_total").await;
    assert_eq!(jobs, 6.0, "checks are no jobs");
}

/// A worker that returns wrong bits for every job, and for every check. Its certificate is valid,
/// and it signs what it returns.
struct Liar {
    key: WorkerKey,
    certificate: Option<Certificate>,
    id: Bytes,
    stub: WorkerStub,
    assignments: tonic::Streaming<v1::AttachResponse>,
    report: v1::AttachRequest,
    _reports: mpsc::Sender<v1::AttachRequest>,
}

impl Liar {
    async fn attach(server: &Server, class: String, tenant: &Tenant) -> Self {
        let mut stub = worker_stub(server).await;
        let key = WorkerKey::generate().expect("randomness");
        let id = Bytes::copy_from_slice(&key.public().worker_id());
        let report = v1::AttachRequest {
            worker_id: id.clone(),
            name: "liar".into(),
            pool: "cpu".into(),
            wanted_cost: 1 << 30,
            parameter_sets: vec![TOY.into()],
            resident_keys: vec![v1::ResidentKey {
                key_id: Bytes::copy_from_slice(&tenant.keys.key_id().0),
                parameter_set: TOY.into(),
                ..Default::default()
            }],
            result_class: class,
            attestation_key: Bytes::copy_from_slice(&key.public().0),
            possession: Bytes::copy_from_slice(&key.proof_of_possession()),
            ..Default::default()
        };
        let (reports, assignments) = open(&mut stub, &report).await.expect("a stream");
        Self { key, certificate: None, id, stub, assignments, report, _reports: reports }
    }

    /// Answers every lease until the server ends the stream. Returns the errors of the calls that a
    /// worker can make then.
    async fn lie(mut self) -> Vec<Status> {
        let mut newest = None;
        while let Some(message) = self.assignments.message().await.expect("no error") {
            if !message.certificate.is_empty() {
                self.certificate = Some(Certificate::decode(&message.certificate).expect("a certificate"));
            }
            for assignment in message.assignments {
                let (Some(lease), Some(content)) = (assignment.lease, assignment.content) else { continue };
                if let Err(status) = self.answer(&lease, &content).await {
                    assert_eq!(reason(&status).1, "WORKER_QUARANTINED", "{status}");
                }
                newest = Some((lease, content));
            }
        }
        let (lease, content) = newest.expect("a lease");
        let read = self.read(lease.clone()).await;
        let answered = self.answer(&lease, &content).await;
        let opened = open(&mut self.stub, &self.report).await.map(drop);
        [read, answered, opened].into_iter().map(|call| call.expect_err("a refusal")).collect()
    }

    async fn answer(&mut self, lease: &v1::Lease, content: &v1::JobContent) -> Result<(), Status> {
        let rows = if content.check_rows.is_empty() { content.rows } else { content.check_rows.len() as u64 };
        let bytes = wrong_list(rows, &content.key_id);
        let blake3 = Bytes::copy_from_slice(blake3::hash(&bytes).as_bytes());
        let attestation = self.attest(lease, content, rows, blake3::hash(&bytes));
        let digest = v1::Digest { blake3, size_bytes: bytes.len() as u64 };
        let header = v1::CommitHeader {
            worker_id: self.id.clone(),
            lease: Some(lease.clone()),
            outcome: Some(Outcome::Outputs(v1::CommitOutputs { digests: vec![digest], attestation })),
            lowering: v1::Lowering::Work.into(),
            ..Default::default()
        };
        let part = |part| v1::CommitResultRequest { part: Some(part) };
        let parts = tokio_stream::iter([part(Part::Header(header)), part(Part::Data(bytes))]);
        self.stub.commit_result(parts).await.map(drop)
    }

    /// Signs that an output is the result of a job with inline inputs.
    fn attest(&self, lease: &v1::Lease, content: &v1::JobContent, rows: u64, output: blake3::Hash) -> Bytes {
        fn array<const N: usize>(bytes: &Bytes) -> [u8; N] {
            bytes.as_ref().try_into().expect("the right length")
        }
        let parts: Vec<[u8; 32]> = content.key_parts.iter().map(|part| array(&part.blake3)).collect();
        let inputs = content.inputs.iter().map(|input| match input.source.as_ref().expect("a source") {
            Source::Inline(bytes) => *blake3::hash(bytes).as_bytes(),
            Source::Blob(digest) => array(&digest.blake3),
        });
        let subject = Subject {
            job: array(&lease.job_id),
            request: array(&content.request_id),
            program: *blake3::hash(&content.program).as_bytes(),
            key: array(&content.key_id),
            evaluation_key: digest_of_list(&parts),
            set: table::by_name(TOY).expect("a set").id.0,
            rows,
            inputs: digest_of_list(&inputs.collect::<Vec<_>>()),
            outputs: digest_of_list([output.as_bytes()]),
        };
        let certificate = self.certificate.expect("the first message has one");
        let signed_at_micros = certificate.claim().not_before_micros + CLOCK_SKEW_MICROS;
        let statement = Statement { worker: array(&self.id), subject, signed_at_micros };
        statement.sign(&self.key, &certificate).into()
    }

    async fn read(&mut self, lease: v1::Lease) -> Result<(), Status> {
        let digest = Some(v1::Digest { blake3: Bytes::from_static(&[0; 32]), size_bytes: 1 });
        let request =
            v1::ReadBlobRequest { worker_id: self.id.clone(), lease: Some(lease), digest, ..Default::default() };
        self.stub.read_blob(request).await.map(drop)
    }
}

/// Attaches a worker that reports once.
async fn open(
    stub: &mut WorkerStub,
    report: &v1::AttachRequest,
) -> Result<(mpsc::Sender<v1::AttachRequest>, tonic::Streaming<v1::AttachResponse>), Status> {
    let (reports, stream) = mpsc::channel(1);
    reports.send(report.clone()).await.expect("the stream is open");
    let assignments = stub.attach(ReceiverStream::new(stream)).await?.into_inner();
    Ok((reports, assignments))
}

/// A well-formed list of one ciphertext for each row, with words that no worker computes.
fn wrong_list(rows: u64, key_id: &[u8]) -> Bytes {
    let set = table::by_name(TOY).expect("a set");
    let mut dimensions = [0; 8];
    dimensions[0] = u32::try_from(rows).expect("few rows");
    let layout = Layout::of(ObjectKind::LweList, set, &dimensions).expect("a layout");
    for (value, (_, wanted)) in dimensions.iter_mut().zip(&layout.dimensions) {
        *value = u32::try_from(*wanted).expect("a dimension");
    }
    let key_id = KeyId(key_id.try_into().expect("16 bytes"));
    let payload_len = layout.payload_len;
    let header = Header { kind: ObjectKind::LweList, set: set.id, key_id, dimensions, seed: None, payload_len };
    let mut payload = vec![7; usize::try_from(payload_len).expect("a small list")];
    let entry = CiphertextInfo { degree: VALUES as u32 - 1, noise_level: 1 }.to_bytes();
    payload.chunks_exact_mut(entry.len()).take(rows as usize).for_each(|place| place.copy_from_slice(&entry));
    let mut out = EnvelopeWriter::new(Vec::new(), &header).expect("a header");
    out.write_all(&payload).expect("memory");
    out.finish().expect("a trailer").into()
}

/// The class of workers on the processors of this machine, with the instruction set from the log of
/// the server.
fn class_of(server: &Server) -> String {
    let log = server.log();
    let level = log.split("threads, ").nth(1).and_then(|rest| rest.split(',').next()).expect("an instruction set");
    let program = std::fs::read(binary("tested-worker")).expect("the program of the workers");
    let build = &blake3::hash(&program).to_hex()[..16];
    format!("{build} cpu {} {level}", std::env::consts::ARCH)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_lies_is_found_and_gets_no_more_jobs() {
    let server = Server::start(setup()).await;
    let token = server.token("workers", "worker");
    let tenant = Tenant::new(server.client().await).await;
    let _first = Worker::start(&server, "first", &token);
    let _second = Worker::start(&server, "second", &token);
    workers(&server, 2).await;
    let liar = tokio::spawn(Liar::attach(&server, class_of(&server), &tenant).await.lie());
    workers(&server, 3).await;
    // As a worker with the key that wants a great deal of work, the liar gets jobs, or half of the
    // checks.
    let values: Vec<u64> = (0..20).map(|row| row % VALUES).collect();
    for _ in 0..200 {
        if liar.is_finished() {
            break;
        }
        tenant.client.run(&tenant.squares(&values)).await.expect("a result");
    }
    let refusals = tokio::time::timeout(Duration::from_secs(30), liar).await.expect("it is found").expect("no panic");
    for status in refusals {
        assert_eq!(reason(&status), (Code::FailedPrecondition, "WORKER_QUARANTINED".to_owned()), "{status}");
    }
    eventually("one worker is quarantined", || async {
        server.metric("cloakwork_workers_quarantined_total").await == 1.0
    })
    .await;
    let log = server.log();
    let line = log.lines().find(|line| line.contains("a worker is quarantined")).expect("a line in the log");
    assert!(line.contains("liar"), "{line}");
    for _ in 0..5 {
        tenant.check_squares(&values).await;
    }
    assert_eq!(server.metric("cloakwork_workers_quarantined_total").await, 1.0, "the honest workers go on");
}
