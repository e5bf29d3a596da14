//! A client's keys for CKKS, which computes on encrypted approximate numbers: the secret key, and
//! the many parts of the evaluation key that the server gets.

mod directory;
mod generate;
mod needs;
mod program;
mod public;

use std::{fmt, sync::OnceLock};

use bytes::Bytes;
use cloakwork_params::{EnvelopeReader, KeyId, ObjectKind, ckks::CkksSet};
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
/// Complex numbers, noise that hides errors, and the options of bootstraps: which matrices come
/// first, and how many rotation keys there are.
pub use cloakwork_secret::ckks::{BootstrapKind, Complex, Flooding, KeySize};
pub use generate::{CkksBootstrap, CkksWish};
pub use program::{VectorProgram, VectorProgramBuilder, VectorValue};
pub use public::CkksPublicKey;

use crate::{
    ClientError, Encrypted, Part, Result,
    shape::{Shape, VectorShape},
};

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
        Ok(Encrypted { envelope: envelope.into(), shape: shape_of(self.ring(), numbers, level) })
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

    /// Decrypts numbers that were encrypted or computed under the key, and rounds them to the
    /// digits that results of the set keep (`result_digits`). The ciphertext is checked, including
    /// its digest, and must have its shape. The numbers are wiped on drop.
    pub fn decrypt(&self, list: &Encrypted) -> Result<Zeroizing<Vec<Complex>>> {
        self.decrypt_rounded(list, self.set().result_digits)
    }

    /// Like [`Self::decrypt`], with another number of digits behind the point. Digits below some
    /// ten bits above the error are dangerous to publish, as those of [`Self::decrypt_exact`] are.
    pub fn decrypt_rounded(&self, list: &Encrypted, digits: u8) -> Result<Zeroizing<Vec<Complex>>> {
        let mut numbers = self.decrypt_exact(list)?;
        numbers.iter_mut().for_each(|number| *number = rounded(*number, digits));
        Ok(numbers)
    }

    /// Like [`Self::decrypt`], with all digits of the numbers.
    ///
    /// The errors of the numbers depend on the secret key. Publishing many results with all their
    /// digits therefore discloses the key.
    pub fn decrypt_exact(&self, list: &Encrypted) -> Result<Zeroizing<Vec<Complex>>> {
        Ok(Zeroizing::new(self.key.decrypt(self.ring(), &self.checked(list)?)?))
    }

    /// Like [`Self::decrypt_exact`], with noise that hides the errors from those who see the
    /// numbers. [`Flooding::noise`] is the size of this noise.
    pub fn decrypt_flooded(&self, list: &Encrypted, flooding: &Flooding) -> Result<Zeroizing<Vec<Complex>>> {
        let mut randomness = Randomness::from_os().map_err(SecretError::from)?;
        let ciphertext = self.checked(list)?;
        Ok(Zeroizing::new(self.key.decrypt_flooded(self.ring(), &ciphertext, flooding, &mut randomness)?))
    }

    /// Decodes a ciphertext that has its shape.
    fn checked(&self, list: &Encrypted) -> Result<Ciphertext> {
        let shape = list.shape.vector()?;
        shape.check(&list.envelope)?;
        let (envelope, ring, key_id) = (&list.envelope[..], self.ring(), Some(self.key_id()));
        let ciphertext = match EnvelopeReader::open(envelope)?.header().kind {
            ObjectKind::SeededCkksCiphertext => {
                let seeded = decode::<SeededCiphertext>(envelope, ring, key_id)?.object;
                seeded.expand(ring).map_err(SecretError::from)?
            }
            _ => decode::<Ciphertext>(envelope, ring, key_id)?.object,
        };
        // The scales differ at most by a rounding. The client's own value is used, so that no bit
        // of the header influences the numbers.
        Ok(Ciphertext { scale: shape.vector.scale, ..ciphertext })
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

fn rounded(number: Complex, digits: u8) -> Complex {
    let power = 10_f64.powi(digits.into());
    let round = |part: f64| {
        let shifted = part * power;
        // A part whose product overflows is left as it is.
        // Adding zero makes a negative zero positive. Its sign would be the sign of the error.
        if shifted.is_finite() { shifted.round() / power + 0.0 } else { part }
    };
    Complex::new(round(number.re), round(number.im))
}

/// The shape of newly encrypted numbers.
fn shape_of(ring: &Ring, numbers: &[Complex], level: usize) -> Shape {
    let vector = Vector { slots_log2: numbers.len().ilog2(), level, scale: ring.scale() };
    Shape::Vector(VectorShape { set: ring.set(), vector })
}

/// The set of CKKS with this name.
pub fn ckks_set_by_name(name: &str) -> Result<&'static CkksSet> {
    cloakwork_params::ckks::by_name(name).ok_or_else(|| ClientError::no_such_set(name))
}
