//! The client key: one big key, and a small key for each parameter set that shares it.

use std::fmt;

use cloakwork_math::Torus;
use cloakwork_params::{CompressionSet, Encoding, KeyId, Order, ParameterSet};

use super::{GlweSecretKey, LweSecretKey};
use crate::{Randomness, SecretError};

/// All secrets of one client, with a random public identifier.
///
/// Sets share a big key if they agree in the key, its noise and the encoding, and if their
/// ciphertexts are under the big key. A ciphertext made for one of them can then be used under any
/// of them.
pub struct ClientKey {
    key_id: KeyId,
    big: GlweSecretKey,
    /// Small keys by set, never empty. The first set is that for which the key was made.
    small: Vec<(&'static ParameterSet, LweSecretKey)>,
    packing: Vec<(&'static CompressionSet, GlweSecretKey)>,
}

impl ClientKey {
    /// Generates fresh keys for one set.
    pub fn generate(set: &'static ParameterSet, randomness: &mut Randomness) -> Result<Self, SecretError> {
        let key_id = randomness.key_id()?;
        let big = GlweSecretKey::generate(set.glwe_dimension, set.polynomial_size, randomness.secret())?;
        let small = LweSecretKey::generate(set.lwe_dimension, randomness.secret());
        Self::from_parts(key_id, set, big, small)
    }

    /// Takes over keys from elsewhere if they fit the set, under their own key id.
    pub fn from_parts(
        key_id: KeyId,
        set: &'static ParameterSet,
        big: GlweSecretKey,
        small: LweSecretKey,
    ) -> Result<Self, SecretError> {
        if key_id == KeyId::NONE {
            return Err(SecretError::Nameless);
        }
        for (what, expected, got) in [
            ("bits of the big key", set.big_dimension(), big.flattened().dimension()),
            ("coefficients of a big key's polynomial", set.polynomial_size, big.polynomial_size()),
            ("bits of the small key", set.lwe_dimension, small.dimension()),
        ] {
            check(what, expected, got)?;
        }
        Ok(Self { key_id, big, small: vec![(set, small)], packing: Vec::new() })
    }

    /// Generates a small key for one more set, which must share the big key with the present sets.
    pub fn add(&mut self, set: &'static ParameterSet, randomness: &mut Randomness) -> Result<(), SecretError> {
        self.add_part(set, LweSecretKey::generate(set.lwe_dimension, randomness.renewed_secret()?))
    }

    /// As [`Self::add`], with a small key from elsewhere.
    pub fn add_part(&mut self, set: &'static ParameterSet, small: LweSecretKey) -> Result<(), SecretError> {
        check_sets(self.sets().chain([set]))?;
        check("bits of the small key", set.lwe_dimension, small.dimension())?;
        self.small.push((set, small));
        Ok(())
    }

    /// Generates a packing key for a compression set that supports one of the key's parameter sets.
    pub fn add_compression(
        &mut self,
        set: &'static CompressionSet,
        randomness: &mut Randomness,
    ) -> Result<(), SecretError> {
        let (k, size) = (set.packing_glwe_dimension, set.packing_polynomial_size);
        self.add_compression_part(set, GlweSecretKey::generate(k, size, randomness.renewed_secret()?)?)
    }

    /// As [`Self::add_compression`], with a packing key from elsewhere.
    pub fn add_compression_part(
        &mut self,
        set: &'static CompressionSet,
        packing: GlweSecretKey,
    ) -> Result<(), SecretError> {
        if !self.sets().any(|served| set.parameter_sets.contains(&served.id)) {
            return Err(SecretError::Unsupported { set: self.first_set().name, what: set.name });
        }
        if self.packing.iter().any(|(present, _)| present.id == set.id) {
            return Err(SecretError::SetAlreadyInKey { set: set.name });
        }
        check("bits of the packing key", set.packing_dimension(), packing.flattened().dimension())?;
        check("coefficients of a packing key's polynomial", set.packing_polynomial_size, packing.polynomial_size())?;
        self.packing.push((set, packing));
        Ok(())
    }

    /// Random public identifier. Every object made under the key carries it.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// The set for which the key was made.
    pub fn first_set(&self) -> &'static ParameterSet {
        self.small[0].0
    }

    /// The sets of the key. The set for which it was made comes first.
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

    /// The compression sets of the key.
    pub fn compression_sets(&self) -> impl Iterator<Item = &'static CompressionSet> {
        self.packing.iter().map(|(set, _)| *set)
    }

    /// The packing key of a compression set.
    pub fn packing(&self, set: &CompressionSet) -> Result<&GlweSecretKey, SecretError> {
        let part = self.packing.iter().find(|(present, _)| present.id == set.id);
        part.map(|(_, packing)| packing).ok_or(SecretError::SetNotInKey { set: set.name })
    }

    /// The key of a set's ciphertexts between operations.
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

/// Checks that `T` is the word of the set's ciphertexts.
pub(crate) fn check_word<T: Torus>(set: &ParameterSet) -> Result<(), SecretError> {
    let expected = set.torus.bits();
    if T::BITS == expected {
        Ok(())
    } else {
        Err(SecretError::WrongWord { what: "ciphertexts", set: set.name, expected, got: T::BITS })
    }
}

/// Checks that one key can serve all of these sets. Sets of two families, and repeated sets, are
/// refused.
pub fn check_sets(sets: impl IntoIterator<Item = &'static ParameterSet>) -> Result<(), SecretError> {
    let mut present: Vec<&ParameterSet> = Vec::new();
    for set in sets {
        if present.iter().any(|other| other.id == set.id) {
            return Err(SecretError::SetAlreadyInKey { set: set.name });
        }
        if let Some(first) = present.first()
            && let Some(what) = family_difference(first, set)
        {
            return Err(SecretError::OtherFamily { expected: first.name, got: set.name, what });
        }
        present.push(set);
    }
    Ok(())
}

/// Returns the first property that keeps two sets from sharing a big key, if there is one.
fn family_difference(one: &ParameterSet, other: &ParameterSet) -> Option<&'static str> {
    let plaintext = |set: &ParameterSet| match set.encoding {
        Encoding::Shortint { message_modulus, carry_modulus, .. } => Some((message_modulus, carry_modulus)),
        Encoding::Boolean => None,
    };
    // With the bootstrap first, ciphertexts are under the small key, which no two sets share. A
    // ciphertext for one set is noise under the other's key.
    let under_big_key = |set: &ParameterSet| set.order == Order::KeySwitchFirst;
    [
        ("the torus", one.torus == other.torus),
        ("the GLWE dimension", one.glwe_dimension == other.glwe_dimension),
        ("the polynomial size", one.polynomial_size == other.polynomial_size),
        ("the GLWE noise", one.glwe_noise == other.glwe_noise),
        ("the encoding", plaintext(one) == plaintext(other)),
        ("the key that ciphertexts live under", under_big_key(one) && under_big_key(other)),
    ]
    .into_iter()
    .find_map(|(what, same)| (!same).then_some(what))
}

fn check(what: &'static str, expected: usize, got: usize) -> Result<(), SecretError> {
    if expected == got { Ok(()) } else { Err(cloakwork_tfhe::ShapeError { what, expected, got }.into()) }
}
