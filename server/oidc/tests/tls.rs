//! Issuers with a certificate.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use axum::serve::Listener;
use cloakwork_clock::{Clock, to_system_time};
use cloakwork_oidc::{Failure, Issuer, Options, Refusal};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    },
    server::TlsStream,
};

use crate::{
    issuer::{AUDIENCE, TestIssuer},
    keys::Signer,
};

type Authority = CertifiedIssuer<'static, KeyPair>;

/// A listener that expects TLS.
struct TlsListener {
    inner: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, address)) = self.inner.accept().await else { continue };
            // A client that does not trust the certificate ends the handshake.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.inner.local_addr()
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("names");
    let now = to_system_time(Clock::system().unix_micros());
    params.not_before = (now - Duration::from_secs(3600)).into();
    params.not_after = (now + Duration::from_secs(3600)).into();
    params
}

fn authority() -> Authority {
    let mut params = params(&[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a certificate")
}

async fn start(authority: &Authority, signer: &Signer) -> TestIssuer {
    let key = KeyPair::generate().expect("a key");
    let certificate = params(&["localhost"]).signed_by(&key, authority).expect("a certificate");
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("a certificate with its key");
    let inner = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("https://localhost:{}/realms/main", inner.local_addr().expect("an address").port());
    TestIssuer::start_on(TlsListener { inner, acceptor: TlsAcceptor::from(Arc::new(config)) }, url, &[signer])
}

fn file(directory: &TempDir, name: &str, text: &str) -> Option<PathBuf> {
    let path = directory.path().join(name);
    std::fs::write(&path, text).expect("a file");
    Some(path)
}

/// The token's claims are of a fixed time, so the clock is the test's.
fn verifier(options: Options) -> Issuer {
    let clock = cloakwork_clock::ManualClock::at(crate::keys::NOW * 1_000_000);
    Issuer::new(options, clock.clock()).expect("an issuer")
}

#[tokio::test]
async fn the_issuers_certificate_must_be_of_the_authority() {
    let (mine, other) = (authority(), authority());
    let signer = Signer::ed25519("a");
    let issuer = start(&mine, &signer).await;
    let token = signer.token(&issuer.claims());
    let directory = tempfile::tempdir().expect("a directory");
    let with = |ca_file| Options { ca_file, ..issuer.options() };
    let both = format!("{}{}", other.pem(), mine.pem());
    for right in [file(&directory, "mine.pem", &mine.pem()), file(&directory, "both.pem", &both)] {
        verifier(with(right)).verify(&token).await.expect("a good token");
    }
    for wrong in [file(&directory, "other.pem", &other.pem()), None] {
        let verifier = verifier(with(wrong));
        assert_eq!(verifier.verify(&token).await, Err(Refusal::IssuerAway));
        let failure = verifier.failure();
        assert!(matches!(&failure, Some(Failure::Connection(text)) if text.contains("certificate")), "{failure:?}");
    }
}

#[tokio::test]
async fn an_issuer_of_https_names_no_keys_of_http() {
    let authority = authority();
    let signer = Signer::ed25519("a");
    let issuer = start(&authority, &signer).await;
    let plain = TestIssuer::start(&[&signer]).await;
    let description = serde_json::json!({"issuer": issuer.url, "jwks_uri": format!("{}/keys", plain.url)});
    issuer.behave(crate::issuer::Manner::Description(description.to_string()));
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options { ca_file: file(&directory, "ca.pem", &authority.pem()), ..issuer.options() };
    let verifier = verifier(options);
    assert_eq!(verifier.verify(&signer.token(&issuer.claims())).await, Err(Refusal::IssuerAway));
    assert_eq!((verifier.failure(), plain.key_sets()), (Some(Failure::KeysAddress), 0));
}

#[test]
fn a_wrong_file_of_the_authority_is_refused_at_the_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let nowhere = Some(directory.path().join("nowhere.pem"));
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for wrong in [nowhere, file(&directory, "text.pem", "no certificate"), file(&directory, "broken.pem", broken)] {
        let options = Options { ca_file: wrong.clone(), ..Options::new("https://login.example.org", AUDIENCE) };
        let error = Issuer::new(options, Clock::system()).expect_err("a wrong file");
        assert_eq!(error.setting, "ca_file", "{wrong:?}");
        assert!(error.problem.starts_with(&wrong.expect("a path").display().to_string()), "{error}");
    }
}
