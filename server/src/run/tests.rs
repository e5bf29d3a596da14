use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use cloakwork_proto::v1::{
    AttachRequest, GetCapabilitiesRequest, GetJobRequest, capability_service_client::CapabilityServiceClient,
    job_service_client::JobServiceClient, worker_service_client::WorkerServiceClient,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::oneshot,
    task::JoinHandle,
};
use tonic::{
    Code,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

use tokio::time::timeout;

use tokio_rustls::client::TlsStream;

use super::{
    front::{ADMIN_PORT, API_PORT, CERTIFICATES, bind},
    *,
};
use crate::{
    backend,
    connection::{self, Callers, Connection, ConnectionLimits},
    dev_certs,
    tls::{Port, Tls},
};

/// Timeout of steps that should take no noticeable time.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

struct Running {
    address: SocketAddr,
    admin_address: SocketAddr,
    operator_address: Option<SocketAddr>,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<(), RunError>>,
    directory: tempfile::TempDir,
}

impl Running {
    async fn start(change: impl FnOnce(&mut Config, &Path)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.listen.address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        config.listen.admin_address = config.listen.address;
        config.storage.directory = directory.path().join("data");
        change(&mut config, directory.path());
        let server = Server::start(config, Clock::system()).await.unwrap();
        let (stop, stopped) = oneshot::channel();
        let (address, admin_address) = (server.address(), server.admin_address());
        let operator_address = server.operator_address();
        let ended = tokio::spawn(server.run(async move { stopped.await.unwrap() }));
        Self { address, admin_address, operator_address, stop, ended, directory }
    }

    async fn plain(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    /// Connects as a client that trusts this authority and presents this worker certificate.
    /// Returns an error if the connection fails.
    async fn secure(&self, authority: &Path, identity: Option<&Path>) -> Result<Channel, tonic::transport::Error> {
        let read = |path: PathBuf| std::fs::read(path).unwrap();
        let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(authority.join("ca.pem"))));
        if let Some(directory) = identity {
            let [certificate, key] = ["worker.pem", "worker.key"].map(|name| read(directory.join(name)));
            tls = tls.identity(Identity::from_pem(certificate, key));
        }
        let endpoint = Endpoint::from_shared(format!("https://localhost:{}", self.address.port())).unwrap();
        endpoint.tls_config(tls)?.connect().await
    }

    async fn admin(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.admin_address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    async fn end(self) {
        self.stop.send(()).unwrap();
        timeout(STEP_TIMEOUT, self.ended)
            .await
            .expect("the server drains")
            .unwrap()
            .expect("the server stops without an error");
    }
}

fn with_tls(config: &mut Config, directory: &Path) {
    dev_certs::write(directory, &[], &Clock::system()).unwrap();
    config.listen.tls_certificate = Some(directory.join("server.pem"));
    config.listen.tls_key = Some(directory.join("server.key"));
    config.listen.client_ca = Some(directory.join("ca.pem"));
    config.auth.worker_mtls = true;
}

async fn attach(channel: Channel) -> tonic::Status {
    let reports = tokio_stream(AttachRequest::default());
    WorkerServiceClient::new(channel).attach(reports).await.unwrap_err()
}

fn tokio_stream(first: AttachRequest) -> impl futures_util::Stream<Item = AttachRequest> {
    futures_util::stream::iter([first])
}

#[tokio::test]
async fn probes_health_and_metrics_report_the_servers_state_until_shutdown() {
    let server = Running::start(|_, _| ()).await;
    assert!(server.admin("/livez").await.starts_with("HTTP/1.1 200"));
    assert!(server.admin("/readyz").await.ends_with("ready\n"));
    assert!(server.admin("/nothing").await.starts_with("HTTP/1.1 404"));
    let mut health = HealthClient::new(server.plain().await);
    let request = HealthCheckRequest { service: String::new() };
    let answer = health.check(request.clone()).await.unwrap().into_inner();
    assert_eq!(answer.status(), ServingStatus::Serving);
    let mut watched = health.watch(request).await.unwrap().into_inner();
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    let metrics = server.admin("/metrics").await;
    assert!(metrics.contains("cloakwork_build_info{version="), "{metrics}");
    assert!(
        metrics.contains("cloakwork_grpc_calls_total{code=\"OK\",method=\"/grpc.health.v1.Health/Check\"} 1"),
        "{metrics}"
    );
    // An open stream does not delay the shutdown, and gets notified of it.
    let begin = Instant::now();
    let last = tokio::spawn(async move {
        let status = watched.message().await.unwrap().unwrap().status();
        (status, watched.message().await.unwrap_err())
    });
    server.end().await;
    assert!(begin.elapsed() < Duration::from_secs(25), "the server waited for its whole grace period");
    let (status, error) = last.await.unwrap();
    assert_eq!((status, error.code()), (ServingStatus::NotServing, Code::Unavailable));
}

#[tokio::test]
async fn reflection_lists_the_services() {
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let server = Running::start(|_, _| ()).await;
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut client = ServerReflectionClient::new(server.plain().await);
    let mut answers = client.server_reflection_info(futures_util::stream::iter([request])).await.unwrap().into_inner();
    let answer = answers.message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(services)) = answer.message_response else {
        panic!("{answer:?}");
    };
    let names: Vec<_> = services.service.into_iter().map(|service| service.name).collect();
    for name in ["cloakwork.v1.JobService", "cloakwork.v1.WorkerService", "grpc.health.v1.Health"] {
        assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
    }
    drop((answers, client));
    server.end().await;
}

