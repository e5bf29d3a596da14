//! The server's certificate, which can be renewed while the server runs.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use rustls::{
    crypto::CryptoProvider,
    pki_types::{PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{MissedTickBehavior, interval},
};
use zeroize::Zeroizing;

use super::{TlsError, certificates, malformed, read};

/// Interval between two checks of the files. Certificates are renewed days before they expire, so
/// one minute is short enough.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// The two files of a certificate, and the last valid contents read from them. Each handshake uses
/// the contents that are current at that time.
#[derive(Debug)]
pub(super) struct Certificate {
    chain_file: PathBuf,
    key_file: PathBuf,
    provider: Arc<CryptoProvider>,
    current: RwLock<Loaded>,
}

#[derive(Clone, Debug)]
struct Loaded {
    key: Arc<CertifiedKey>,
    /// Digest of both files. Comparing modification times would miss a second change within the
    /// resolution of the file system's clock.
    digest: blake3::Hash,
}

impl Certificate {
    /// Reads both files.
    pub(super) fn load(
        chain_file: PathBuf,
        key_file: PathBuf,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, TlsError> {
        let (chain, key) = (read(&chain_file)?, Zeroizing::new(read(&key_file)?));
        let current = RwLock::new(decode(&chain_file, &key_file, &provider, &chain, &key)?);
        Ok(Self { chain_file, key_file, provider, current })
    }

    /// Loads the files if they have changed and are valid. Returns whether they were loaded. After
    /// an error, the old certificate stays in use.
    pub(super) fn refresh(&self) -> Result<bool, TlsError> {
        let (chain, key) = (read(&self.chain_file)?, Zeroizing::new(read(&self.key_file)?));
        if digest(&chain, &key) == self.current().digest {
            return Ok(false);
        }
        let fresh = decode(&self.chain_file, &self.key_file, &self.provider, &chain, &key)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(true)
    }

    /// Checks the files once a minute and on SIGHUP. Never ends.
    pub(super) async fn watch(self: Arc<Self>) {
        let mut hangup = match signal(SignalKind::hangup()) {
            Ok(hangup) => Some(hangup),
            Err(error) => {
                tracing::warn!(%error, "SIGHUP cannot be received: certificates are checked only once a minute");
                None
            }
        };
        let mut minute = interval(CHECK_INTERVAL);
        minute.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let asked = async {
                match &mut hangup {
                    Some(hangup) => hangup.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = minute.tick() => {}
                _ = asked => {}
            }
            let certificate = self.clone();
            // The files may be on a slow disk, so they are read on a blocking thread.
            match tokio::task::spawn_blocking(move || certificate.refresh()).await {
                Ok(Ok(true)) => tracing::info!(certificate = %self.chain_file.display(), "a new certificate is in use"),
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the new certificate cannot be used: the old one stays in use")
                }
                Err(error) => tracing::error!(%error, "checking the certificate failed"),
            }
        }
    }

    fn current(&self) -> Loaded {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current().key)
    }
}

fn decode(
    chain_file: &Path,
    key_file: &Path,
    provider: &CryptoProvider,
    chain: &[u8],
    key: &[u8],
) -> Result<Loaded, TlsError> {
    let chain_parsed = certificates(chain_file, chain)?;
    let key_parsed = PrivateKeyDer::from_pem_slice(key).map_err(|error| malformed(key_file, "a private key", error))?;
    // The conversion also checks that key and certificate match.
    let certified = CertifiedKey::from_der(chain_parsed, key_parsed, provider)
        .map_err(|error| TlsError::Unusable { certificate: chain_file.to_owned(), cause: error.to_string() })?;
    Ok(Loaded { key: Arc::new(certified), digest: digest(chain, key) })
}

fn digest(chain: &[u8], key: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(chain.len() as u64).to_le_bytes()).update(chain).update(key);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use cloakwork_clock::Clock;
    use rustls::crypto::ring;

    use super::*;
    use crate::dev_certs;

    fn load(directory: &Path) -> Certificate {
        let [chain, key] = ["server.pem", "server.key"].map(|name| directory.join(name));
        Certificate::load(chain, key, Arc::new(ring::default_provider())).unwrap()
    }

    fn served(certificate: &Certificate) -> Vec<u8> {
        certificate.current().key.cert[0].to_vec()
    }

    #[test]
    fn only_a_complete_new_pair_replaces_the_old_pair() {
        let [ours, others] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        for directory in [&ours, &others] {
            dev_certs::write(directory.path(), &[], &Clock::system()).unwrap();
        }
        let (certificate, new) = (load(ours.path()), load(others.path()));
        let (chain_file, key_file) = (&certificate.chain_file, &certificate.key_file);
        let before = served(&certificate);
        assert!(!certificate.refresh().unwrap(), "nothing has changed");
        let text = fs::read(chain_file).unwrap();
        let broken: [(&[u8], &str); 3] = [
            (b"", "must hold certificates in PEM"),
            // A file that is still being written.
            (&text[..text.len() / 2], "must hold certificates in PEM"),
            (&fs::read(&new.chain_file).unwrap(), "cannot be used with its key"),
        ];
        for (content, expected) in broken {
            fs::write(chain_file, content).unwrap();
            let error = certificate.refresh().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert_eq!(served(&certificate), before, "the old certificate stays in use");
        }
        fs::remove_file(chain_file).unwrap();
        assert!(matches!(certificate.refresh(), Err(TlsError::Unreadable { .. })));
        assert_eq!(served(&certificate), before);
        fs::copy(&new.chain_file, chain_file).unwrap();
        fs::copy(&new.key_file, key_file).unwrap();
        assert!(certificate.refresh().unwrap(), "both files are replaced");
        assert_eq!(served(&certificate), served(&new));
        assert_ne!(served(&certificate), before);
        assert!(!certificate.refresh().unwrap());
    }
}
