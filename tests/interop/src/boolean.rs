//! Conversion of client keys, server keys and ciphertexts of the boolean sets.

use cloakwork_params::{KeyId, ParameterSet};
use cloakwork_secret::{ClientKey, GlweSecretKey, LweSecretKey};
use cloakwork_tfhe::LweList;
use tfhe::{
    boolean::{self, ciphertext::Ciphertext, server_key::CompressedServerKey},
    core_crypto::prelude::{
        CiphertextModulus, GlweSecretKey as TheirGlweSecretKey, LweCiphertext, LweSecretKey as TheirLweSecretKey,
        PolynomialSize,
    },
};

use crate::{ConversionError, EvaluationKeys, entity, parameters};

/// An eighth of the torus, which encodes true.
const EIGHTH: u32 = 1 << 29;

/// Converts a client key of tfhe-rs, under a public name of the caller's choice.
pub fn client_key_from_tfhe(key: boolean::client_key::ClientKey, key_id: KeyId) -> Result<ClientKey, ConversionError> {
    let (small, big, parameters) = key.into_raw_parts();
    let set = parameters::find_boolean(&parameters)?;
    let big = GlweSecretKey::from_bits(big.polynomial_size().0, entity::bits_from_tfhe(big.as_ref()))?;
    let small = LweSecretKey::from_bits(entity::bits_from_tfhe(small.as_ref()))?;
    Ok(ClientKey::from_parts(key_id, set, big, small)?)
}

/// Converts the part of a client key that serves `set` to a key of tfhe-rs. SECRET.
pub fn client_key_into_tfhe(
    key: &ClientKey,
    set: &'static ParameterSet,
) -> Result<boolean::client_key::ClientKey, ConversionError> {
    let big = entity::bits_into_tfhe(key.big().bits());
    Ok(boolean::client_key::ClientKey::new_from_raw_parts(
        TheirLweSecretKey::from_container(entity::bits_into_tfhe(key.small(set)?.bits())),
        TheirGlweSecretKey::from_container(big, PolynomialSize(set.polynomial_size)),
        parameters::boolean(set)?,
    ))
}

impl EvaluationKeys<u32, u32> {
    /// Converts a compressed server key of tfhe-rs, made under the parameters of `set`.
    pub fn from_boolean(set: &'static ParameterSet, key: CompressedServerKey) -> Result<Self, ConversionError> {
        let (bootstrap, key_switch, order) = key.into_raw_parts();
        ConversionError::check("order of key switch and bootstrap", parameters::pbs_order(set.order), order)?;
        let bootstrap = entity::bootstrap_key_from_tfhe(bootstrap)?;
        Ok(Self { set, key_switch: entity::key_switch_key_from_tfhe(key_switch)?, bootstrap })
    }

    /// Converts the keys to a compressed server key of tfhe-rs.
    pub fn to_boolean(&self) -> CompressedServerKey {
        CompressedServerKey::from_raw_parts(
            entity::bootstrap_key_into_tfhe(&self.bootstrap),
            entity::key_switch_key_into_tfhe(&self.key_switch),
            parameters::pbs_order(self.set.order),
        )
    }
}

/// Converts ciphertexts of a boolean set. Trivial ciphertexts become words with a mask of zeros.
pub fn ciphertexts_from_tfhe<'a>(
    set: &ParameterSet,
    ciphertexts: impl IntoIterator<Item = &'a Ciphertext>,
) -> Result<LweList<u32>, ConversionError> {
    let encrypted: Vec<_> = ciphertexts
        .into_iter()
        .map(|ciphertext| match ciphertext {
            Ciphertext::Encrypted(ciphertext) => ciphertext.clone(),
            Ciphertext::Trivial(bit) => {
                let mut words = vec![0; set.input_dimension() + 1];
                words[set.input_dimension()] = if *bit { EIGHTH } else { EIGHTH.wrapping_neg() };
                LweCiphertext::from_container(words, CiphertextModulus::new_native())
            }
        })
        .collect();
    entity::lwe_list_from_tfhe(set.input_dimension(), &encrypted)
}

/// Converts ciphertexts of a boolean set to those of tfhe-rs.
pub fn ciphertexts_into_tfhe(set: &ParameterSet, list: &LweList<u32>) -> Result<Vec<Ciphertext>, ConversionError> {
    ConversionError::check("dimension of the ciphertexts", set.input_dimension(), list.dimension())?;
    Ok(entity::lwe_list_into_tfhe(list).map(Ciphertext::Encrypted).collect())
}