#[tokio::test]
async fn tls_admits_clients_of_the_authority_and_workers_only_with_a_certificate() {
    let server = Running::start(with_tls).await;
    let ours = server.directory.path();
    // A tenant needs no certificate, and here not even a token.
    let channel = server.secure(ours, None).await.unwrap();
    let answer = HealthClient::new(channel.clone()).check(HealthCheckRequest::default()).await.unwrap();
    assert_eq!(answer.into_inner().status(), ServingStatus::Serving);
    let error = JobServiceClient::new(channel.clone()).get_job(GetJobRequest::default()).await.unwrap_err();
    assert_ne!(error.code(), Code::Unauthenticated, "{error:?}");
    // A worker needs a certificate.
    let error = attach(channel).await;
    assert_eq!(error.code(), Code::Unauthenticated, "{error:?}");
    assert!(error.message().contains("certificate"), "{error:?}");
    let error = attach(server.secure(ours, Some(ours)).await.unwrap()).await;
    assert!(!matches!(error.code(), Code::Unauthenticated | Code::PermissionDenied), "{error:?}");
    // A certificate of another authority is refused, even where no certificate is required.
    let others = tempfile::tempdir().unwrap();
    dev_certs::write(others.path(), &[], &Clock::system()).unwrap();
    let refused = match server.secure(ours, Some(others.path())).await {
        Err(error) => causes(&error),
        // With TLS 1.3, the client may learn of the refusal only when it sends something.
        Ok(channel) => causes(&HealthClient::new(channel).check(HealthCheckRequest::default()).await.unwrap_err()),
    };
    assert!(refused.contains("received fatal alert: "), "{refused}");
    // A client that trusts another authority refuses the server. A client without TLS gets no
    // answer.
    let refused = causes(&server.secure(others.path(), None).await.unwrap_err());
    assert!(refused.contains("invalid peer certificate: "), "{refused}");
    let mut plain =
        HealthClient::new(Endpoint::from_shared(format!("http://{}", server.address)).unwrap().connect_lazy());
    let refused = causes(&plain.check(HealthCheckRequest::default()).await.unwrap_err());
    assert!(refused.contains("transport error"), "{refused}");
    server.end().await;
}

/// Formats an error with its chain of causes.
fn causes(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[tokio::test]
async fn the_admin_port_uses_tls_if_configured() {
    let server = Running::start(|config, directory| {
        with_tls(config, directory);
        config.listen.admin_tls = true;
    })
    .await;
    let mut stream = handshake(server.admin_address, server.directory.path()).await.unwrap();
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // The stream may end without a TLS close notification.
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    server.end().await;
}

/// Makes a TLS handshake as a client that trusts the authority in this directory.
async fn handshake(address: SocketAddr, authority: &Path) -> io::Result<TlsStream<TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    let authority = std::fs::read(authority.join("ca.pem")).unwrap();
    roots.add(rustls::pki_types::pem::PemObject::from_pem_slice(&authority).unwrap()).unwrap();
    let mut client = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    tokio_rustls::TlsConnector::from(Arc::new(client)).connect("localhost".try_into().unwrap(), stream).await
}

