//! Conversion of client and server keys for tfhe-rs's integers, which are rows of shortint blocks.

use cloakwork_params::ParameterSet;
use cloakwork_secret::ClientKey;
use tfhe::{
    Tag,
    integer::{ClientKey as RadixClientKey, CompressedServerKey as RadixCompressedServerKey},
    shortint::ciphertext::MaxDegree,
};

use crate::{
    ConversionError, EvaluationKeys, parameters,
    shortint::{self, SmallWord},
};

/// Converts the part of a client key that serves `set` to a key for tfhe-rs's `FheUint` and
/// `FheInt`. SECRET.
pub fn client_key_into_tfhe(key: &ClientKey, set: &'static ParameterSet) -> Result<tfhe::ClientKey, ConversionError> {
    let key = RadixClientKey::from_raw_parts(shortint::client_key_into_tfhe(key, set)?);
    Ok(tfhe::ClientKey::from_raw_parts(key, None, None, None, None, None, None, None, Tag::default()))
}

impl<S: SmallWord> EvaluationKeys<u64, S> {
    /// Converts the keys to keys for tfhe-rs's `FheUint` and `FheInt`. The converted keys serve
    /// arithmetic and comparisons, but no compressed lists.
    pub fn to_integer(&self) -> Result<tfhe::CompressedServerKey, ConversionError> {
        let (message_modulus, carry_modulus, _) = parameters::plaintext(self.set)?;
        // Every block keeps room for the carry of its neighbour.
        let max_degree = (message_modulus.0 - 1) * carry_modulus.0;
        let mut key = self.to_shortint()?;
        key.max_degree = MaxDegree::new(max_degree);
        let key = RadixCompressedServerKey::from_raw_parts(key);
        Ok(tfhe::CompressedServerKey::from_raw_parts(
            key,
            None,
            None,
            None,
            None,
            None,
            None,
            None,
            None,
            Tag::default(),
        ))
    }
}
