//! The installation: certifies the keys of its workers, and checks what they sign.
//!
//! An installation is one key of Ed25519. Clients know its public key, their *anchor*, and refuse
//! results that no worker of this installation has signed (docs/adr/0012-results-are-attested.md).

mod certifier;
mod key_files;
mod renewal;

use std::{
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use cloakwork_attestation::{
    ANCHOR_KEYS_MAX, Anchor, AnchorError, AttestationError, CLOCK_SKEW_MICROS, Certificate, Claim, PublicKey, Subject,
    Verifier, digest_of_list,
};
use cloakwork_clock::{Clock, unix_micros_after};
use cloakwork_keystore::Digest;
use cloakwork_scheduler::WorkerId;

use self::certifier::{Certifier, KeyInFile, SignCommand};
use crate::{
    config::{self, Config},
    dispatch::Leased,
    error::{ATTESTATION_MISSING, ApiError, CERTIFICATE_UNAVAILABLE, INTERNAL, Reason},
    jobs::id,
    metrics::Telemetry,
};

pub(crate) use self::key_files::DIRECTORY;
pub use self::{key_files::KeyFiles, renewal::Renewal};

/// The installation's key, and what it has certified.
pub struct Installation {
    certifier: Box<dyn Certifier>,
    verifier: Verifier,
    life: Duration,
    clock: Clock,
    telemetry: Arc<Telemetry>,
    /// One certificate is made at a time, since an operator's program may be slow.
    turn: tokio::sync::Mutex<()>,
}

/// Delay after which a worker may ask for a certificate again.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Why a server has no usable key of its installation.
#[derive(Debug, thiserror::Error)]
pub enum InstallationError {
    /// A file of the key cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file does not hold a key.
    #[error("{path} holds no key of an installation: restore it from a backup", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The keys make no anchor.
    #[error("the installation's keys: {0}")]
    Anchor(#[from] AnchorError),
    /// An anchor has no room for one more key.
    #[error("an anchor has at most {ANCHOR_KEYS_MAX} keys: remove a retired key with --forget first")]
    Full,
    /// The key lies with an operator's program.
    #[error("the key is with attestation.sign_command: change attestation.anchor instead")]
    NotHere,
}

impl Installation {
    /// Opens the installation that a configuration names. Makes its key at the first start.
    pub fn open(config: &Config, clock: Clock, telemetry: Arc<Telemetry>) -> Result<Self, InstallationError> {
        let config::Attestation { sign_command, anchor, certificate_hours } = &config.attestation;
        let (certifier, anchor): (Box<dyn Certifier>, Anchor) = match (sign_command, anchor) {
            (Some(program), Some(anchor)) => {
                check_program(program)?;
                (Box::new(SignCommand::new(program, anchor)), anchor.clone())
            }
            _ => {
                let files = KeyFiles::open(&config.storage.directory)?;
                let key = files.current()?;
                (Box::new(KeyInFile(key)), files.anchor()?)
            }
        };
        tracing::info!(%anchor, "workers' results are signed for this installation");
        Ok(Self {
            certifier,
            verifier: Verifier::remembering(anchor, usize::try_from(config.limits.workers).unwrap_or(usize::MAX)),
            life: Duration::from_secs(certificate_hours.saturating_mul(3600)),
            clock,
            telemetry,
            turn: tokio::sync::Mutex::default(),
        })
    }

    /// Checks the files that a configuration names, and changes nothing.
    pub fn check_files(config: &Config) -> Result<(), InstallationError> {
        config.attestation.sign_command.as_deref().map_or(Ok(()), check_program)
    }

    /// The anchor of an installation, for a command beside the server.
    pub fn anchor_of(config: &Config) -> Result<Anchor, InstallationError> {
        match &config.attestation.anchor {
            Some(anchor) => Ok(anchor.clone()),
            None => {
                let files = KeyFiles::open(&config.storage.directory)?;
                files.current()?;
                files.anchor()
            }
        }
    }

    /// The installation's keys, the current one first.
    pub fn anchor(&self) -> &Anchor {
        self.verifier.anchor()
    }

    /// A new certificate of a worker's key.
    async fn certify(&self, worker: WorkerId, key: PublicKey) -> Result<Certificate, ApiError> {
        let _turn = self.turn.lock().await;
        let now = self.clock.unix_micros();
        let claim = Claim {
            installation: self.certifier.installation(),
            key,
            worker: worker.0.to_be_bytes(),
            // The worker's clock may be behind this one.
            not_before_micros: now.saturating_sub(CLOCK_SKEW_MICROS),
            not_after_micros: unix_micros_after(now, self.life),
        };
        let certified = self.certifier.certify(claim).await;
        self.telemetry.metrics.certificates.add(1, [if certified.is_ok() { "issued" } else { "failed" }]);
        certified.map_err(|problem| {
            tracing::warn!(worker = %format_args!("{:032x}", worker.0), problem, "a worker got no certificate");
            let message = "the worker's key cannot be certified at present; the server's log has the cause";
            CERTIFICATE_UNAVAILABLE.error(message).retry_after(RETRY_DELAY)
        })
    }

    /// Checks that a worker has signed that these are the outputs of the job leased to it.
    pub fn check(
        &self,
        attestation: &[u8],
        worker: WorkerId,
        leased: &Leased,
        outputs: &[Digest],
    ) -> Result<(), ApiError> {
        let checked = match attestation.is_empty() {
            true => Err(ATTESTATION_MISSING.error("the result has no attestation")),
            false => self.verify(attestation, worker, &subject(leased, outputs)).map_err(refusal),
        };
        if let Err(error) = &checked {
            let (worker, reason) = (format_args!("{:032x}", worker.0), error.reason().code);
            tracing::warn!(%worker, reason, "the attestation of a worker's result was refused");
            self.telemetry.metrics.attestations_refused.add(1, [error.reason().code]);
        }
        checked
    }

    fn verify(&self, attestation: &[u8], worker: WorkerId, expected: &Subject) -> Result<(), AttestationError> {
        let statement = self.verifier.verify(attestation, self.clock.unix_micros())?;
        if statement.worker != worker.0.to_be_bytes() {
            return Err(AttestationError::Mismatch { field: "worker" });
        }
        statement.subject.check(expected)
    }

    /// The time after which a certificate is renewed: half of its life.
    fn renewal_time(&self, certificate: &Certificate) -> i64 {
        let half = i64::try_from(self.life.as_micros() / 2).unwrap_or(i64::MAX);
        certificate.claim().not_after_micros.saturating_sub(half)
    }

    /// Whether a worker's certificate is one of this installation's current key, for this worker,
    /// and valid now. A certificate with a longer life than the configured one is replaced.
    fn is_valid(&self, certificate: &Certificate, worker: WorkerId, key: PublicKey) -> bool {
        let (claim, now) = (certificate.claim(), self.clock.unix_micros());
        claim.installation == self.certifier.installation()
            && (claim.worker, claim.key) == (worker.0.to_be_bytes(), key)
            && claim.holds_at(now)
            && claim.not_after_micros <= unix_micros_after(now, self.life).saturating_add(CLOCK_SKEW_MICROS)
            && self.verifier.check_certificate(certificate).is_ok()
    }
}

impl std::fmt::Debug for Installation {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Installation").field("anchor", self.anchor()).finish_non_exhaustive()
    }
}

/// Fails unless this is a file that may be executed. The program itself runs only when a worker
/// attaches, long after the operator has read the log of the start.
fn check_program(program: &Path) -> Result<(), InstallationError> {
    let failed = |source| InstallationError::File { path: program.to_owned(), source };
    let found = program.metadata().map_err(failed)?;
    match found.is_file() && found.permissions().mode() & 0o111 != 0 {
        true => Ok(()),
        false => Err(failed(io::Error::new(io::ErrorKind::PermissionDenied, "not an executable file"))),
    }
}

/// The result that a leased job with these outputs has.
fn subject(leased: &Leased, outputs: &[Digest]) -> Subject {
    let meta = &*leased.meta;
    Subject {
        job: id::to_bytes(meta.id),
        request: leased.request_id(),
        program: meta.program.0,
        key: meta.key_id.0,
        evaluation_key: digest_of_list(leased.work.all_key_parts().map(|part| &part.blake3)),
        set: meta.set.id().0,
        rows: leased.output_rows(),
        inputs: digest_of_list(leased.work.inputs.iter().map(|input| &input.digest)),
        outputs: digest_of_list(outputs.iter().map(|output| &output.blake3)),
    }
}

fn refusal(error: AttestationError) -> ApiError {
    Reason::named(error.reason()).unwrap_or(INTERNAL).error(error.to_string())
}

#[cfg(test)]
pub(crate) mod tests;