// `tests/service` has the same test with a process and a real signal.
#[tokio::test]
async fn a_renewed_certificate_is_shown_on_every_port_and_open_connections_stay() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    with_tls(&mut config, directory.path());
    config.listen.admin_tls = true;
    let tls = Tls::load(&config.listen).unwrap().unwrap();
    let stop = CancellationToken::new();
    let mut ports = Vec::new();
    for port in [Port::Api, Port::Admin] {
        let (listener, address) = bind("test", SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
        let limits = ConnectionLimits {
            connections: 8,
            tenant_connections: 8,
            address_connections: 8,
            unauthenticated_bytes: u64::MAX,
            header_timeout: STEP_TIMEOUT,
            idle_timeout: STEP_TIMEOUT,
        };
        let echo = |mut connection: Connection, _| async move {
            let mut byte = [0];
            while connection.read_exact(&mut byte).await.is_ok() && connection.write_all(&byte).await.is_ok() {
                connection.flush().await.unwrap();
            }
        };
        tokio::spawn(connection::serve(
            listener,
            tls.server_config(port).unwrap(),
            limits,
            Callers::default(),
            stop.clone(),
            echo,
        ));
        ports.push(address);
    }
    let others = tempfile::tempdir().unwrap();
    dev_certs::write(others.path(), &[], &Clock::system()).unwrap();
    let mut open = Vec::new();
    for address in &ports {
        open.push(handshake(*address, directory.path()).await.unwrap());
        assert!(handshake(*address, others.path()).await.is_err(), "the certificate is not renewed yet");
    }
    for name in ["server.pem", "server.key"] {
        std::fs::copy(others.path().join(name), directory.path().join(name)).unwrap();
    }
    assert!(tls.refresh().unwrap());
    for (address, open) in ports.iter().zip(&mut open) {
        assert!(handshake(*address, others.path()).await.is_ok());
        assert!(
            handshake(*address, directory.path()).await.is_err(),
            "the old authority has not signed the new certificate"
        );
        let mut byte = [7];
        open.write_all(&byte).await.unwrap();
        byte = [0];
        open.read_exact(&mut byte).await.unwrap();
        assert_eq!(byte, [7]);
    }
    stop.cancel();
}

#[tokio::test]
async fn connections_without_a_request_are_closed() {
    let server = Running::start(|config, _| config.limits.header_timeout_ms = 100).await;
    for (address, said) in
        [(server.address, &b""[..]), (server.address, b"PRI * HTTP"), (server.admin_address, b"GET ")]
    {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(said).await.unwrap();
        let mut rest = Vec::new();
        // The connection must be closed or reset, not left open.
        let _ = timeout(STEP_TIMEOUT, stream.read_to_end(&mut rest)).await.expect("the server closes the connection");
    }
    server.end().await;
}

/// Makes an authenticated call. Callers on this machine count as authenticated.
async fn introduce(channel: &Channel) -> Result<(), tonic::Status> {
    let mut client = CapabilityServiceClient::new(channel.clone());
    client.get_capabilities(GetCapabilitiesRequest::default()).await.map(|_| ())
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_a_slot() {
    let server = Running::start(|config, _| {
        (config.limits.connections, config.limits.tenant_connections) = (1, 1);
    })
    .await;
    let first = server.plain().await;
    introduce(&first).await.unwrap();
    let second = Endpoint::from_shared(format!("http://{}", server.address)).unwrap().connect_lazy();
    let waiting = tokio::spawn(async move { introduce(&second).await });
    introduce(&first).await.unwrap();
    assert!(!waiting.is_finished());
    drop(first);
    timeout(STEP_TIMEOUT, waiting).await.unwrap().unwrap().unwrap();
    server.end().await;
}

#[tokio::test]
async fn unauthenticated_connections_close_in_favour_of_tenants_connections() {
    let server = Running::start(|config, _| {
        (config.limits.connections, config.limits.tenant_connections) = (3, 2);
    })
    .await;
    let check = async |channel: &Channel| {
        HealthClient::new(channel.clone()).check(HealthCheckRequest::default()).await.map(|_| ())
    };
    let unauthenticated = [server.plain().await, server.plain().await, server.plain().await];
    for connection in &unauthenticated {
        check(connection).await.unwrap();
    }
    let tenant = timeout(STEP_TIMEOUT, server.plain()).await.unwrap();
    timeout(STEP_TIMEOUT, introduce(&tenant)).await.unwrap().unwrap();
    // Later connections share the remaining slots: the oldest connection closes for the newest.
    let mut later = Vec::new();
    for _ in 0..4 {
        later.push(timeout(STEP_TIMEOUT, server.plain()).await.unwrap());
        timeout(STEP_TIMEOUT, check(later.last().unwrap())).await.unwrap().unwrap();
    }
    introduce(&tenant).await.unwrap();
    server.end().await;
}

/// A message without a token is the name of a service, and its size limit is set accordingly.
#[tokio::test]
async fn the_size_of_messages_without_a_token_is_limited() {
    let server = Running::start(|_, _| ()).await;
    let mut client = HealthClient::new(server.plain().await);
    let check = |bytes| HealthCheckRequest { service: "x".repeat(bytes) };
    assert_eq!(client.check(check(500)).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(client.check(check(2 << 10)).await.unwrap_err().code(), Code::ResourceExhausted);
    server.end().await;
}

#[tokio::test]
async fn startup_errors_name_their_setting_or_file() {
    let running = Running::start(|_, _| ()).await;
    let mut config = Config::default();
    config.listen.address = running.address;
    config.listen.admin_address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    config.storage.directory = running.directory.path().join("other");
    let error = Server::start(config.clone(), Clock::system()).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("listen.address = {}", running.address)), "{error}");
    let file = running.directory.path().join("file");
    std::fs::write(&file, "not a certificate").unwrap();
    config.listen.address = config.listen.admin_address;
    config.storage.directory = file.join("data");
    let error = Server::start(config.clone(), Clock::system()).await.unwrap_err().to_string();
    assert!(error.starts_with("storage.directory"), "{error}");
    config.listen.tls_certificate = Some(file.clone());
    config.listen.tls_key = Some(file.clone());
    let error = Server::start(config.clone(), Clock::system()).await.unwrap_err().to_string();
    assert!(error.contains("must hold certificates in PEM"), "{error}");
    config.listen.tls_key = Some(file.join("missing"));
    config.listen.tls_certificate = Some(file.join("missing"));
    let error = Server::start(config, Clock::system()).await.unwrap_err().to_string();
    assert!(error.contains("missing: "), "{error}");
    running.end().await;
}

