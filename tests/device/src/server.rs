//! An in-memory server that implements the calls of a worker, with controls for tests.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use cloakwork_attestation::{
    Anchor, CERTIFICATE_LIFE_MAX_MICROS, CLOCK_SKEW_MICROS, Certificate, Claim, InstallationKey, PublicKey, Subject,
    Verifier, digest_of_list,
};
use cloakwork_clock::Clock;
use cloakwork_params::AnySet;
use cloakwork_proto::v1::{
    self, commit_header::Outcome, commit_result_request::Part, worker_service_server as service,
};
use cloakwork_worker::Uplink;
use hyper_util::rt::TokioIo;
use tokio::sync::{mpsc, watch};
use tokio_stream::{Stream, StreamExt as _, wrappers::ReceiverStream};
use tonic::{
    Request, Response, Status, Streaming,
    transport::{Endpoint, Server, Uri},
};

/// The server. Clones share all state.
#[derive(Clone)]
pub struct FakeServer {
    state: Arc<Mutex<State>>,
    /// Incremented when streams should read the state again.
    version: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    wanted: Vec<(v1::Lease, v1::JobContent)>,
    blobs: HashMap<Bytes, Bytes>,
    blob_reads: HashMap<Bytes, usize>,
    ended: HashMap<Bytes, End>,
    reports: Vec<v1::AttachRequest>,
    /// Number of commits to answer with UNAVAILABLE before others are accepted.
    refuse_commits: usize,
    /// Generation of streams. Streams that were opened in an earlier generation end.
    generation: u64,
    streams: usize,
    stalled: bool,
    draining: bool,
}

/// The result of a job, as the worker reported it.
#[derive(Clone, Debug)]
pub struct End {
    /// Latency record from the worker.
    pub latency: v1::LatencyRecord,
    /// Concatenated outputs, or the failure.
    pub result: Result<Bytes, v1::CommitFailure>,
    /// Digests of the outputs.
    pub digests: Vec<v1::Digest>,
    /// The form in which the program was computed.
    pub lowering: v1::Lowering,
}

impl Default for FakeServer {
    fn default() -> Self {
        Self { state: Arc::default(), version: watch::Sender::new(0) }
    }
}

impl FakeServer {
    /// Serves on in-memory connections, and returns the uplink that opens them.
    pub fn serve(&self) -> Uplink {
        let (connections, incoming) = mpsc::channel(16);
        let service = service::WorkerServiceServer::new(self.clone()).max_decoding_message_size(64 << 20);
        let incoming = ReceiverStream::new(incoming).map(Ok::<tokio::io::DuplexStream, std::io::Error>);
        tokio::spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
        let connect = tower::service_fn(move |_: Uri| {
            let connections = connections.clone();
            async move {
                let (ours, theirs) = tokio::io::duplex(1 << 20);
                connections.send(theirs).await.map_err(std::io::Error::other)?;
                Ok::<_, std::io::Error>(TokioIo::new(ours))
            }
        });
        Uplink::new(Endpoint::from_static("http://memory").connect_with_connector_lazy(connect))
    }

    /// Stores a blob.
    pub fn blob(&self, bytes: impl Into<Bytes>) -> v1::Digest {
        let bytes = bytes.into();
        let blake3 = Bytes::copy_from_slice(blake3::hash(&bytes).as_bytes());
        let digest = v1::Digest { blake3: blake3.clone(), size_bytes: bytes.len() as u64 };
        self.state().blobs.insert(blake3, bytes);
        digest
    }

    /// Changes the bytes that are stored under a blob's digest.
    pub fn corrupt(&self, digest: &v1::Digest, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        let blob = state.blobs.get_mut(&digest.blake3).expect("a blob");
        let mut bytes = blob.to_vec();
        change(&mut bytes);
        *blob = bytes.into();
    }

    /// Number of reads of a blob.
    pub fn reads(&self, digest: &v1::Digest) -> usize {
        self.state().blob_reads.get(&digest.blake3).copied().unwrap_or(0)
    }

    /// Assigns jobs to the worker, each under a lease of epoch 1. Returns the names of the jobs.
    pub fn assign(&self, jobs: impl IntoIterator<Item = v1::JobContent>) -> Vec<Bytes> {
        let mut state = self.state();
        let mut names = Vec::new();
        for content in jobs {
            let number = (state.wanted.len() + state.ended.len()) as u128 + 1;
            let job_id = Bytes::copy_from_slice(&number.to_le_bytes());
            names.push(job_id.clone());
            state.wanted.push((v1::Lease { job_id, epoch: 1 }, content));
        }
        drop(state);
        self.wake();
        names
    }

    /// Withdraws a job from the worker.
    pub fn withdraw(&self, job: &Bytes) {
        self.state().wanted.retain(|(lease, _)| lease.job_id != *job);
        self.wake();
    }

