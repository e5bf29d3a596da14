//! Workers that lie, fall silent or attach twice: the server believes nothing that it can check.

use std::time::Duration;

use bytes::Bytes;
use cloakwork_attestation::WorkerKey;
use cloakwork_proto::v1::{
    self, Digest, GetJobRequest, job_service_client::JobServiceClient, worker_service_client::WorkerServiceClient,
};
use cloakwork_tests_service::{Server, Setup, TOY, Tenant, Worker, eventually};
use tonic::{Code, Status, transport::Channel};

use crate::refusals::{channel, reason};

/// A worker that sends false reports.
struct Liar {
    id: Bytes,
    stub: WorkerStub,
    assignments: tonic::Streaming<v1::AttachResponse>,
    reports: tokio::sync::mpsc::Sender<v1::AttachRequest>,
}

pub(crate) type WorkerStub = WorkerServiceClient<tonic::service::interceptor::InterceptedService<Channel, Authorize>>;

pub(crate) async fn worker_stub(server: &Server) -> WorkerStub {
    WorkerServiceClient::with_interceptor(channel(server).await, Authorize(server.token("workers", "worker")))
}

/// Adds a token to each call.
#[derive(Clone)]
pub(crate) struct Authorize(pub(crate) String);

impl tonic::service::Interceptor for Authorize {
    fn call(&mut self, mut request: tonic::Request<()>) -> Result<tonic::Request<()>, Status> {
        let value = format!("Bearer {}", self.0).parse().expect("a header");
        request.metadata_mut().insert("authorization", value);
        Ok(request)
    }
}

impl Liar {
    async fn attach(server: &Server) -> Self {
        Self::attach_as(server, |_| ()).await.expect("a stream")
    }

    /// Attaches with a first report that `change` has altered.
    async fn attach_as(server: &Server, change: impl FnOnce(&mut v1::AttachRequest)) -> Result<Self, Status> {
        let mut stub = worker_stub(server).await;
        let key = WorkerKey::from_seed(&[5; 32]);
        let id = Bytes::copy_from_slice(&key.public().worker_id());
        let (reports, stream) = tokio::sync::mpsc::channel(1);
        let mut report = v1::AttachRequest {
            worker_id: id.clone(),
            name: "liar".into(),
            pool: "cpu".into(),
            wanted_cost: 1 << 30,
            parameter_sets: vec![TOY.into()],
            attestation_key: Bytes::copy_from_slice(&key.public().0),
            possession: Bytes::copy_from_slice(&key.proof_of_possession()),
            ..Default::default()
        };
        change(&mut report);
        reports.send(report).await.expect("the stream is open");
        let stream = tokio_stream::wrappers::ReceiverStream::new(stream);
        let assignments = stub.attach(stream).await?.into_inner();
        Ok(Self { id, stub, assignments, reports })
    }

    /// The next assigned job whose epoch is greater than `after`.
    async fn job(&mut self, after: u64) -> (v1::Lease, v1::JobContent) {
        loop {
            let message = self.assignments.message().await.expect("no error").expect("no end");
            for assignment in message.assignments {
                if let (Some(lease), Some(content)) = (assignment.lease, assignment.content)
                    && lease.epoch > after
                {
                    return (lease, content);
                }
            }
        }
    }

    /// Commits a failure that blames the given part of the job's key.
    async fn blame(&mut self, lease: &v1::Lease, part: &Digest) {
        let failure = v1::CommitFailure {
            reason: "KEY_CORRUPT".into(),
            message: "believe me".into(),
            retryable: false,
            bad_key_part: Some(part.clone()),
        };
        self.fail(lease, failure, v1::LatencyRecord::default()).await;
    }

    /// Commits a failure that the server must accept.
    async fn fail(&mut self, lease: &v1::Lease, failure: v1::CommitFailure, latency: v1::LatencyRecord) {
        assert!(self.hand_in(lease, failure, latency).await);
    }

