use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::Duration,
};

use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle, time::timeout};
use tonic::{Code, server::NamedService, service::Routes};
use tonic_types::ErrorDetails;

use super::*;

/// A server that answers each call with one status, and counts the calls.
#[derive(Clone)]
struct Answering {
    status: Status,
    calls: Arc<AtomicU64>,
}

impl NamedService for Answering {
    const NAME: &'static str = "test";
}

impl Service<Request<Body>> for Answering {
    type Response = Response<Body>;
    type Error = std::convert::Infallible;
    type Future = std::future::Ready<Result<Response<Body>, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        self.calls.fetch_add(1, SeqCst);
        std::future::ready(Ok(self.status.clone().into_http()))
    }
}

struct Server {
    url: String,
    calls: Arc<AtomicU64>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Server {
    /// Stops the server, with its connections. Without the signal, connections would outlive the
    /// server's task and answer further calls.
    async fn stop(self) {
        self.stop.send(()).expect("the server runs");
        self.task.await.expect("the server ends");
    }
}

/// Ends a test that would hang.
const LIMIT: Duration = Duration::from_secs(30);

async fn server(status: Status) -> Server {
    let calls = Arc::<AtomicU64>::default();
    let routes = Routes::new(Answering { status, calls: calls.clone() });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async move { drop(stopped.await) };
    let serving =
        tonic::transport::Server::builder().add_routes(routes).serve_with_incoming_shutdown(incoming, stopped);
    Server { url, calls, stop, task: tokio::spawn(async { serving.await.expect("it serves") }) }
}

fn not_owner(owner: Option<&str>) -> Status {
    let metadata: HashMap<String, String> =
        owner.map(|owner| ("owner".to_owned(), owner.to_owned())).into_iter().collect();
    let details = ErrorDetails::with_error_info("NOT_OWNER", "cloakwork", metadata);
    Status::with_error_details(Code::Unavailable, "another server owns the database", details)
}

fn servers(urls: &[&Server]) -> Servers {
    let connect = |url: &str| -> Result<Endpoint, Box<dyn Error>> {
        let is_here = url.starts_with("http://127.0.0.1:");
        if is_here { Ok(Endpoint::from_shared(url.to_owned())?) } else { Err("refused".into()) }
    };
    let given: Vec<Endpoint> = urls.iter().map(|server| connect(&server.url).expect("a URL")).collect();
    Servers::new(&given, Arc::new(connect))
}

async fn call(servers: &Servers) -> Result<Code, tonic::transport::Error> {
    let request = Request::post("/test/Call").header("content-type", "application/grpc").body(Body::empty());
    let answer = servers.clone().oneshot(request.expect("a request")).await?;
    Ok(Status::from_header_map(answer.headers()).expect("a status").code())
}

#[tokio::test]
async fn calls_move_to_the_owner_and_back_when_it_is_gone() {
    let owner = server(Status::not_found("served")).await;
    let other = server(not_owner(Some(&owner.url))).await;
    let servers = servers(&[&other]);
    assert_eq!(call(&servers).await.expect("an answer"), Code::Unavailable);
    for _ in 0..2 {
        assert_eq!(call(&servers).await.expect("an answer"), Code::NotFound);
    }
    assert_eq!((other.calls.load(SeqCst), owner.calls.load(SeqCst)), (1, 2));
    timeout(LIMIT, owner.stop()).await.expect("the owner stops");
    // The connection may notice its end only at the next call.
    let moves = async { while call(&servers).await.ok() != Some(Code::Unavailable) {} };
    timeout(LIMIT, moves).await.expect("calls move back");
    assert_eq!(other.calls.load(SeqCst), 2);
}

#[tokio::test]
async fn calls_try_the_given_servers_in_turn() {
    let gone = server(Status::ok("")).await;
    let (unknowing, owner) = (server(not_owner(None)).await, server(Status::not_found("served")).await);
    let servers = servers(&[&gone, &unknowing, &owner]);
    timeout(LIMIT, gone.stop()).await.expect("the server stops");
    call(&servers).await.expect_err("no server listens");
    assert_eq!(call(&servers).await.expect("an answer"), Code::Unavailable);
    assert_eq!(call(&servers).await.expect("an answer"), Code::NotFound);
}

#[tokio::test]
async fn a_url_that_the_worker_refuses_is_not_called() {
    let other = server(not_owner(Some("http://192.0.2.1:1"))).await;
    let servers = servers(&[&other]);
    for calls in 1..=2 {
        assert_eq!(call(&servers).await.expect("an answer"), Code::Unavailable);
        assert_eq!(other.calls.load(SeqCst), calls);
    }
}

/// Calls run at the same time. Otherwise the late failures of the old owner would move calls away
/// from the new one.
#[tokio::test]
async fn an_answer_moves_only_calls_that_have_not_moved_since() {
    let (first, second) = (server(Status::ok("")).await, server(Status::ok("")).await);
    let servers = servers(&[&first, &second]);
    servers.leave(0, Some(Elsewhere { owner: Some(second.url), shard: None }));
    servers.leave(0, None);
    assert_eq!(servers.current().moves, 1);
}