    /// Ends all streams, as a restarting server does.
    pub fn cut_streams(&self) {
        self.state().generation += 1;
        self.wake();
    }

    /// Answers the next `count` commits with UNAVAILABLE.
    pub fn refuse_commits(&self, count: usize) {
        self.state().refuse_commits = count;
    }

    /// Stops or resumes answering.
    pub fn stall(&self, stalled: bool) {
        self.state().stalled = stalled;
        self.wake();
    }

    /// Number of streams opened so far.
    pub fn streams(&self) -> usize {
        self.state().streams
    }

    /// The last report of the worker.
    pub fn last_report(&self) -> Option<v1::AttachRequest> {
        self.state().reports.last().cloned()
    }

    /// Waits until `found` returns a value. Panics after a time that exceeds that of any correct
    /// worker.
    pub async fn until<R>(&self, what: &str, found: impl Fn(&Self) -> Option<R>) -> R {
        let mut changes = self.version.subscribe();
        let search = async {
            loop {
                if let Some(result) = found(self) {
                    return result;
                }
                changes.changed().await.expect("the sender lives in self");
            }
        };
        tokio::time::timeout(Duration::from_secs(120), search).await.unwrap_or_else(|_| panic!("never came: {what}"))
    }

    /// Waits for jobs to end.
    pub async fn ends(&self, jobs: &[Bytes]) -> Vec<End> {
        let all = |server: &Self| {
            let state = server.state();
            jobs.iter().map(|job| state.ended.get(job).cloned()).collect::<Option<Vec<End>>>()
        };
        self.until("the end of all jobs", all).await
    }

    /// The result of a job, if it has ended.
    pub fn ended(&self, job: &Bytes) -> Option<End> {
        self.state().ended.get(job).cloned()
    }

