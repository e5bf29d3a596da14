//! Reported stages of jobs, on a device whose waves end when the test says so.

use cloakwork_attestation::{Certificate, Claim, InstallationKey, PublicKey};
use cloakwork_circuit::Output;
use cloakwork_params::{KeyId, ParameterSet, table::by_name};
use cloakwork_proto::v1::{
    CommitHeader, LeaseStage,
    assigned_input::Source,
    commit_header::Outcome,
    commit_result_request::Part,
    worker_service_server::{WorkerService, WorkerServiceServer},
};
use prost::Message as _;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tonic::{Code, Request, Response, Status, Streaming, transport::Endpoint};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::{report::Hung, *};
use crate::{blob::BlobReader, group::GroupId, key_cache::KeyRequest, outputs::OutputList, test_device::TestDevice};

/// Upper bound of waits that should end immediately.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

fn set() -> &'static ParameterSet {
    by_name("TOY_MESSAGE_2_CARRY_2").expect("a set")
}

/// An agent without a server, with memory for one key.
fn agent(device: &Arc<TestDevice>) -> Arc<Agent> {
    agent_of(device, Uplink::new(Endpoint::from_static("http://127.0.0.1:1").connect_lazy()))
}

fn agent_of(device: &Arc<TestDevice>, uplink: Uplink) -> Arc<Agent> {
    let agent = uncertified(device, uplink);
    certify(&agent);
    agent
}

fn uncertified(device: &Arc<TestDevice>, uplink: Uplink) -> Arc<Agent> {
    let options = Options { key_memory: 1, job_memory: 1 << 20, arena_memory: 1 << 20, ..Options::default() };
    Arc::new(Agent::new(options, device.clone(), uplink).expect("an agent"))
}

/// Gives the agent a certificate that is always valid.
fn certify(agent: &Agent) {
    let installation = InstallationKey::from_seed(&[1; 32]);
    let claim = Claim {
        installation: installation.public(),
        key: PublicKey(agent.attestor.public_key().as_ref().try_into().expect("32 bytes")),
        worker: agent.attestor.worker_id(),
        not_before_micros: 0,
        not_after_micros: i64::MAX,
    };
    agent.attestor.certify(&Certificate::sign(&installation, claim).encode());
}

/// A server that accepts each failure, and each result unless it refuses results, and passes the
/// header to the test.
struct Accepting {
    headers: mpsc::UnboundedSender<CommitHeader>,
    refuses_results: bool,
}

impl Accepting {
    fn all(headers: mpsc::UnboundedSender<CommitHeader>) -> WorkerServiceServer<Self> {
        WorkerServiceServer::new(Self { headers, refuses_results: false })
    }
}

#[tonic::async_trait]
impl WorkerService for Accepting {
    type AttachStream = tokio_stream::Empty<Result<v1::AttachResponse, Status>>;
    type ReadBlobStream = tokio_stream::Empty<Result<v1::ReadBlobResponse, Status>>;

    async fn attach(&self, _: Request<Streaming<v1::AttachRequest>>) -> Result<Response<Self::AttachStream>, Status> {
        Ok(Response::new(tokio_stream::empty()))
    }

    async fn read_blob(&self, _: Request<v1::ReadBlobRequest>) -> Result<Response<Self::ReadBlobStream>, Status> {
        Err(Status::not_found("no blobs"))
    }

    async fn commit_result(
        &self,
        request: Request<Streaming<v1::CommitResultRequest>>,
    ) -> Result<Response<v1::CommitResultResponse>, Status> {
        let first = request.into_inner().message().await?.and_then(|message| message.part);
        let Some(Part::Header(header)) = first else { return Err(Status::invalid_argument("no header")) };
        let is_refused = self.refuses_results && matches!(header.outcome, Some(Outcome::Outputs(_)));
        let _ = self.headers.send(header);
        if is_refused {
            let details = ErrorDetails::with_error_info("ATTESTATION_EXPIRED", "cloakwork", []);
            return Err(Status::with_error_details(Code::FailedPrecondition, "the clock is wrong", details));
        }
        Ok(Response::new(v1::CommitResultResponse { accepted: true }))
    }
}

