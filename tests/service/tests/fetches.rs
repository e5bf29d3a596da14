//! Conditions under which a job's outputs count as fetched, so that the server drops them soon.

use std::time::{Duration, SystemTime};

use cloakwork_client::{Finished, JobRequest};
use cloakwork_proto::v1::{GetRequest, GetResponse, ciphertext_service_client::CiphertextServiceClient};
use cloakwork_tests_service::{Server, Setup, Tenant, VALUES, eventually};
use futures_util::TryStreamExt as _;
use tonic::{Request, Status, Streaming, transport::Channel};

/// Number of bytes that the server may send to a client that does not read.
const WINDOW_BYTES: u32 = 65_535;

/// A tenant with a job that has succeeded.
struct Case {
    server: Server,
    tenant: Tenant,
    finished: Finished,
}

/// A case with outputs in the database, and a case with outputs in the key store. All outputs are
/// larger than the window.
async fn cases() -> [Case; 2] {
    let inside = Setup::default();
    let outside = Setup::default().with("limits.inline_bytes", 65_536);
    let cases = [case(inside, 200).await, case(outside, 200).await];
    for case in &cases {
        assert!(case.size() > 2 * u64::from(WINDOW_BYTES), "{} bytes fit into a window", case.size());
    }
    cases
}

/// Runs a job whose output has this number of values.
async fn case(setup: Setup, values: u64) -> Case {
    let server = Server::start(setup).await;
    let token = server.token("acme", "jobs,keys,read");
    let tenant = Tenant::new(server.client_with(&token).await).await;
    let values: Vec<u64> = (0..values).map(|index| index % VALUES).collect();
    let list = tenant.keys.encrypt(&values, VALUES as u32 - 1).expect("values of a block");
    let job = JobRequest::new(tenant.lookup(|x| x), &tenant.key).encrypted(list);
    let finished = tenant.client.run(&job).await.expect("the job succeeds");
    Case { server, tenant, finished }
}

impl Case {
    fn size(&self) -> u64 {
        let output = self.finished.output(0).expect("an output").message;
        output.digest.expect("a digest").size_bytes
    }

    /// Time for which the server still keeps the outputs.
    async fn kept(&self) -> Duration {
        let job = self.tenant.client.job(&self.finished.job.name).await.expect("the job is remembered");
        let expires = SystemTime::try_from(job.output_expire_time.expect("outputs have an end")).expect("a time");
        expires.duration_since(SystemTime::now()).expect("they are there")
    }

    async fn is_kept(&self, after: &str) {
        let kept = self.kept().await;
        assert!(kept > Duration::from_secs(23 * 3600), "{kept:?} after {after}");
    }

    /// Begins to read the output.
    async fn get(&self, token: &str, offset_bytes: u64) -> Streaming<GetResponse> {
        self.try_get(token, offset_bytes).await.expect("a stream")
    }

    async fn try_get(&self, token: &str, offset_bytes: u64) -> Result<Streaming<GetResponse>, Status> {
        let endpoint = Channel::from_shared(self.server.url()).expect("a URL").initial_stream_window_size(WINDOW_BYTES);
        let channel = endpoint.connect().await.expect("an answer");
        let name = self.finished.output(0).expect("an output").message.name;
        let mut request = Request::new(GetRequest { name, offset_bytes });
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().expect("a header"));
        Ok(CiphertextServiceClient::new(channel).get(request).await?.into_inner())
    }

    /// Reads the output to its end. Returns the number of bytes.
    async fn read(&self, token: &str, offset_bytes: u64) -> u64 {
        let messages: Vec<GetResponse> = self.get(token, offset_bytes).await.try_collect().await.expect("bytes");
        messages.iter().map(|message| message.data.len() as u64).sum()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_with_a_read_only_token_never_shortens_the_life_of_a_result() {
    for case in cases().await {
        let reader = case.server.token("acme", "read");
        let size = case.size();
        assert_eq!(case.read(&reader, size).await, 0);
        case.is_kept("a read of nothing").await;
        assert_eq!(case.read(&reader, 0).await, size);
        case.is_kept("a whole read").await;
    }
}

/// The server cannot know which bytes of an output have arrived if the output fits into the
/// caller's window. The read counts even if the caller breaks off before it has seen a byte. That
/// is why the server keeps the output for a while.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_within_the_window_counts_although_its_caller_breaks_off() {
    let case = case(Setup::default(), 10).await;
    let size = case.size();
    assert!(size < u64::from(WINDOW_BYTES) / 2, "{size} bytes do not fit into a window");
    let token = case.server.token("acme", "jobs");
    case.is_kept("the job").await;
    let unread = case.get(&token, 0).await;
    eventually("the server has sent the last byte", || async { case.kept().await <= Duration::from_secs(600) }).await;
    drop(unread);
    assert_eq!(case.read(&token, 0).await, size, "for a while it can be fetched again");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_delivered_result_counts_as_fetched() {
    for case in cases().await {
        let token = case.server.token("acme", "jobs");
        let size = case.size();
        assert_eq!(case.read(&token, size).await, 0);
        case.is_kept("a read of nothing").await;

        // The server has put the last byte into its buffers. The client's window holds the byte
        // back there.
        let sent = case.server.metric("cloakwork_download_bytes_total").await;
        let stalled = case.get(&token, 0).await;
        eventually("the server has sent all that it has", || async {
            case.server.metric("cloakwork_download_bytes_total").await >= sent + size as f64
        })
        .await;
        // Two calls later, the server has done everything that it does at the last byte.
        case.is_kept("a read that stalls").await;
        drop(stalled);
        assert_eq!(case.read(&token, size).await, 0);
        case.is_kept("a read that was broken off").await;

        // The read resumes behind a break, as a client does.
        assert_eq!(case.read(&token, size / 2).await, size - size / 2);
        let kept = case.kept().await;
        assert!(kept <= Duration::from_secs(600), "{kept:?} after the last byte was delivered");
        assert_eq!(case.read(&token, 0).await, size, "for a while it can be fetched again");
    }
}

/// The chunks of an output share its memory. A caller that has read only the first of them keeps
/// the whole output there.
#[tokio::test(flavor = "multi_thread")]
async fn an_unread_output_counts_in_memory_with_all_its_bytes() {
    const TENANT_BYTES: u64 = 4 << 20;
    let setup = Setup::default()
        .with("limits.message_bytes", TENANT_BYTES / 4)
        .with("limits.inline_bytes", TENANT_BYTES / 8)
        .with("limits.chunk_bytes", 4096)
        .with("limits.tenant_held_bytes", TENANT_BYTES);
    let case = case(setup, 200).await;
    assert!(case.size() <= TENANT_BYTES / 8, "the output of {} bytes is not stored with its job", case.size());
    let token = case.server.token("acme", "read");
    let (mut unread, mut refused) = (Vec::new(), None);
    for _ in 0..=TENANT_BYTES / case.size() {
        match case.try_get(&token, 0).await {
            Ok(stream) => unread.push(stream),
            Err(status) => refused = Some(status),
        }
    }
    let refused = refused.expect("the outputs together exceed the limit");
    assert!(refused.message().contains("tenant_held_bytes"), "{refused}");
    assert!(!unread.is_empty(), "one output fits");
    drop(unread);
    eventually("the memory is free again", || async { case.try_get(&token, 0).await.is_ok() }).await;
}