    fn wake(&self) {
        self.version.send_modify(|version| *version += 1);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The complete assignment, with a certificate of the worker's key. Assignments whose lease the
    /// worker has reported carry no content.
    fn wish(&self, shown: &[v1::Lease], certificate: &Bytes) -> v1::AttachResponse {
        let state = self.state();
        let assignment = |(lease, content): &(v1::Lease, v1::JobContent)| v1::Assignment {
            lease: Some(lease.clone()),
            content: (!shown.contains(lease)).then(|| content.clone()),
            time_left: None,
        };
        let report_interval = Some(Duration::from_millis(200).try_into().expect("a short time"));
        let assignments = state.wanted.iter().map(assignment).collect();
        let certificate = certificate.clone();
        v1::AttachResponse { assignments, report_interval, draining: state.draining, certificate }
    }

    async fn talk(
        self,
        mut reports: Streaming<v1::AttachRequest>,
        sender: mpsc::Sender<Result<v1::AttachResponse, Status>>,
    ) {
        let mut changes = self.version.subscribe();
        let generation = self.state().generation;
        let (mut shown, mut certificate) = (Vec::new(), Bytes::new());
        loop {
            tokio::select! {
                report = reports.message() => match report {
                    Ok(Some(report)) => {
                        shown = report.leases.iter().filter_map(|report| report.lease.clone()).collect();
                        certificate = certify(&report);
                        self.state().reports.push(report);
                        self.wake();
                    }
                    _ => return,
                },
                _ = changes.changed() => {}
            }
            let (over, stalled) = {
                let state = self.state();
                (state.generation != generation, state.stalled)
            };
            if over {
                let _ = sender.send(Err(Status::unavailable("restarting"))).await;
                return;
            }
            if !stalled && sender.send(Ok(self.wish(&shown, &certificate))).await.is_err() {
                return;
            }
        }
    }
}

type Boxed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl service::WorkerService for FakeServer {
    type AttachStream = Boxed<v1::AttachResponse>;
    type ReadBlobStream = Boxed<v1::ReadBlobResponse>;

    async fn attach(
        &self,
        request: Request<Streaming<v1::AttachRequest>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        self.state().streams += 1;
        let (sender, receiver) = mpsc::channel(16);
        tokio::spawn(self.clone().talk(request.into_inner(), sender));
        self.wake();
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn read_blob(&self, request: Request<v1::ReadBlobRequest>) -> Result<Response<Self::ReadBlobStream>, Status> {
        let request = request.into_inner();
        let digest = request.digest.expect("a digest").blake3;
        let mut state = self.state();
        let leased = state.wanted.iter().any(|(lease, _)| Some(lease) == request.lease.as_ref());
        if !leased {
            return Err(Status::permission_denied("no such lease"));
        }
        *state.blob_reads.entry(digest.clone()).or_default() += 1;
        let blob = state.blobs.get(&digest).cloned().ok_or_else(|| Status::not_found("no such blob"))?;
        drop(state);
        let rest = blob.slice((request.offset_bytes as usize).min(blob.len())..);
        let pieces: Vec<Bytes> = (0..rest.len())
            .step_by(1 << 16)
            .map(|start| rest.slice(start..(start + (1 << 16)).min(rest.len())))
            .collect();
        let messages = pieces.into_iter().map(|data| Ok(v1::ReadBlobResponse { data, url: String::new() }));
        Ok(Response::new(Box::pin(tokio_stream::iter(messages))))
    }

    async fn commit_result(
        &self,
        request: Request<Streaming<v1::CommitResultRequest>>,
    ) -> Result<Response<v1::CommitResultResponse>, Status> {
        let mut parts = request.into_inner();
        let Some(Part::Header(header)) = parts.message().await?.and_then(|message| message.part) else {
            return Err(Status::invalid_argument("a header comes first"));
        };
        let mut data = Vec::new();
        while let Some(message) = parts.message().await? {
            let Some(Part::Data(piece)) = message.part else { return Err(Status::invalid_argument("data")) };
            assert!(piece.len() <= 1 << 20, "pieces of a megabyte");
            data.extend_from_slice(&piece);
        }
        let mut state = self.state();
        if state.refuse_commits > 0 {
            state.refuse_commits -= 1;
            return Err(Status::unavailable("not now"));
        }
        let leased = state.wanted.iter().find(|(lease, _)| Some(lease) == header.lease.as_ref()).cloned();
        let lowering = header.lowering();
        let (job, accepted) = (header.lease.expect("a lease").job_id, leased.is_some());
        if let Some((_, content)) = leased {
            state.wanted.retain(|(lease, _)| lease.job_id != job);
            let (result, digests) = match header.outcome.expect("an outcome") {
                Outcome::Outputs(outputs) => {
                    check_attestation(&job, &content, &outputs);
                    (Ok(data.into()), outputs.digests)
                }
                Outcome::Failure(failure) => (Err(failure), Vec::new()),
            };
            let latency = header.latency.expect("a record");
            let twice = state.ended.insert(job, End { latency, result, digests, lowering });
            assert!(twice.is_none(), "one result for a job");
        }
        drop(state);
        self.wake();
        Ok(Response::new(v1::CommitResultResponse { accepted }))
    }
}

/// The key of the fake installation.
fn installation() -> InstallationKey {
    InstallationKey::from_seed(&[7; 32])
}

/// A certificate of a worker's key, for a year.
fn certify(report: &v1::AttachRequest) -> Bytes {
    let (key, now) = (report.attestation_key.as_ref(), Clock::system().unix_micros());
    let key = PublicKey(key.try_into().expect("a key of 32 bytes"));
    assert!(key.is_proved_by(&report.possession), "the worker has the key");
    assert_eq!(report.worker_id, key.worker_id()[..], "the id follows from the key");
    let claim = Claim {
        installation: installation().public(),
        key,
        worker: report.worker_id.as_ref().try_into().expect("an id of 16 bytes"),
        not_before_micros: now.saturating_sub(CLOCK_SKEW_MICROS),
        not_after_micros: now.saturating_add(CERTIFICATE_LIFE_MAX_MICROS),
    };
    Certificate::sign(&installation(), claim).encode().into()
}

/// Fails unless the worker has signed that these are the outputs of this job.
fn check_attestation(job: &Bytes, content: &v1::JobContent, outputs: &v1::CommitOutputs) {
    let verifier = Verifier::new(Anchor::new([installation().public()]).expect("an anchor"));
    let statement = verifier.verify(&outputs.attestation, i64::MAX).expect("a valid attestation");
    let id = |bytes: &Bytes| <[u8; 16]>::try_from(bytes.as_ref()).expect("16 bytes");
    let digest = |bytes: &Bytes| <[u8; 32]>::try_from(bytes.as_ref()).expect("32 bytes");
    let inputs = content.inputs.iter().map(|input| match input.source.as_ref().expect("a source") {
        v1::assigned_input::Source::Inline(bytes) => *blake3::hash(bytes).as_bytes(),
        v1::assigned_input::Source::Blob(blob) => digest(&blob.blake3),
    });
    let companion = content.companion.iter().flat_map(|companion| &companion.key_parts);
    let parts: Vec<[u8; 32]> = content.key_parts.iter().chain(companion).map(|part| digest(&part.blake3)).collect();
    let outputs: Vec<[u8; 32]> = outputs.digests.iter().map(|output| digest(&output.blake3)).collect();
    let expected = Subject {
        job: id(job),
        request: id(&content.request_id),
        program: *blake3::hash(&content.program).as_bytes(),
        key: id(&content.key_id),
        evaluation_key: digest_of_list(&parts),
        set: AnySet::by_name(&content.parameter_set).expect("a set").id().0,
        rows: if content.check_rows.is_empty() { content.rows } else { content.check_rows.len() as u64 },
        inputs: digest_of_list(&inputs.collect::<Vec<_>>()),
        outputs: digest_of_list(&outputs),
    };
    assert_eq!(statement.subject.check(&expected), Ok(()));
}
