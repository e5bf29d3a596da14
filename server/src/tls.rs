//! Transport security: rustls with ring, on every port that the configuration asks for.

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

use self::certificate::Certificate;
use crate::config::Listen;

/// Why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file holds something else.
    #[error("{path} must hold {expected} in PEM: {cause}", path = path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
        /// What is wrong with it.
        cause: String,
    },
    /// No version of TLS can be spoken.
    #[error("TLS cannot be spoken: {cause}")]
    Protocol {
        /// Why.
        cause: String,
    },
    /// Certificate and key do not go together, or are of a kind that is not supported.
    #[error("the certificate {path} cannot be used with its key: {cause}", path = certificate.display())]
    Unusable {
        /// The certificate.
        certificate: PathBuf,
        /// What is wrong.
        cause: String,
    },
}

/// The protocols that a port speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// gRPC. Callers may show a certificate where an authority is configured.
    Api,
    /// HTTP/1.1, for probes and scrapers.
    Admin,
}

/// The certificate of a server and what is asked of its callers: one for all ports.
#[derive(Clone, Debug)]
pub struct Tls {
    listen: Listen,
    provider: Arc<CryptoProvider>,
    certificate: Arc<Certificate>,
}

impl Tls {
    /// Reads the certificate; nothing where the configuration asks for none.
    pub fn load(listen: &Listen) -> Result<Option<Self>, TlsError> {
        let (Some(chain), Some(key)) = (&listen.tls_certificate, &listen.tls_key) else {
            return Ok(None);
        };
        let provider = Arc::new(ring::default_provider());
        let certificate = Arc::new(Certificate::load(chain.clone(), key.clone(), provider.clone())?);
        Ok(Some(Self { listen: listen.clone(), provider, certificate }))
    }

    /// What a port needs to speak TLS; nothing where it shall not. Handshakes use the certificate of their time.
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

    /// Takes a renewed certificate into use; true if there was one. After an error the old one counts.
    pub fn refresh(&self) -> Result<bool, TlsError> {
        self.certificate.refresh()
    }

    /// Looks for a renewed certificate, once a minute and at a SIGHUP. Never ends.
    pub async fn watch(self) {
        self.certificate.watch().await;
    }

    fn verifier(&self, authority: &Path) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
        let refused = |error: &dyn ToString| malformed(authority, "an authority's certificate", error.to_string());
        let mut roots = RootCertStore::empty();
        for root in certificates(authority, &read(authority)?)? {
            roots.add(root).map_err(|error| refused(&error))?;
        }
        // Tenants come with tokens instead. Which calls need a certificate is decided for each call.
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), self.provider.clone());
        verifier.allow_unauthenticated().build().map_err(|error| refused(&error))
    }
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
