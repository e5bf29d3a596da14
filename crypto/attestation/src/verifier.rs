//! Verification of attestations.

use std::{collections::VecDeque, sync::Mutex};

use crate::{
    ATTESTATION_BYTES, Anchor, AttestationError, CLOCK_SKEW_MICROS, Certificate, Statement, certificate,
    keys::{SIGNATURE_BYTES, SignatureBytes},
    statement,
};

/// Number of certificates that a verifier remembers by default.
const REMEMBERED_MAX: usize = 256;

/// Verifies attestations against an anchor.
#[derive(Debug)]
pub struct Verifier {
    anchor: Anchor,
    /// Certificates whose signatures fit, oldest first. Most results have a certificate that was
    /// seen before, and comparing it is a hundred times faster than verifying it.
    remembered: Mutex<VecDeque<Certificate>>,
    remembered_max: usize,
}

impl Verifier {
    /// A verifier that trusts the keys of `anchor`.
    pub fn new(anchor: Anchor) -> Self {
        Self::remembering(anchor, REMEMBERED_MAX)
    }

    /// As [`Self::new`], for a given number of workers. Their certificates are remembered.
    pub fn remembering(anchor: Anchor, workers_max: usize) -> Self {
        Self { anchor, remembered: Mutex::default(), remembered_max: workers_max }
    }

    /// The trusted keys.
    pub fn anchor(&self) -> &Anchor {
        &self.anchor
    }

    /// Checks the signatures and times of an attestation, and returns its statement, which the
    /// caller has yet to compare with its job. `now_micros` is the Unix time.
    pub fn verify(&self, attestation: &[u8], now_micros: i64) -> Result<Statement, AttestationError> {
        let parts = Parts::of(attestation)?;
        let statement = Statement::decode(parts.statement)?;
        let certificate = Certificate::decode(parts.certificate)?;
        self.check_certificate(&certificate)?;
        let claim = certificate.claim();
        if claim.worker != statement.worker {
            return Err(AttestationError::Mismatch { field: "worker" });
        }
        let signed_at = statement.signed_at_micros;
        if !claim.holds_at(signed_at) {
            return Err(AttestationError::Expired { problem: "was not valid when the statement was signed" });
        }
        if signed_at > now_micros.saturating_add(CLOCK_SKEW_MICROS) {
            return Err(AttestationError::Expired { problem: "signs a statement of a time to come" });
        }
        match claim.key.verifies(parts.statement, parts.signature) {
            true => Ok(statement),
            false => Err(AttestationError::Signature { what: "the statement" }),
        }
    }

    /// Checks that an installation of the anchor has signed the certificate.
    pub fn check_certificate(&self, certificate: &Certificate) -> Result<(), AttestationError> {
        let installation = certificate.claim().installation;
        if !self.anchor.has(&installation) {
            return Err(AttestationError::OtherInstallation { installation });
        }
        let remembered = || self.remembered.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if remembered().contains(certificate) {
            return Ok(());
        }
        if certificate.claim().is_too_long() {
            return Err(AttestationError::Expired { problem: "is valid for longer than a certificate may be" });
        }
        certificate.check_signature()?;
        let mut remembered = remembered();
        if remembered.len() >= self.remembered_max {
            remembered.pop_front();
        }
        remembered.push_back(*certificate);
        Ok(())
    }
}

/// The parts of an attestation, not yet decoded.
struct Parts<'a> {
    statement: &'a [u8; statement::BYTES],
    signature: &'a SignatureBytes,
    certificate: &'a [u8; certificate::BYTES],
}

impl<'a> Parts<'a> {
    fn of(attestation: &'a [u8]) -> Result<Self, AttestationError> {
        let cut = || {
            let (statement, rest) = attestation.split_first_chunk()?;
            let (signature, rest) = rest.split_first_chunk::<SIGNATURE_BYTES>()?;
            let certificate = rest.try_into().ok()?;
            Some(Self { statement, signature, certificate })
        };
        const { assert!(ATTESTATION_BYTES == 450) }
        cut().ok_or(AttestationError::Malformed { what: "the length" })
    }
}
