//! Certificates of workers' keys.

use crate::{
    AttestationError, InstallationKey, PublicKey,
    fields::Fields,
    keys::{SIGNATURE_BYTES, SignatureBytes},
};

/// Bytes of an encoded certificate.
pub(crate) const BYTES: usize = Claim::BYTES + SIGNATURE_BYTES;

/// The first bytes of a claim. A statement begins with others, so that no signature of one kind is
/// a signature of the other.
const MAGIC: [u8; 8] = *b"CWKCERT1";

/// The claim of a certificate: the key belongs to this worker of this installation, for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The installation.
    pub installation: PublicKey,
    /// The worker's key.
    pub key: PublicKey,
    /// The worker.
    pub worker: [u8; 16],
    /// When the claim begins to hold, in microseconds of Unix time.
    pub not_before_micros: i64,
    /// When it ceases to hold.
    pub not_after_micros: i64,
}

/// Largest difference between the clocks of two machines that a verifier allows for.
pub const CLOCK_SKEW_MICROS: i64 = 300 * 1_000_000;

/// Longest life of a certificate, before the allowance for clocks: a year. A program that signs for
/// the installation may check nothing, so that this bounds what a stolen server can have signed.
pub const CERTIFICATE_LIFE_MAX_MICROS: i64 = 366 * 24 * 3600 * 1_000_000;

impl Claim {
    /// Bytes of an encoded claim, which the installation's key signs.
    pub const BYTES: usize = 8 + 32 + 32 + 16 + 8 + 8;

    /// The bytes to sign.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let fields: [&[u8]; 6] = [
            &MAGIC,
            &self.installation.0,
            &self.key.0,
            &self.worker,
            &self.not_before_micros.to_le_bytes(),
            &self.not_after_micros.to_le_bytes(),
        ];
        let mut rest = bytes.as_mut_slice();
        for field in fields {
            let (place, after) = rest.split_at_mut(field.len());
            place.copy_from_slice(field);
            rest = after;
        }
        bytes
    }

    fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        if fields.take()? != MAGIC {
            return None;
        }
        Some(Self {
            installation: PublicKey(fields.take()?),
            key: PublicKey(fields.take()?),
            worker: fields.take()?,
            not_before_micros: i64::from_le_bytes(fields.take()?),
            not_after_micros: i64::from_le_bytes(fields.take()?),
        })
    }

    /// Whether the claim holds for longer than any certificate may.
    pub(crate) fn is_too_long(&self) -> bool {
        let life_micros = self.not_after_micros.saturating_sub(self.not_before_micros);
        life_micros > CERTIFICATE_LIFE_MAX_MICROS + CLOCK_SKEW_MICROS
    }

    /// Whether the claim holds at this time.
    pub fn holds_at(&self, micros: i64) -> bool {
        (self.not_before_micros..=self.not_after_micros).contains(&micros)
    }
}

/// A claim with the signature of its installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate {
    claim: Claim,
    signature: SignatureBytes,
}

impl Certificate {
    /// Signs a claim. The claim must name the key's installation.
    pub fn sign(key: &InstallationKey, claim: Claim) -> Self {
        Self { claim, signature: key.sign(&claim.encode()) }
    }

    /// A certificate from a signature that another program made. Fails if the signature does not
    /// fit.
    pub fn signed(claim: Claim, signature: [u8; 64]) -> Result<Self, AttestationError> {
        let certificate = Self { claim, signature };
        certificate.check_signature().map(|()| certificate)
    }

    /// The claim.
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// The encoded certificate.
    pub fn encode(&self) -> Vec<u8> {
        [&self.claim.encode()[..], &self.signature].concat()
    }

    /// Reads a certificate. Does not check its signature.
    pub fn decode(bytes: &[u8]) -> Result<Self, AttestationError> {
        let decoded = || {
            let mut fields = Fields::of(bytes);
            let certificate = Self { claim: Claim::decode(&mut fields)?, signature: fields.take()? };
            fields.end().map(|()| certificate)
        };
        decoded().ok_or(AttestationError::Malformed { what: "the certificate" })
    }

    pub(crate) fn check_signature(&self) -> Result<(), AttestationError> {
        match self.claim.installation.verifies(&self.claim.encode(), &self.signature) {
            true => Ok(()),
            false => Err(AttestationError::Signature { what: "the certificate" }),
        }
    }
}
