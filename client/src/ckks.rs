//! A client's keys for CKKS, which computes on encrypted approximate numbers: the secret key, and
//! the many parts of the evaluation key that the server gets.

mod directory;
mod generate;
mod needs;
mod program;
mod public;

use std::{fmt, sync::OnceLock};

use bytes::Bytes;
use cloakwork_params::{
    AnySet, EnvelopeError, EnvelopeReader, KeyId, ObjectKind,
    ckks::{CkksSet, layout::CiphertextShape},
};
use cloakwork_secret::{
    Randomness, SecretError,
    ckks::{
        Ciphertext, Ring, SecretKey, SeededCiphertext,
        format::{decode, encode},
    },
};
use zeroize::Zeroizing;

/// Description of a ciphertext: number of slots, level and scale.
pub use cloakwork_circuit::ckks::Vector;
/// Complex numbers, and the options of bootstraps: which matrices come first, and how many rotation
/// keys there are.
pub use cloakwork_secret::ckks::{BootstrapKind, Complex, KeySize};
pub use generate::{CkksBootstrap, CkksWish};
pub use program::{VectorProgram, VectorProgramBuilder, VectorValue};
pub use public::CkksPublicKey;

use crate::{ClientError, Encrypted, Part, Result};

/// A secret key for CKKS and its evaluation key. `Debug` prints no secret, and the key is wiped on
/// drop.
pub struct CkksKeys {
    key: SecretKey,
    parts: Vec<Part>,
    /// Takes some hundred megabytes for a real set. Created when numbers are encrypted or
    /// decrypted, and not to push a key.
    ring: OnceLock<Ring>,
}

impl CkksKeys {
    /// Public identifier, carried by everything that is made under the key.
    pub fn key_id(&self) -> KeyId {
        self.key.key_id()
    }

    /// The set that the key was made for.
    pub fn set(&self) -> &'static CkksSet {
        self.key.set()
    }

    /// The parts of the evaluation key.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Encrypts a power of two of numbers, up to half the ring's size. The level is the number of
    /// multiplications that can follow each other. The mask travels as a seed.
    pub fn encrypt(&self, numbers: &[Complex], level: usize) -> Result<Encrypted> {
        let mut randomness = Randomness::from_os().map_err(SecretError::from)?;
        let ciphertext = self.key.encrypt_seeded(self.ring(), numbers, level, &mut randomness)?;
        let mut envelope = Vec::new();
        encode(&ciphertext, self.ring(), self.key_id(), &mut envelope)?;
        Ok(Encrypted { envelope: envelope.into(), count: numbers.len() })
    }

    /// Generates an encoded public key. Its holders can encrypt numbers, and only the owner of
    /// these keys can decrypt the results. Each call returns a different public key.
    pub fn public_key(&self) -> Result<Bytes> {
        let mut randomness = Randomness::from_os().map_err(SecretError::from)?;
        let public = self.key.public_key(self.ring(), &mut randomness)?;
        let mut envelope = Vec::new();
        encode(&public, self.ring(), self.key_id(), &mut envelope)?;
        Ok(envelope.into())
    }

    /// Decrypts numbers that were encrypted or computed under the key. The ciphertext is checked,
    /// including its digest. The numbers are wiped on drop.
    ///
    /// The errors of the numbers depend on the secret key. Publishing many results with all their
    /// digits therefore discloses the key. Before you show results to others, round them to their
    /// significant digits, some ten bits above the error.
    pub fn decrypt(&self, envelope: &[u8]) -> Result<Zeroizing<Vec<Complex>>> {
        let (ring, key_id) = (self.ring(), Some(self.key_id()));
        let ciphertext = match EnvelopeReader::open(envelope)?.header().kind {
            ObjectKind::SeededCkksCiphertext => {
                let seeded = decode::<SeededCiphertext>(envelope, ring, key_id)?.object;
                seeded.expand(ring).map_err(SecretError::from)?
            }
            _ => decode::<Ciphertext>(envelope, ring, key_id)?.object,
        };
        Ok(Zeroizing::new(self.key.decrypt(ring, &ciphertext)?))
    }

    fn ring(&self) -> &Ring {
        self.ring.get_or_init(|| Ring::new(self.set()))
    }
}

impl fmt::Debug for CkksKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "CkksKeys({:?}, {} parts)", self.key, self.parts.len())
    }
}

/// Description of a ciphertext from its header, in the clear and unverified.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VectorHeader {
    /// Parameter set of the ciphertext.
    pub set: &'static CkksSet,
    /// The key that the ciphertext was made under.
    pub key_id: KeyId,
    /// Slots, level and scale.
    pub vector: Vector,
}

impl VectorHeader {
    /// Reads the header of an envelope.
    pub fn of(envelope: &[u8]) -> Result<Self> {
        let reader = EnvelopeReader::open(envelope)?;
        let header = reader.header();
        let set = AnySet::find(header.set).ok_or(EnvelopeError::UnknownParameterSet { got: header.set })?;
        let is_vector = matches!(header.kind, ObjectKind::CkksCiphertext | ObjectKind::SeededCkksCiphertext);
        let Some(set) = set.ckks().filter(|_| is_vector) else {
            return Err(EnvelopeError::WrongKind { expected: ObjectKind::CkksCiphertext, got: header.kind }.into());
        };
        let CiphertextShape { level, slots_log2, scale } = CiphertextShape::of(set, &header.dimensions)?;
        Ok(Self { set, key_id: header.key_id, vector: Vector { slots_log2, level, scale } })
    }
}

/// The set of CKKS with this name.
pub fn ckks_set_by_name(name: &str) -> Result<&'static CkksSet> {
    cloakwork_params::ckks::by_name(name).ok_or_else(|| ClientError::no_such_set(name))
}
