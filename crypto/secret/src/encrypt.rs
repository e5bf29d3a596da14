//! Encryption and decryption under a secret key.

use cloakwork_math::{Torus, random::MaskStream};
use cloakwork_params::{Noise, Order, ParameterSet};
use cloakwork_tfhe::{LweList, SeededLweList, ShapeError};
use zeroize::Zeroizing;

use crate::{ClientKey, LweSecretKey, Randomness, SecretError, encode, key::check_word};

impl ClientKey {
    /// Encrypts messages (0 and 1 in boolean sets) under the key of the set's ciphertexts.
    pub fn encrypt<T: Torus>(
        &self,
        set: &ParameterSet,
        messages: &[u64],
        randomness: &mut Randomness,
    ) -> Result<LweList<T>, SecretError> {
        Ok(self.encrypt_seeded(set, messages, randomness)?.expand())
    }

    /// As [`Self::encrypt`], to a list with seeded masks: one word per ciphertext.
    pub fn encrypt_seeded<T: Torus>(
        &self,
        set: &ParameterSet,
        messages: &[u64],
        randomness: &mut Randomness,
    ) -> Result<SeededLweList<T>, SecretError> {
        check_word::<T>(set)?;
        let plaintexts = encode::plaintexts(set, messages)?;
        self.input_key(set)?.encrypt_seeded(&plaintexts, input_noise(set), randomness)
    }

    /// Decrypts ciphertexts of a set. A shortint message includes its carry.
    pub fn decrypt<T: Torus>(&self, set: &ParameterSet, ciphertexts: &LweList<T>) -> Result<Vec<u64>, SecretError> {
        let phases = Zeroizing::new(self.phases(set, ciphertexts)?);
        Ok(phases.iter().map(|&phase| encode::message(set, phase)).collect())
    }

    /// Returns the phases of ciphertexts of a set before rounding: plaintext plus noise. SECRET.
    pub fn phases<T: Torus>(&self, set: &ParameterSet, ciphertexts: &LweList<T>) -> Result<Vec<T>, SecretError> {
        check_word::<T>(set)?;
        self.input_key(set)?.phases(ciphertexts)
    }
}

impl LweSecretKey {
    /// Encrypts plaintexts without further encoding, with seeded masks. The modulus is the word's
    /// own.
    pub fn encrypt_seeded<T: Torus>(
        &self,
        plaintexts: &[T],
        noise: Noise,
        randomness: &mut Randomness,
    ) -> Result<SeededLweList<T>, SecretError> {
        let seed = randomness.mask_seed()?;
        let mut masks = MaskStream::new(&seed);
        let mut mask = vec![T::default(); self.dimension()];
        // Noise and mask are added in place, so that no copy of a plaintext remains.
        let mut bodies = plaintexts.to_vec();
        randomness.secret().add_noise(noise, T::BITS, &mut bodies);
        for body in &mut bodies {
            masks.fill(T::BITS, &mut mask);
            *body = body.wrapping_add(self.product(&mask));
        }
        Ok(SeededLweList::new(self.dimension(), seed, bodies)?)
    }

    /// Computes the phase of each ciphertext. SECRET.
    pub fn phases<T: Torus>(&self, ciphertexts: &LweList<T>) -> Result<Vec<T>, SecretError> {
        if ciphertexts.dimension() != self.dimension() {
            let (expected, got) = (self.dimension(), ciphertexts.dimension());
            return Err(ShapeError { what: "dimension of the ciphertexts", expected, got }.into());
        }
        let phases: Result<_, ShapeError> = ciphertexts.iter().map(|ciphertext| self.phase(ciphertext)).collect();
        Ok(phases?)
    }
}

/// Noise of fresh ciphertexts of a set.
pub(crate) fn input_noise(set: &ParameterSet) -> Noise {
    match set.order {
        Order::KeySwitchFirst => set.glwe_noise,
        Order::BootstrapFirst => set.lwe_noise,
    }
}