/// A job of one lookup under key 1.
fn job() -> (LeaseId, v1::Assignment) {
    let program = v1::Program {
        parameter_set: set().name.to_owned(),
        inputs: vec![v1::program::Input { name: "x".to_owned(), r#type: v1::Type::Block.into(), ..Default::default() }],
        operations: vec![v1::Operation {
            kind: v1::operation::Kind::Lookup.into(),
            arguments: vec![0],
            tables: vec![v1::Table { entries: vec![0; 16] }],
            ..Default::default()
        }],
        outputs: vec![1],
        ..Default::default()
    };
    let input =
        OutputList::new(set(), 1).encode(set(), KeyId([1; 16]), &[Output { value: 0, degree: 3, noise_level: 1 }]);
    let content = v1::JobContent {
        program: program.encode_to_vec().into(),
        group: Bytes::from_static(b"group"),
        key_id: Bytes::from_static(&[1; 16]),
        parameter_set: set().name.to_owned(),
        inputs: vec![v1::AssignedInput { source: Some(Source::Inline(input.expect("a list").into())) }],
        rows: 1,
        request_id: Bytes::from_static(&[2; 16]),
        ..v1::JobContent::default()
    };
    let lease = v1::Lease { job_id: Bytes::from_static(&[3; 16]), epoch: 1 };
    let id = LeaseId::from(&lease);
    (id, v1::Assignment { lease: Some(lease), content: Some(content), time_left: None })
}

/// Takes all job memory of both parts, as other jobs would.
async fn all_memory(agent: &Agent) -> Vec<OwnedSemaphorePermit> {
    let mut all = vec![agent.job_memory.reserve(agent.job_memory.most()).await.expect("the large jobs' part")];
    for _ in 0..16 {
        all.push(agent.job_memory.reserve(agent.options.job_memory / 64).await.expect("a small job's part"));
    }
    all
}

/// Waits until the report shows the only job in the given stage.
async fn reaches(agent: &Agent, wanted: LeaseStage) {
    let begun = Instant::now();
    loop {
        let stage = agent.report().leases[0].stage;
        if stage == wanted as i32 {
            return;
        }
        assert!(begun.elapsed() < WAIT_TIMEOUT, "{stage} instead of {wanted:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits until the agent has ended a lease.
async fn ends(agent: &Agent, id: &LeaseId) {
    let begun = Instant::now();
    while agent.held.locked().contains_key(id) || !agent.ended.locked().contains(id) {
        assert!(begun.elapsed() < WAIT_TIMEOUT, "{id:?} is still held");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_worker_without_a_valid_certificate_asks_for_no_work_and_begins_none() {
    let device = Arc::new(TestDevice::new(1000));
    let (headers, mut handed_in) = mpsc::unbounded_channel();
    let agent = uncertified(&device, Uplink::new(Accepting::all(headers)));
    assert_eq!(agent.report().wanted_cost, 0);
    let (id, assignment) = job();
    agent.begin(id.clone(), assignment);
    let header = tokio::time::timeout(WAIT_TIMEOUT, handed_in.recv()).await.expect("an outcome").expect("an agent");
    let Some(Outcome::Failure(failure)) = header.outcome else { panic!("{:?}", header.outcome) };
    assert_eq!((failure.reason.as_str(), failure.retryable), ("CERTIFICATE_UNAVAILABLE", true));
    ends(&agent, &id).await;
    certify(&agent);
    assert!(agent.report().wanted_cost > 0);
}

/// The server then gives the job to another worker at once, and does not wait for the lease's end.
#[tokio::test]
async fn a_refused_result_is_handed_in_as_a_failure() {
    let device = Arc::new(TestDevice::new(1000));
    let (headers, mut handed_in) = mpsc::unbounded_channel();
    let server = Accepting { headers, refuses_results: true };
    let agent = agent_of(&device, Uplink::new(WorkerServiceServer::new(server)));
    let (_, assignment) = job();
    let held = Held {
        lease: assignment.lease.expect("a lease"),
        is_on_vectors: false,
        status: Arc::default(),
        trace: None,
        withdrawn: CancellationToken::new(),
    };
    let outcome = Some(Outcome::Outputs(v1::CommitOutputs::default()));
    let header = CommitHeader { lease: Some(held.lease.clone()), outcome, ..CommitHeader::default() };
    tokio::time::timeout(WAIT_TIMEOUT, agent.commit(&held, header, Vec::new())).await.expect("an end");
    let [result, failure] = [(); 2].map(|()| handed_in.try_recv().expect("two calls"));
    assert!(matches!(result.outcome, Some(Outcome::Outputs(_))));
    assert_eq!(failure.lease, result.lease);
    let Some(Outcome::Failure(failure)) = failure.outcome else { panic!("{:?}", failure.outcome) };
    assert_eq!((failure.reason.as_str(), failure.retryable), ("ATTESTATION_EXPIRED", true));
    assert_eq!(failure.message, "the clock is wrong");
    assert!(handed_in.try_recv().is_err(), "once");
}

#[tokio::test]
async fn a_job_whose_task_panics_fails_and_may_be_tried_again() {
    let device = Arc::new(TestDevice::new(1000));
    let (headers, mut handed_in) = mpsc::unbounded_channel();
    let mut agent = agent_of(&device, Uplink::new(Accepting::all(headers)));
    Arc::get_mut(&mut agent).expect("no job runs").programs = Programs::that_panic();
    let (id, assignment) = job();
    agent.begin(id.clone(), assignment);
    let header = tokio::time::timeout(WAIT_TIMEOUT, handed_in.recv()).await.expect("an outcome").expect("an agent");
    assert_eq!(header.lease.as_ref().map(LeaseId::from), Some(id.clone()));
    let Some(Outcome::Failure(failure)) = header.outcome else { panic!("{:?}", header.outcome) };
    assert!(failure.retryable && failure.reason == "DEVICE_FAILED", "{failure:?}");
    assert!(failure.message.contains("by the test"), "{failure:?}");
    ends(&agent, &id).await;
    assert!(agent.broken().is_none(), "the worker goes on");
}

#[tokio::test]
async fn the_lease_of_a_job_ends_if_handing_in_its_outcome_panics() {
    async fn panics(_: http::Request<tonic::body::Body>) -> Result<http::Response<tonic::body::Body>, Status> {
        panic!("by the test")
    }
    let device = Arc::new(TestDevice::new(1000));
    let agent = agent_of(&device, Uplink::new(tower::service_fn(panics)));
    let (id, mut assignment) = job();
    // An unknown set fails the job at once.
    assignment.content.as_mut().expect("a job").parameter_set = "NOWHERE".to_owned();
    agent.begin(id.clone(), assignment);
    ends(&agent, &id).await;
    assert!(agent.report().leases.is_empty(), "no report renews the lease");
}

#[tokio::test]
async fn a_job_waits_for_memory_that_others_have() {
    let device = Arc::new(TestDevice::new(1000));
    let agent = agent(&device);
    let others = all_memory(&agent).await;
    let (id, assignment) = job();
    agent.begin(id, assignment);
    reaches(&agent, LeaseStage::Waiting).await;
    drop(others);
    reaches(&agent, LeaseStage::Computing).await;
}

#[tokio::test]
async fn a_small_job_does_not_wait_for_the_memory_of_a_large_one() {
    let device = Arc::new(TestDevice::new(1000));
    let agent = agent(&device);
    let _giant = agent.job_memory.reserve(agent.job_memory.most()).await.expect("all that large jobs may have");
    let (id, assignment) = job();
    agent.begin(id, assignment);
    reaches(&agent, LeaseStage::Computing).await;
}

#[tokio::test]
async fn a_job_waits_for_room_that_the_key_of_another_job_occupies() {
    let device = Arc::new(TestDevice::new(1000));
    let agent = agent(&device);
    let (client, lease) = (agent.client.clone(), v1::Lease::default());
    let blobs = BlobReader { client, worker_id: Bytes::new(), lease, store: None, trace: None };
    let group = GroupId { group: Bytes::new(), key_id: KeyId([2; 16]), set: set().id, parts: [0; 32] };
    let other = KeyRequest { group, set: set(), parts: Vec::new(), blobs };
    let other = agent.keys.get(&other, |_| ()).await.expect("a key");
    let (id, assignment) = job();
    agent.begin(id, assignment);
    reaches(&agent, LeaseStage::Waiting).await;
    drop(other);
    reaches(&agent, LeaseStage::Computing).await;
    device.next_wave();
    device.end_oldest();
    reaches(&agent, LeaseStage::Committing).await;
}

#[tokio::test]
async fn a_hung_device_gets_no_work_and_its_waiting_jobs_count_as_stalled() {
    let device = Arc::new(TestDevice::new(1000));
    let agent = agent(&device);
    let _others = all_memory(&agent).await;
    let (id, assignment) = job();
    agent.begin(id, assignment);
    reaches(&agent, LeaseStage::Waiting).await;
    let well = agent.report_with(Hung::default());
    let hung = agent.report_with(Hung { blocks: true, vectors: false });
    let other_hung = agent.report_with(Hung { blocks: false, vectors: true });
    assert!(well.wanted_cost > 0 && other_hung.wanted_cost > 0);
    assert_eq!(other_hung.leases[0].stage, LeaseStage::Waiting as i32, "it waits for something else");
    assert_eq!((hung.wanted_cost, hung.leases[0].stage), (0, LeaseStage::Computing as i32));
    assert_eq!(hung.leases[0].progress, well.leases[0].progress, "it stands still");
}

#[tokio::test]
async fn an_aborted_agent_releases_its_jobs() {
    let device = Arc::new(TestDevice::new(1000));
    let agent = agent(&device);
    let running = tokio::spawn({
        let agent = agent.clone();
        async move { agent.run(CancellationToken::new()).await }
    });
    let (id, assignment) = job();
    agent.begin(id.clone(), assignment);
    reaches(&agent, LeaseStage::Computing).await;
    let held = agent.held.locked()[&id].clone();
    running.abort();
    let ended = tokio::time::timeout(WAIT_TIMEOUT, running).await.expect("it ends");
    assert!(ended.is_err_and(|error| error.is_cancelled()));
    assert!(held.withdrawn.is_cancelled() && agent.held.locked().is_empty());
}