    /// Commits a failure. Returns whether the server accepts it.
    async fn hand_in(&mut self, lease: &v1::Lease, failure: v1::CommitFailure, latency: v1::LatencyRecord) -> bool {
        let header = v1::CommitHeader {
            worker_id: self.id.clone(),
            lease: Some(lease.clone()),
            latency: Some(latency),
            outcome: Some(v1::commit_header::Outcome::Failure(failure)),
            ..Default::default()
        };
        let message = v1::CommitResultRequest { part: Some(v1::commit_result_request::Part::Header(header)) };
        let answer = self.stub.commit_result(tokio_stream::iter([message])).await.expect("an answer");
        answer.into_inner().accepted
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_under_a_lost_lease_is_refused_and_counted() {
    let setup = Setup::default().without_worker().with("limits.lease_ms", 1000);
    let server = Server::start(setup.with("limits.report_ms", 200)).await;
    let tenant = Tenant::new(server.client().await).await;
    // The worker reports once and then stays silent.
    let mut silent = Liar::attach(&server).await;
    let job = tenant.client.submit(&tenant.squares(&[1, 2])).await.expect("accepted");
    let (lease, _) = silent.job(0).await;
    let _other = Worker::start(&server, "other", &server.token("workers", "worker"));
    let ended = tenant.client.wait(&job.name).await.expect("the other worker does it");
    // On a slow machine, the other worker may lose a lease as well.
    assert!(ended.attempts >= 2, "the silent worker had a lease, and lost it");
    assert_eq!(ended.state(), v1::JobState::Succeeded);
    let stale = server.metric("cloakwork_stale_results_total").await;
    let failure = v1::CommitFailure { reason: "DEVICE_FAILED".into(), ..Default::default() };
    assert!(!silent.hand_in(&lease, failure, v1::LatencyRecord::default()).await);
    assert_eq!(server.metric("cloakwork_stale_results_total").await, stale + 1.0);
    let later = tenant.client.job(&job.name).await.expect("a job");
    assert_eq!((later.state(), &later.end_time, later.error), (ended.state(), &ended.end_time, None));
}

/// The server limits the streams of workers by their answers. Reports that are read on would take
/// memory beyond that limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_attaches_again_ends_both_directions_of_its_first_stream() {
    let setup = Setup::default().without_worker().with("limits.lease_ms", 600_000);
    let server = Server::start(setup.with("limits.report_ms", 1000)).await;
    let mut first = Liar::attach(&server).await;
    let _second = Liar::attach(&server).await;
    let ended = async {
        while let Ok(Some(_)) = first.assignments.message().await {}
        first.reports.closed().await;
    };
    tokio::time::timeout(Duration::from_secs(60), ended).await.expect("the server reads no further reports");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_without_a_report_ends_after_the_time_of_a_lease() {
    let server = Server::start(Setup::default().without_worker().with("limits.lease_ms", 1000)).await;
    let mut stub = worker_stub(&server).await;
    let attached = stub.attach(tokio_stream::pending());
    // Less than the longest pause of other requests.
    let attached = tokio::time::timeout(Duration::from_secs(30), attached).await.expect("an answer");
    let refused = attached.expect_err("a worker without a report is refused");
    assert_eq!(reason(&refused), (Code::DeadlineExceeded, "DEADLINE_EXCEEDED".to_owned()), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_cannot_quarantine_an_intact_key() {
    let setup = Setup::default().without_worker().with("limits.lease_ms", 600_000);
    // The job rests before it goes to the same worker again, and the rest is shorter the more
    // attempts are left.
    let setup = setup.with("limits.job_attempts", 20);
    let server = Server::start(setup.with("limits.report_ms", 1000)).await;
    let tenant = Tenant::new(server.client().await).await;
    let mut liar = Liar::attach(&server).await;
    let job = tenant.client.submit(&tenant.squares(&[1, 2])).await.expect("accepted");
    let (lease, content) = liar.job(0).await;
    let part = content.key_parts[0].clone();
    liar.blame(&lease, &part).await;
    let key = tenant.client.key(&tenant.key).await.expect("a key");
    assert_eq!(key.state(), v1::KeyState::Active, "the key's bytes are intact");
    assert_eq!(server.metric("cloakwork_worker_false_alarms_total").await, 1.0);
    // The job is assigned again. This time the key's bytes are really damaged.
    let (lease, content) = liar.job(lease.epoch).await;
    assert_eq!(content.key_parts[0], part);
    let hex: String = part.blake3.iter().map(|byte| format!("{byte:02x}")).collect();
    let directory = server.directory().join("data/blobs/local").join(&hex[..2]);
    let mut files = std::fs::read_dir(directory).expect("a directory").map(|file| file.expect("a file").path());
    let path = files.find(|file| file.to_string_lossy().contains(&hex)).expect("the part");
    let mut bytes = std::fs::read(&path).expect("the part's bytes");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).expect("written");
    liar.blame(&lease, &part).await;
    let key = tenant.client.key(&tenant.key).await.expect("a key");
    assert_eq!(key.state(), v1::KeyState::Quarantined);
    eventually("the job has failed", || async {
        let job = tenant.client.job(&job.name).await.expect("a job");
        job.state() == v1::JobState::Failed && job.error.is_some_and(|error| error.reason == "KEY_CORRUPT")
    })
    .await;
    assert_eq!(server.metric("cloakwork_worker_false_alarms_total").await, 1.0);
}

/// Characters that end a line, move the cursor, and reverse the following text.
const FORGED: &str = "x\nFORGED\u{1b}[2J\u{9b}\u{2028}\u{202e}";

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_cannot_forge_messages_to_clients_or_fields_of_the_log() {
    let setup = Setup::default().without_worker().with("limits.lease_ms", 600_000);
    let server = Server::start(setup.with("limits.report_ms", 1000)).await;
    let fields: [fn(&mut v1::AttachRequest) -> &mut String; 4] =
        [|it| &mut it.name, |it| &mut it.version, |it| &mut it.pool, |it| &mut it.device];
    for field in fields {
        let refused = Liar::attach_as(&server, |report| *field(report) = FORGED.to_owned()).await;
        let status = refused.err().expect("such a text is refused");
        assert_eq!(reason(&status), (Code::InvalidArgument, "INVALID_ARGUMENT".to_owned()), "{status}");
        assert!(!status.message().contains(char::is_control), "{status}");
    }
    let tenant = Tenant::new(server.client().await).await;
    let name = "liar device=\"GPU\"";
    let mut liar = Liar::attach_as(&server, |report| report.name = name.to_owned()).await.expect("a stream");
    let job = tenant.client.submit(&tenant.squares(&[1, 2])).await.expect("accepted");
    let (lease, _) = liar.job(0).await;
    let failure =
        v1::CommitFailure { reason: "INTERNAL".into(), message: FORGED.into(), retryable: false, bad_key_part: None };
    let latency = v1::LatencyRecord { worker: FORGED.into(), device: FORGED.into(), ..Default::default() };
    liar.fail(&lease, failure, latency).await;
    // The test calls the service directly, because the SDK escapes the server's texts.
    let mut jobs = JobServiceClient::new(channel(&server).await);
    let request = GetJobRequest { name: job.name.clone() };
    let job = jobs.get_job(request).await.expect("an answer").into_inner().job.expect("a job");
    let escaped = r"x\nFORGED\u{1b}[2J\u{9b}\u{2028}\u{202e}";
    assert_eq!(job.error.expect("an error").message, escaped);
    let record = job.latency.expect("a record");
    assert_eq!([record.worker.as_str(), record.device.as_str()], [escaped; 2]);
    let log = server.log();
    assert!(log.contains(r#"name="liar device=\"GPU\"""#), "a name is one field: {log}");
}
