//! The signature of this process under its results.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cloakwork_attestation::{Certificate, Statement, Subject, WorkerKey};
use cloakwork_clock::Clock;

use crate::{WorkerError, failure::JobFailure, locked::Locked as _};

/// Signs statements about results, under a key that exists in this process alone.
pub(crate) struct Attestor {
    key: Arc<WorkerKey>,
    possession: Bytes,
    clock: Clock,
    /// The latest certificate of the key.
    certificate: Mutex<Option<Certificate>>,
}

impl Attestor {
    /// Signs under a key. Draws one if it is absent.
    pub(crate) fn new(key: Option<Arc<WorkerKey>>, clock: Clock) -> Result<Self, WorkerError> {
        let draw = || WorkerKey::generate().map(Arc::new).map_err(|error| std::io::Error::other(error.to_string()));
        let key = key.map_or_else(draw, Ok)?;
        let possession = Bytes::copy_from_slice(&key.proof_of_possession());
        Ok(Self { key, possession, clock, certificate: Mutex::default() })
    }

    /// The worker's id.
    pub(crate) fn worker_id(&self) -> [u8; 16] {
        self.key.public().worker_id()
    }

    /// The public key, which the server certifies.
    pub(crate) fn public_key(&self) -> Bytes {
        Bytes::copy_from_slice(&self.key.public().0)
    }

    /// Shows the server that this process has the secret part of the key.
    pub(crate) fn possession(&self) -> Bytes {
        self.possession.clone()
    }

    /// The latest certificate, encoded. Empty before the first.
    pub(crate) fn latest_certificate(&self) -> Bytes {
        self.certificate.locked().map(|certificate| certificate.encode().into()).unwrap_or_default()
    }

    /// Fails if the worker could sign no result now. Each result would be computed in vain.
    pub(crate) fn check(&self) -> Result<(), JobFailure> {
        self.certificate_at(self.clock.unix_micros()).map(drop)
    }

    /// Takes a certificate from the server. A certificate of another key would make all results
    /// useless, so the old one stays.
    pub(crate) fn certify(&self, certificate: &[u8]) {
        match Certificate::decode(certificate) {
            Ok(certificate) if self.is_for_this_key(&certificate) => {
                if !certificate.claim().holds_at(self.clock.unix_micros()) {
                    tracing::warn!("a new certificate is not valid by this machine's clock: set the clock");
                }
                *self.certificate.locked() = Some(certificate);
            }
            Ok(_) => tracing::warn!("the server sent a certificate of another key"),
            Err(error) => tracing::warn!(%error, "the server sent no valid certificate"),
        }
    }

    /// Attests that this process computed a result, now.
    pub(crate) fn attest(&self, subject: Subject) -> Result<Bytes, JobFailure> {
        let signed_at_micros = self.clock.unix_micros();
        let certificate = self.certificate_at(signed_at_micros)?;
        let statement = Statement { worker: self.worker_id(), subject, signed_at_micros };
        Ok(statement.sign(&self.key, &certificate).into())
    }

    /// The latest certificate, if it is valid at this time.
    fn certificate_at(&self, micros: i64) -> Result<Certificate, JobFailure> {
        let valid = self.certificate.locked().filter(|certificate| certificate.claim().holds_at(micros));
        valid.ok_or_else(|| {
            let problem = "the worker has no certificate that is valid by its clock";
            JobFailure::passing("CERTIFICATE_UNAVAILABLE", problem)
        })
    }

    fn is_for_this_key(&self, certificate: &Certificate) -> bool {
        let claim = certificate.claim();
        claim.key == self.key.public() && claim.worker == self.worker_id()
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_attestation::{Anchor, Claim, InstallationKey, PublicKey, Verifier};
    use cloakwork_clock::ManualClock;

    use super::*;

    const NOW: i64 = 1_790_000_000_000_000;

    fn installation() -> InstallationKey {
        InstallationKey::from_seed(&[1; 32])
    }

    fn attestor() -> Attestor {
        Attestor::new(None, ManualClock::at(NOW).clock()).expect("randomness")
    }

    fn certificate(key: PublicKey, worker: [u8; 16]) -> Vec<u8> {
        let (not_before_micros, not_after_micros) = (NOW - 1, NOW + 1);
        let installation = installation().public();
        let claim = Claim { installation, key, worker, not_before_micros, not_after_micros };
        Certificate::sign(&self::installation(), claim).encode()
    }

    fn subject() -> Subject {
        Subject {
            job: [1; 16],
            request: [2; 16],
            program: [3; 32],
            key: [4; 16],
            evaluation_key: [9; 32],
            set: 5,
            rows: 6,
            inputs: [7; 32],
            outputs: [8; 32],
        }
    }

    #[test]
    fn a_certified_worker_signs_what_a_client_verifies() {
        let attestor = attestor();
        attestor.certify(&certificate(attestor.key.public(), attestor.worker_id()));
        let attestation = attestor.attest(subject()).expect("a certificate");
        let verifier = Verifier::new(Anchor::new([installation().public()]).expect("an anchor"));
        let statement = verifier.verify(&attestation, NOW).expect("a valid attestation");
        assert_eq!(statement, Statement { worker: attestor.worker_id(), subject: subject(), signed_at_micros: NOW });
    }

    #[test]
    fn a_worker_signs_nothing_without_a_certificate_of_its_own_key() {
        let attestor = attestor();
        let (own, id) = (attestor.key.public(), attestor.worker_id());
        for wrong in [certificate(PublicKey([9; 32]), id), certificate(own, [9; 16]), vec![0; 168], Vec::new()] {
            attestor.certify(&wrong);
            let failure = attestor.attest(subject()).expect_err("no certificate");
            assert_eq!((failure.reason, failure.retryable), ("CERTIFICATE_UNAVAILABLE", true));
        }
        // A wrong certificate does not replace a good one.
        attestor.certify(&certificate(own, id));
        attestor.certify(&certificate(own, [9; 16]));
        assert!(attestor.attest(subject()).is_ok());
        assert_eq!(attestor.latest_certificate(), certificate(own, id));
    }

    #[test]
    fn a_worker_signs_nothing_after_the_end_of_its_certificate() {
        let time = ManualClock::at(NOW);
        let attestor = Attestor::new(None, time.clock()).expect("randomness");
        assert!(attestor.check().is_err() && attestor.latest_certificate().is_empty());
        attestor.certify(&certificate(attestor.key.public(), attestor.worker_id()));
        assert!(attestor.check().is_ok());
        time.set_unix_micros(NOW + 1);
        assert!(attestor.attest(subject()).is_ok());
        time.set_unix_micros(NOW + 2);
        assert!(attestor.check().is_err());
        assert_eq!(attestor.attest(subject()).expect_err("it has expired").reason, "CERTIFICATE_UNAVAILABLE");
    }

    #[test]
    fn each_process_draws_its_own_key() {
        assert_ne!(attestor().public_key(), attestor().public_key());
    }
}