#[tokio::test]
async fn two_servers_do_not_share_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut config = Config::default();
    config.storage.directory = directory.path().to_owned();
    (config.listen.address, config.listen.admin_address) = (any, any);
    config.worker.embedded = false;
    let _first = Server::start(config.clone(), Clock::system()).await.unwrap();
    let second = Server::start(config, Clock::system()).await.unwrap_err();
    assert!(matches!(second, RunError::Data(DataError::InUse { .. })), "{second}");
}

/// A server without an embedded worker. The test supplies a worker.
async fn server_without_worker(directory: &Path) -> Server {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut config = Config::default();
    config.storage.directory = directory.to_owned();
    (config.listen.address, config.listen.admin_address) = (any, any);
    config.worker.embedded = false;
    config.limits.drain_ms = 600;
    Server::start(config, Clock::system()).await.unwrap()
}

#[tokio::test]
async fn a_server_ends_with_an_error_when_its_worker_ends_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = server_without_worker(directory.path()).await;
    server.worker = Some(tokio::spawn(async { panic!("on purpose") }));
    let ended = timeout(STEP_TIMEOUT, server.run(std::future::pending())).await.expect("the server ends");
    assert!(ended.unwrap_err().to_string().starts_with("the embedded worker: "));
}

#[tokio::test]
async fn a_server_ends_with_an_error_that_names_a_lost_task() {
    for name in [API_PORT, ADMIN_PORT, CERTIFICATES, backend::DISPATCHER, backend::SWEEPER] {
        let directory = tempfile::tempdir().unwrap();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut config = Config::default();
        config.storage.directory = directory.path().join("data");
        (config.listen.address, config.listen.admin_address) = (any, any);
        config.worker.embedded = false;
        with_tls(&mut config, directory.path());
        let server = Server::start(config, Clock::system()).await.unwrap();
        match name {
            backend::DISPATCHER | backend::SWEEPER => server.backend.kill(name),
            _ => server.front.kill(name),
        }
        let ended = timeout(STEP_TIMEOUT, server.run(std::future::pending())).await.expect("the server ends");
        let error = ended.unwrap_err().to_string();
        assert!(error.starts_with(&format!("{name}: ")), "{error}");
    }
}

#[tokio::test]
async fn a_worker_that_outlives_its_grace_is_aborted_during_shutdown() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = server_without_worker(directory.path()).await;
    let (running, mut stopped) = oneshot::channel::<()>();
    server.worker = Some(tokio::spawn(async move {
        let _running = running;
        std::future::pending().await
    }));
    timeout(STEP_TIMEOUT, server.run(std::future::ready(()))).await.expect("the server ends").unwrap();
    assert_eq!(stopped.try_recv(), Err(oneshot::error::TryRecvError::Closed));
}

mod operators;
mod postgres;
mod upgrade;
