//! Conversion of the keys that compress and decompress lists of ciphertexts.

use cloakwork_params::CompressionSet;
use cloakwork_secret::GlweSecretKey;
use cloakwork_tfhe::{SeededDecompressionKey, SeededPackingKey};
use tfhe::{
    core_crypto::prelude::{
        CiphertextModulusLog, DecompositionBaseLog, DecompositionLevelCount, GlweDimension,
        GlweSecretKey as TheirGlweSecretKey, LweCiphertextCount, PolynomialSize,
    },
    shortint::{
        list_compression::{CompressedCompressionKey, CompressedDecompressionKey, CompressionPrivateKeys},
        parameters::{CompressionParameters, list_compression::ClassicCompressionParameters},
        server_key::{CompressedModulusSwitchConfiguration, ShortintCompressedBootstrappingKey},
    },
};

use crate::{ConversionError, entity, parameters};

/// Returns the parameters of a compression set as those of tfhe-rs.
pub fn parameters(set: &CompressionSet) -> CompressionParameters {
    CompressionParameters::Classic(ClassicCompressionParameters {
        br_level: DecompositionLevelCount(set.bootstrap.levels),
        br_base_log: DecompositionBaseLog(set.bootstrap.base_log as usize),
        packing_ks_level: DecompositionLevelCount(set.packing.levels),
        packing_ks_base_log: DecompositionBaseLog(set.packing.base_log as usize),
        packing_ks_polynomial_size: PolynomialSize(set.packing_polynomial_size),
        packing_ks_glwe_dimension: GlweDimension(set.packing_glwe_dimension),
        lwe_per_glwe: LweCiphertextCount(set.lwe_per_glwe),
        storage_log_modulus: CiphertextModulusLog(set.storage_modulus_log2 as usize),
        packing_ks_key_noise_distribution: parameters::noise(set.packing_noise),
    })
}

/// Converts the secret key of packed ciphertexts. SECRET.
pub fn secret_from_tfhe(set: &CompressionSet, key: &CompressionPrivateKeys) -> Result<GlweSecretKey, ConversionError> {
    ConversionError::check("compression parameters", parameters(set), key.params)?;
    let bits = entity::bits_from_tfhe(key.post_packing_ks_key.as_ref());
    Ok(GlweSecretKey::from_bits(set.packing_polynomial_size, bits)?)
}

/// Converts the secret key of packed ciphertexts to a key of tfhe-rs. SECRET.
pub fn secret_into_tfhe(set: &CompressionSet, key: &GlweSecretKey) -> CompressionPrivateKeys {
    let size = PolynomialSize(key.polynomial_size());
    CompressionPrivateKeys {
        post_packing_ks_key: TheirGlweSecretKey::from_container(entity::bits_into_tfhe(key.bits()), size),
        params: parameters(set),
    }
}

/// Converts the packing key, which compresses.
pub fn packing_key_from_tfhe(
    set: &CompressionSet,
    key: CompressedCompressionKey,
) -> Result<SeededPackingKey<u64>, ConversionError> {
    ConversionError::check("ciphertexts in a pack", set.lwe_per_glwe, key.lwe_per_glwe.0)?;
    let storage = key.storage_log_modulus.0;
    ConversionError::check("log2 of the storage modulus", set.storage_modulus_log2 as usize, storage)?;
    entity::packing_key_from_tfhe(key.packing_key_switching_key)
}

/// Converts the packing key, which compresses, to a key of tfhe-rs.
pub fn packing_key_into_tfhe(set: &CompressionSet, key: &SeededPackingKey<u64>) -> CompressedCompressionKey {
    CompressedCompressionKey {
        packing_key_switching_key: entity::packing_key_into_tfhe(key),
        lwe_per_glwe: LweCiphertextCount(set.lwe_per_glwe),
        storage_log_modulus: CiphertextModulusLog(set.storage_modulus_log2 as usize),
    }
}

/// Converts the decompression key.
pub fn decompression_key_from_tfhe(
    set: &CompressionSet,
    key: CompressedDecompressionKey,
) -> Result<SeededDecompressionKey, ConversionError> {
    let (key, lwe_per_glwe) = key.into_raw_parts();
    ConversionError::check("ciphertexts in a pack", set.lwe_per_glwe, lwe_per_glwe.0)?;
    match key {
        ShortintCompressedBootstrappingKey::Classic {
            bsk,
            modulus_switch_noise_reduction_key: CompressedModulusSwitchConfiguration::Standard,
        } => Ok(SeededDecompressionKey(entity::bootstrap_key_from_tfhe(bsk)?)),
        ShortintCompressedBootstrappingKey::Classic { .. } => {
            Err(ConversionError::Unsupported { what: "decompression with a modulus switch of its own" })
        }
        ShortintCompressedBootstrappingKey::MultiBit { .. } => {
            Err(ConversionError::Unsupported { what: "decompression by multi-bit bootstrap" })
        }
    }
}

/// Converts the decompression key to a key of tfhe-rs.
pub fn decompression_key_into_tfhe(set: &CompressionSet, key: &SeededDecompressionKey) -> CompressedDecompressionKey {
    let key = ShortintCompressedBootstrappingKey::Classic {
        bsk: entity::bootstrap_key_into_tfhe(&key.0),
        modulus_switch_noise_reduction_key: CompressedModulusSwitchConfiguration::Standard,
    };
    CompressedDecompressionKey::from_raw_parts(key, LweCiphertextCount(set.lwe_per_glwe))
}
