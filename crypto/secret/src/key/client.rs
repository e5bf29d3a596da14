//! The client key: one big key, and a small key for each parameter set that shares it.

use std::fmt;

use cloakwork_math::Torus;
use cloakwork_params::{Encoding, KeyId, Order, ParameterSet, TorusWidth};

use super::{GlweSecretKey, LweSecretKey};
use crate::{Randomness, SecretError};

/// All secrets of one client, under a random public name.
///
/// Sets that agree in the big key, its noise and the encoding share one: a ciphertext made for one of them
/// may then be computed on under any of them.
pub struct ClientKey {
    key_id: KeyId,
    big: GlweSecretKey,
    /// Never empty; the first set is the one that the key was made for.
    small: Vec<(&'static ParameterSet, LweSecretKey)>,
}

impl ClientKey {
    /// Fresh keys for one set.
    pub fn generate(set: &'static ParameterSet, randomness: &mut Randomness) -> Result<Self, SecretError> {
        let key_id = randomness.key_id()?;
        let big = GlweSecretKey::generate(set.glwe_dimension, set.polynomial_size, randomness.secret());
        let small = LweSecretKey::generate(set.lwe_dimension, randomness.secret());
        Self::from_parts(key_id, set, big, small)
    }

    /// Takes over keys from elsewhere, if they fit the set.
    pub fn from_parts(
        key_id: KeyId,
        set: &'static ParameterSet,
        big: GlweSecretKey,
        small: LweSecretKey,
    ) -> Result<Self, SecretError> {
        for (what, expected, got) in [
            ("bits of the big key", set.big_dimension(), big.flattened().dimension()),
            ("coefficients of a big key's polynomial", set.polynomial_size, big.polynomial_size()),
            ("bits of the small key", set.lwe_dimension, small.dimension()),
        ] {
            check(what, expected, got)?;
        }
        Ok(Self { key_id, big, small: vec![(set, small)] })
    }

    /// Makes a small key for one more set, which must share the big key with those already there.
    pub fn add(&mut self, set: &'static ParameterSet, randomness: &mut Randomness) -> Result<(), SecretError> {
        self.add_part(set, LweSecretKey::generate(set.lwe_dimension, randomness.secret()))
    }

    /// As [`Self::add`], with a small key from elsewhere.
    pub fn add_part(&mut self, set: &'static ParameterSet, small: LweSecretKey) -> Result<(), SecretError> {
        let first = self.small[0].0;
        if let Some(what) = family_difference(first, set) {
            return Err(SecretError::OtherFamily { expected: first.name, got: set.name, what });
        }
        if self.small.iter().any(|(present, _)| present.id == set.id) {
            return Err(SecretError::SetAlreadyInKey { set: set.name });
        }
        check("bits of the small key", set.lwe_dimension, small.dimension())?;
        self.small.push((set, small));
        Ok(())
    }

    /// Public random name; everything made under the key carries it.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// The sets that the key serves, the one it was made for first.
    pub fn sets(&self) -> impl Iterator<Item = &'static ParameterSet> {
        self.small.iter().map(|(set, _)| *set)
    }

    /// The big key.
    pub fn big(&self) -> &GlweSecretKey {
        &self.big
    }

    /// The small key of a set.
    pub fn small(&self, set: &ParameterSet) -> Result<&LweSecretKey, SecretError> {
        let part = self.small.iter().find(|(present, _)| present.id == set.id);
        part.map(|(_, small)| small).ok_or(SecretError::SetNotInKey { set: set.name })
    }

    /// The key that ciphertexts of a set live under between operations.
    pub fn input_key(&self, set: &ParameterSet) -> Result<&LweSecretKey, SecretError> {
        let small = self.small(set)?;
        Ok(match set.order {
            Order::KeySwitchFirst => self.big.flattened(),
            Order::BootstrapFirst => small,
        })
    }
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ClientKey({})", self.key_id)
    }
}

/// Is `T` the word of the set's ciphertexts?
pub(crate) fn check_word<T: Torus>(set: &ParameterSet) -> Result<(), SecretError> {
    let expected = match set.torus {
        TorusWidth::U32 => 32,
        TorusWidth::U64 => 64,
    };
    if T::BITS == expected {
        Ok(())
    } else {
        Err(SecretError::WrongWord { what: "ciphertexts", set: set.name, expected, got: T::BITS })
    }
}

/// What keeps two sets from sharing a big key, if anything does.
fn family_difference(one: &ParameterSet, other: &ParameterSet) -> Option<&'static str> {
    let plaintext = |set: &ParameterSet| match set.encoding {
        Encoding::Shortint { message_modulus, carry_modulus, .. } => Some((message_modulus, carry_modulus)),
        Encoding::Boolean => None,
    };
    [
        ("the torus", one.torus == other.torus),
        ("the GLWE dimension", one.glwe_dimension == other.glwe_dimension),
        ("the polynomial size", one.polynomial_size == other.polynomial_size),
        ("the GLWE noise", one.glwe_noise == other.glwe_noise),
        ("the encoding", plaintext(one) == plaintext(other)),
    ]
    .into_iter()
    .find_map(|(what, same)| (!same).then_some(what))
}

fn check(what: &'static str, expected: usize, got: usize) -> Result<(), SecretError> {
    if expected == got { Ok(()) } else { Err(cloakwork_tfhe::ShapeError { what, expected, got }.into()) }
}
