//! The keys that compress and decompress lists of ciphertexts.

use cloakwork_params::CompressionSet;
use cloakwork_tfhe::{SeededBootstrapKey, SeededPackingKey};
use tfhe::{
    core_crypto::prelude::{
        CiphertextModulusLog, DecompositionBaseLog, DecompositionLevelCount, GlweDimension, LweCiphertextCount,
        PolynomialSize,
    },
    shortint::{
        list_compression::{CompressedCompressionKey, CompressedDecompressionKey},
        parameters::{CompressionParameters, list_compression::ClassicCompressionParameters},
        server_key::{CompressedModulusSwitchConfiguration, ShortintCompressedBootstrappingKey},
    },
};

use crate::{ConversionError, entity, parameters};

/// The parameters of a compression set.
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

/// The key that compresses.
pub fn packing_key_from_tfhe(
    set: &CompressionSet,
    key: CompressedCompressionKey,
) -> Result<SeededPackingKey<u64>, ConversionError> {
    ConversionError::check("ciphertexts in a pack", set.lwe_per_glwe, key.lwe_per_glwe.0)?;
    let storage = key.storage_log_modulus.0;
    ConversionError::check("log2 of the storage modulus", set.storage_modulus_log2 as usize, storage)?;
    entity::packing_key_from_tfhe(key.packing_key_switching_key)
}

/// The key that compresses, as tfhe-rs takes it.
pub fn packing_key_into_tfhe(set: &CompressionSet, key: &SeededPackingKey<u64>) -> CompressedCompressionKey {
    CompressedCompressionKey {
        packing_key_switching_key: entity::packing_key_into_tfhe(key),
        lwe_per_glwe: LweCiphertextCount(set.lwe_per_glwe),
        storage_log_modulus: CiphertextModulusLog(set.storage_modulus_log2 as usize),
    }
}

/// The key that decompresses.
pub fn unpacking_key_from_tfhe(
    set: &CompressionSet,
    key: CompressedDecompressionKey,
) -> Result<SeededBootstrapKey<u64>, ConversionError> {
    let (key, lwe_per_glwe) = key.into_raw_parts();
    ConversionError::check("ciphertexts in a pack", set.lwe_per_glwe, lwe_per_glwe.0)?;
    match key {
        ShortintCompressedBootstrappingKey::Classic {
            bsk,
            modulus_switch_noise_reduction_key: CompressedModulusSwitchConfiguration::Standard,
        } => entity::bootstrap_key_from_tfhe(bsk),
        ShortintCompressedBootstrappingKey::Classic { .. } => {
            Err(ConversionError::Unsupported { what: "decompression with a modulus switch of its own" })
        }
        ShortintCompressedBootstrappingKey::MultiBit { .. } => {
            Err(ConversionError::Unsupported { what: "decompression by multi-bit bootstrap" })
        }
    }
}

/// The key that decompresses, as tfhe-rs takes it.
pub fn unpacking_key_into_tfhe(set: &CompressionSet, key: &SeededBootstrapKey<u64>) -> CompressedDecompressionKey {
    let key = ShortintCompressedBootstrappingKey::Classic {
        bsk: entity::bootstrap_key_into_tfhe(key),
        modulus_switch_noise_reduction_key: CompressedModulusSwitchConfiguration::Standard,
    };
    CompressedDecompressionKey::from_raw_parts(key, LweCiphertextCount(set.lwe_per_glwe))
}
