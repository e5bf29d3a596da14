//! Transport security: rustls with the ring provider, on each port for which the configuration
//! enables TLS.

mod certificate;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{
        CertificateDer,
        pem::{self, PemObject},
    },
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};

use tonic::transport::ClientTlsConfig;

use self::certificate::Certificate;
use crate::config::Listen;

/// The error that kept TLS from being set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file has unexpected content.
    #[error("{path} must hold {expected} in PEM: {cause}", path = path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The expected content.
        expected: &'static str,
        /// The cause.
        cause: String,
    },
    /// No protocol version of TLS is supported.
    #[error("TLS is not available: {cause}")]
    Protocol {
        /// The cause.
        cause: String,
    },
    /// Certificate and key do not match, or are of an unsupported kind.
    #[error("the certificate {path} cannot be used with its key: {cause}", path = certificate.display())]
    Unusable {
        /// The certificate.
        certificate: PathBuf,
        /// The cause.
        cause: String,
    },
}

/// A port, which determines the protocol on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// The gRPC port. Callers may present a certificate if an authority is configured.
    Api,
    /// The HTTP/1.1 port for probes and scrapers.
    Admin,
}

/// The certificate of a server and the authority for its callers, shared by all ports.
#[derive(Clone, Debug)]
pub struct Tls {
    listen: Listen,
    provider: Arc<CryptoProvider>,
    certificate: Arc<Certificate>,
}

impl Tls {
    /// Reads the certificate. Returns `None` if the configuration sets no certificate.
    pub fn load(listen: &Listen) -> Result<Option<Self>, TlsError> {
        let (Some(chain), Some(key)) = (&listen.tls_certificate, &listen.tls_key) else {
            return Ok(None);
        };
        let provider = Arc::new(ring::default_provider());
        let certificate = Arc::new(Certificate::load(chain.clone(), key.clone(), provider.clone())?);
        Ok(Some(Self { listen: listen.clone(), provider, certificate }))
    }

    /// Returns the TLS configuration of a port, or `None` if the port uses no TLS. Each handshake
    /// uses the certificate that is current at that time.
    pub fn server_config(&self, port: Port) -> Result<Option<Arc<ServerConfig>>, TlsError> {
        if port == Port::Admin && !self.listen.admin_tls {
            return Ok(None);
        }
        let versions = ServerConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Protocol { cause: error.to_string() })?;
        let callers = match &self.listen.client_ca {
            Some(authority) if port == Port::Api => versions.with_client_cert_verifier(self.verifier(authority)?),
            _ => versions.with_no_client_auth(),
        };
        let mut config = callers.with_cert_resolver(self.certificate.clone());
        config.alpn_protocols = vec![match port {
            Port::Api => b"h2".to_vec(),
            Port::Admin => b"http/1.1".to_vec(),
        }];
        Ok(Some(Arc::new(config)))
    }

    /// Loads a renewed certificate. Returns whether there was one. After an error, the old
    /// certificate stays in use.
    pub fn refresh(&self) -> Result<bool, TlsError> {
        self.certificate.refresh()
    }

    /// Checks for a renewed certificate once a minute and on SIGHUP. Never ends.
    pub async fn watch(self) {
        self.certificate.watch().await;
    }

    fn verifier(&self, authority: &Path) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
        let refused = |error: &dyn ToString| malformed(authority, "an authority's certificate", error.to_string());
        let mut roots = RootCertStore::empty();
        for root in certificates(authority, &read(authority)?)? {
            roots.add(root).map_err(|error| refused(&error))?;
        }
        // Tenants authenticate with tokens instead. The access policy decides for each call whether
        // it needs a certificate.
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), self.provider.clone());
        verifier.allow_unauthenticated().build().map_err(|error| refused(&error))
    }
}

/// Accepts servers with certificates of this authority.
pub fn client_config(authority: &Path) -> Result<ClientTlsConfig, TlsError> {
    let text = read(authority)?;
    certificates(authority, &text)?;
    Ok(ClientTlsConfig::new().ca_certificate(tonic::transport::Certificate::from_pem(text)))
}

/// When the first certificate of a file expires, in seconds of Unix time.
pub fn expires_seconds(file: &Path) -> Result<i64, TlsError> {
    let text = read(file)?;
    let first = certificates(file, &text)?.swap_remove(0);
    let parsed = x509_parser::parse_x509_certificate(&first);
    let (_, certificate) = parsed.map_err(|error| malformed(file, "a certificate", error))?;
    Ok(certificate.validity().not_after.timestamp())
}

fn certificates(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let all = all.map_err(|error| malformed(path, "certificates", error))?;
    if all.is_empty() { Err(malformed(path, "certificates", pem::Error::NoItemsFound)) } else { Ok(all) }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Unreadable { path: path.to_owned(), source })
}

fn malformed(path: &Path, expected: &'static str, cause: impl ToString) -> TlsError {
    TlsError::Malformed { path: path.to_owned(), expected, cause: cause.to_string() }
}
