//! Attestations: who computed a result, for which job.
//!
//! A worker signs a [`Statement`] about each result, under a key of its process ([`WorkerKey`]). A
//! [`Certificate`] says that this key belongs to a worker of an installation. The key of the
//! installation ([`InstallationKey`]) signs it. Statement, signature and certificate form an
//! attestation. A [`Verifier`] checks it against the public keys that its user trusts (an
//! [`Anchor`]), and returns the statement. The caller compares the statement's [`Subject`] with the
//! job that it knows.
//!
//! An attestation proves origin, not correctness: a worker with a certificate can sign a wrong
//! result. All encodings have one fixed length and no optional parts, so there is one encoding of
//! each value. This crate reads no clock: callers pass the time.

#![forbid(unsafe_code)]

mod anchor;
mod certificate;
mod error;
mod fields;
mod keys;
mod statement;
mod verifier;

pub use anchor::{ANCHOR_KEYS_MAX, Anchor, AnchorError};
pub use certificate::{CERTIFICATE_LIFE_MAX_MICROS, CLOCK_SKEW_MICROS, Certificate, Claim};
pub use error::AttestationError;
pub use keys::{InstallationKey, PublicKey, WorkerKey};
pub use statement::{Statement, Subject, digest_of_list};
pub use verifier::Verifier;

/// Bytes of an attestation: a statement, its signature and the certificate of the worker's key.
pub const ATTESTATION_BYTES: usize = statement::BYTES + keys::SIGNATURE_BYTES + certificate::BYTES;
