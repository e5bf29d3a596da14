//! Certificates of `dev-certs` with all programs: servers, workers, the SDK and the command line.

use std::{os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use cloakwork_client::{Client, ClientError, ConnectOptions, Identity, RetryPolicy, Token};
use cloakwork_tests_service::{Server, Setup, Signal, Tenant, Worker, binary, dev_certificates, eventually};

fn setup(certificates: &Path) -> Setup {
    let path = |name: &str| certificates.join(name).display().to_string();
    Setup::default()
        .with("listen.tls_certificate", path("server.pem"))
        .with("listen.tls_key", path("server.key"))
        .with("listen.client_ca", path("ca.pem"))
        .with("auth.anonymous", "false")
        .with("auth.worker_mtls", "true")
}

/// Options of a caller that trusts this authority, and shows `worker.pem` of the `identity`
/// directory.
fn options(server: &Server, token: &str, authority: &Path, identity: Option<&Path>) -> ConnectOptions {
    let read = |directory: &Path, name: &str| std::fs::read(directory.join(name)).expect("a file");
    ConnectOptions {
        token: Some(Token::new(token).expect("a token")),
        ca_pem: Some(read(authority, "ca.pem")),
        identity: identity.map(|path| Identity::from_pem(read(path, "worker.pem"), read(path, "worker.key"))),
        retry: RetryPolicy::NEVER,
        ..ConnectOptions::new(server.url())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_certificates_of_the_authority_are_accepted_from_callers_and_workers() {
    let (ours, others) = (dev_certificates(), dev_certificates());
    let server = Server::start(setup(ours.path()).without_worker()).await;
    let token = server.token("acme", "jobs,keys,read");
    let connect = async |authority: &Path, identity: Option<&Path>| {
        Client::connect(&options(&server, &token, authority, identity)).await
    };
    // The server accepts a certificate of our authority, but needs none. The token identifies the
    // caller.
    let client = connect(ours.path(), Some(ours.path())).await.expect("a certificate and a token");
    assert_eq!(client.tenant().await.expect("a tenant"), "acme");
    connect(ours.path(), None).await.expect("a token alone");
    let stranger = connect(ours.path(), Some(others.path())).await.expect_err("the server distrusts that authority");
    assert!(matches!(stranger, ClientError::Transport { .. }), "{stranger:?}");
    let deceived = connect(others.path(), None).await.expect_err("that authority did not sign for the server");
    assert!(matches!(deceived, ClientError::Transport { .. }), "{deceived:?}");

    // The command line behaves like the SDK.
    let sets = |identity: &Path, more: &[&str]| {
        let mut command = Command::new(binary("tested-client"));
        command
            .env("CLOAKWORK_TOKEN", &token)
            .args(["--server", &server.url(), "--ca"])
            .arg(ours.path().join("ca.pem"));
        command.arg("--cert").arg(identity.join("worker.pem"));
        command.args(more).arg("sets").output().expect("it runs")
    };
    let key = |directory: &Path| directory.join("worker.key").display().to_string();
    let known = sets(ours.path(), &["--cert-key", &key(ours.path())]);
    assert!(known.status.success(), "{known:?}");
    assert_eq!(sets(others.path(), &["--cert-key", &key(others.path())]).status.code(), Some(5));
    assert_eq!(sets(ours.path(), &["--cert-key", "/nowhere/worker.key"]).status.code(), Some(2));
    assert_eq!(sets(ours.path(), &[]).status.code(), Some(2), "a certificate without its key");

    // A worker with a certificate needs no token, and computes jobs.
    let _worker = Worker::start_certified(&server, "certified", ours.path());
    Tenant::new(client).await.check_squares(&[1, 2, 3]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_key_that_others_may_read_causes_a_warning() {
    const WARNING: &str = r#"setting="listen.tls_key""#;
    let ours = dev_certificates();
    let set_mode = |mode| {
        std::fs::set_permissions(ours.path().join("server.key"), std::fs::Permissions::from_mode(mode))
            .expect("a mode");
    };
    set_mode(0o600);
    let mut server = Server::start(setup(ours.path()).without_worker()).await;
    assert!(!server.log().contains(WARNING), "{}", server.log());
    server.stop();
    set_mode(0o644);
    server.restart().await;
    assert!(server.log().contains(WARNING), "{}", server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn sighup_loads_a_renewed_certificate_and_keeps_the_old_one_if_it_is_broken() {
    let (ours, next) = (dev_certificates(), dev_certificates());
    let mut server = Server::start(setup(ours.path())).await;
    let token = server.token("acme", "jobs,keys,read");
    let trusting =
        async |authority: &Path, server: &Server| Client::connect(&options(server, &token, authority, None)).await;
    let before = trusting(ours.path(), &server).await.expect("the first certificate");
    let tenant = Tenant::new(before).await;
    let copy = |name: &str| std::fs::copy(next.path().join(name), ours.path().join(name)).expect("a copy");
    let authority = tempfile::tempdir().expect("a directory");
    std::fs::copy(ours.path().join("ca.pem"), authority.path().join("ca.pem")).expect("a copy");

    // Half of a renewal: the new certificate with the old key.
    copy("server.pem");
    server.process().signal(Signal::Hangup);
    eventually("the server logs the reason", || async { server.log().contains("the old one stays") }).await;
    assert!(server.log().contains("cannot be used with its key"), "{}", server.log());
    trusting(authority.path(), &server).await.expect("the old certificate is still shown");
    assert!(trusting(next.path(), &server).await.is_err());

    copy("server.key");
    server.process().signal(Signal::Hangup);
    eventually("the new certificate is shown", || async { trusting(next.path(), &server).await.is_ok() }).await;
    assert!(trusting(authority.path(), &server).await.is_err(), "the old one is gone");
    // A connection from before the renewal stays open.
    tenant.check_squares(&[4, 5]).await;
    server.stop();
}

/// Service managers reload by this signal, whether or not there is a certificate.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_certificate_goes_on_after_sighup() {
    let mut server = Server::start(Setup::default()).await;
    let tenant = Tenant::new(server.client().await).await;
    for _ in 0..3 {
        server.process().signal(Signal::Hangup);
        tenant.check_squares(&[2, 3]).await;
    }
    server.stop();
}
