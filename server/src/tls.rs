//! Transport security: rustls with ring, on every port that the configuration asks for.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    server::WebPkiClientVerifier,
};

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

/// What a port needs to speak TLS; nothing where the configuration asks for none.
pub fn server_config(listen: &Listen, port: Port) -> Result<Option<Arc<ServerConfig>>, TlsError> {
    let (Some(certificate), Some(key)) = (&listen.tls_certificate, &listen.tls_key) else {
        return Ok(None);
    };
    if port == Port::Admin && !listen.admin_tls {
        return Ok(None);
    }
    let chain = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| malformed(key, "a private key", error))?;
    let provider = Arc::new(ring::default_provider());
    let unusable =
        |error: &dyn ToString| TlsError::Unusable { certificate: certificate.clone(), cause: error.to_string() };
    let versions = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&error))?;
    let callers = match &listen.client_ca {
        Some(authority) if port == Port::Api => {
            let mut roots = RootCertStore::empty();
            for root in certificates(authority)? {
                roots.add(root).map_err(|error| malformed(authority, "an authority's certificate", error))?;
            }
            // Tenants come with tokens instead. Which calls need a certificate is decided for each call.
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).allow_unauthenticated();
            let verifier =
                verifier.build().map_err(|error| malformed(authority, "an authority's certificate", error))?;
            versions.with_client_cert_verifier(verifier)
        }
        _ => versions.with_no_client_auth(),
    };
    let mut config = callers.with_single_cert(chain, key).map_err(|error| unusable(&error))?;
    config.alpn_protocols = vec![match port {
        Port::Api => b"h2".to_vec(),
        Port::Admin => b"http/1.1".to_vec(),
    }];
    Ok(Some(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let all = all.map_err(|error| malformed(path, "certificates", error))?;
    if all.is_empty() { Err(malformed(path, "certificates", pem::Error::NoItemsFound)) } else { Ok(all) }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Unreadable { path: path.to_owned(), source })
}

fn malformed(path: &Path, expected: &'static str, cause: impl ToString) -> TlsError {
    TlsError::Malformed { path: path.to_owned(), expected, cause: cause.to_string() }
}
