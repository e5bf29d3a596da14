//! Conversion of the building blocks, word for word: secret keys, seeded keys and LWE ciphertexts.

use cloakwork_math::Torus;
use cloakwork_params::Decomposition;
use cloakwork_tfhe::{
    CompactList, CompactPublicKey, GgswShape, LweList, SeededBootstrapKey, SeededKeySwitchKey, SeededLweList,
    SeededPackingKey,
};
use tfhe::core_crypto::prelude::{
    CiphertextModulus, Container, DecompositionBaseLog, DecompositionLevelCount, GlweDimension, LweBskGroupingFactor,
    LweCiphertext, LweCiphertextCount, LweCiphertextOwned, LweCompactCiphertextList, LweCompactCiphertextListOwned,
    LweDimension, PolynomialSize, SeededGgswCiphertextList, SeededLweBootstrapKey, SeededLweBootstrapKeyOwned,
    SeededLweCiphertextList, SeededLweCiphertextListOwned, SeededLweCompactPublicKey, SeededLweCompactPublicKeyOwned,
    SeededLweKeyswitchKey, SeededLweKeyswitchKeyOwned, SeededLweMultiBitBootstrapKey,
    SeededLweMultiBitBootstrapKeyOwned, SeededLwePackingKeyswitchKey, SeededLwePackingKeyswitchKeyOwned, UnsignedTorus,
};

use crate::{ConversionError, parameters::modulus, seed};

/// A torus word that both libraries support.
pub trait Word: Torus + UnsignedTorus {}

impl Word for u32 {}
impl Word for u64 {}

/// Converts a seeded classical bootstrap key.
pub fn bootstrap_key_from_tfhe<T: Word>(
    key: SeededLweBootstrapKeyOwned<T>,
) -> Result<SeededBootstrapKey<T>, ConversionError> {
    let (shape, seed, count) = (shape(&key)?, seed::from_tfhe(&key.compression_seed())?, key.input_lwe_dimension().0);
    Ok(SeededBootstrapKey::new(shape, count, seed, key.into_container())?)
}

/// Converts a seeded multi-bit bootstrap key. Also returns its grouping factor.
pub fn multi_bit_bootstrap_key_from_tfhe<T: Word>(
    key: SeededLweMultiBitBootstrapKeyOwned<T>,
) -> Result<(SeededBootstrapKey<T>, usize), ConversionError> {
    let (shape, seed, grouping) = (shape(&key)?, seed::from_tfhe(&key.compression_seed())?, key.grouping_factor().0);
    let count = (key.input_lwe_dimension().0 / grouping) << grouping;
    Ok((SeededBootstrapKey::new(shape, count, seed, key.into_container())?, grouping))
}

/// Converts a seeded key-switch key.
pub fn key_switch_key_from_tfhe<S: Word>(
    key: SeededLweKeyswitchKeyOwned<S>,
) -> Result<SeededKeySwitchKey<S>, ConversionError> {
    let gadget = gadget(key.decomposition_base_log(), key.decomposition_level_count());
    let (input, output) = (key.input_key_lwe_dimension().0, key.output_key_lwe_dimension().0);
    let modulus_log2 = modulus_log2(key.ciphertext_modulus())?;
    let seed = seed::from_tfhe(&key.compression_seed())?;
    Ok(SeededKeySwitchKey::new(input, output, gadget, modulus_log2, seed, key.into_container())?)
}

/// Converts a classical bootstrap key to a key of tfhe-rs.
pub fn bootstrap_key_into_tfhe<T: Word>(key: &SeededBootstrapKey<T>) -> SeededLweBootstrapKeyOwned<T> {
    let GgswShape { glwe_dimension, polynomial_size, gadget } = key.shape();
    SeededLweBootstrapKey::from_container(
        key.bodies().to_vec(),
        GlweDimension(glwe_dimension).to_glwe_size(),
        PolynomialSize(polynomial_size),
        DecompositionBaseLog(gadget.base_log as usize),
        DecompositionLevelCount(gadget.levels),
        seed::into_tfhe(key.seed()),
        CiphertextModulus::new_native(),
    )
}

/// Converts a multi-bit bootstrap key to a key of tfhe-rs.
pub fn multi_bit_bootstrap_key_into_tfhe<T: Word>(
    key: &SeededBootstrapKey<T>,
    grouping: usize,
) -> SeededLweMultiBitBootstrapKeyOwned<T> {
    let GgswShape { glwe_dimension, polynomial_size, gadget } = key.shape();
    SeededLweMultiBitBootstrapKey::from_container(
        key.bodies().to_vec(),
        GlweDimension(glwe_dimension).to_glwe_size(),
        PolynomialSize(polynomial_size),
        DecompositionBaseLog(gadget.base_log as usize),
        DecompositionLevelCount(gadget.levels),
        seed::into_tfhe(key.seed()),
        LweBskGroupingFactor(grouping),
        CiphertextModulus::new_native(),
    )
}

/// Converts a key-switch key to a key of tfhe-rs.
pub fn key_switch_key_into_tfhe<S: Word>(key: &SeededKeySwitchKey<S>) -> SeededLweKeyswitchKeyOwned<S> {
    SeededLweKeyswitchKey::from_container(
        key.bodies().to_vec(),
        DecompositionBaseLog(key.gadget().base_log as usize),
        DecompositionLevelCount(key.gadget().levels),
        LweDimension(key.output_dimension()).to_lwe_size(),
        seed::into_tfhe(key.seed()),
        modulus(key.modulus_log2()),
    )
}

/// Converts a seeded packing key.
pub fn packing_key_from_tfhe<T: Word>(
    key: SeededLwePackingKeyswitchKeyOwned<T>,
) -> Result<SeededPackingKey<T>, ConversionError> {
    if !key.ciphertext_modulus().is_native_modulus() {
        return Err(ConversionError::Unsupported { what: "a packing key with a modulus of its own" });
    }
    let gadget = gadget(key.decomposition_base_log(), key.decomposition_level_count());
    let (input, glwe_dimension) = (key.input_key_lwe_dimension().0, key.output_key_glwe_dimension().0);
    let (size, seed) = (key.output_polynomial_size().0, seed::from_tfhe(&key.compression_seed())?);
    Ok(SeededPackingKey::new(input, glwe_dimension, size, gadget, seed, key.into_container())?)
}

/// Converts a packing key to a key of tfhe-rs.
pub fn packing_key_into_tfhe<T: Word>(key: &SeededPackingKey<T>) -> SeededLwePackingKeyswitchKeyOwned<T> {
    SeededLwePackingKeyswitchKey::from_container(
        key.bodies().to_vec(),
        DecompositionBaseLog(key.gadget().base_log as usize),
        DecompositionLevelCount(key.gadget().levels),
        GlweDimension(key.glwe_dimension()).to_glwe_size(),
        PolynomialSize(key.polynomial_size()),
        seed::into_tfhe(key.seed()),
        CiphertextModulus::new_native(),
    )
}

/// Converts a seeded compact public key.
pub fn compact_public_key_from_tfhe<T: Word>(
    key: SeededLweCompactPublicKeyOwned<T>,
) -> Result<CompactPublicKey<T>, ConversionError> {
    if !key.ciphertext_modulus().is_native_modulus() {
        return Err(ConversionError::Unsupported { what: "a public key with a modulus of its own" });
    }
    let seed = seed::from_tfhe(&key.compression_seed())?;
    Ok(CompactPublicKey::new(seed, key.into_container())?)
}

/// Converts a compact public key to a key of tfhe-rs.
pub fn compact_public_key_into_tfhe<T: Word>(key: &CompactPublicKey<T>) -> SeededLweCompactPublicKeyOwned<T> {
    let seed = seed::into_tfhe(key.seed());
    SeededLweCompactPublicKey::from_container(key.body().to_vec(), seed, CiphertextModulus::new_native())
}

/// Converts a list of ciphertexts that share masks.
pub fn compact_list_from_tfhe<T: Word>(
    list: LweCompactCiphertextListOwned<T>,
) -> Result<CompactList<T>, ConversionError> {
    let (dimension, count) = (list.lwe_size().to_lwe_dimension().0, list.lwe_ciphertext_count().0);
    let mut masks = list.into_container();
    let bodies = masks.split_off(masks.len() - count);
    Ok(CompactList::new(dimension, masks, bodies)?)
}

/// Converts a list of ciphertexts that share masks to a list of tfhe-rs.
pub fn compact_list_into_tfhe<T: Word>(list: &CompactList<T>) -> LweCompactCiphertextListOwned<T> {
    LweCompactCiphertextList::from_container(
        [list.masks(), list.bodies()].concat(),
        LweDimension(list.dimension()).to_lwe_size(),
        LweCiphertextCount(list.len()),
        CiphertextModulus::new_native(),
    )
}

/// Converts a list of seeded ciphertexts.
pub fn seeded_lwe_list_from_tfhe<T: Word>(
    list: SeededLweCiphertextListOwned<T>,
) -> Result<SeededLweList<T>, ConversionError> {
    if !list.ciphertext_modulus().is_native_modulus() {
        return Err(ConversionError::Unsupported { what: "a seeded list with a modulus of its own" });
    }
    let (dimension, seed) = (list.lwe_size().to_lwe_dimension().0, seed::from_tfhe(&list.compression_seed())?);
    Ok(SeededLweList::new(dimension, seed, list.into_container())?)
}

/// Converts a list of seeded ciphertexts to a list of tfhe-rs.
pub fn seeded_lwe_list_into_tfhe<T: Word>(list: &SeededLweList<T>) -> SeededLweCiphertextListOwned<T> {
    SeededLweCiphertextList::from_container(
        list.bodies().to_vec(),
        LweDimension(list.dimension()).to_lwe_size(),
        seed::into_tfhe(list.seed()),
        CiphertextModulus::new_native(),
    )
}

/// Collects ciphertexts of one dimension in a list.
pub fn lwe_list_from_tfhe<'a, T: Word>(
    dimension: usize,
    ciphertexts: impl IntoIterator<Item = &'a LweCiphertextOwned<T>>,
) -> Result<LweList<T>, ConversionError> {
    let mut words = vec![];
    for ciphertext in ciphertexts {
        ConversionError::check("dimension of a ciphertext", dimension, ciphertext.lwe_size().to_lwe_dimension().0)?;
        words.extend_from_slice(ciphertext.as_ref());
    }
    Ok(LweList::from_words(dimension, words)?)
}

/// Converts the ciphertexts of a list, one by one, to those of tfhe-rs.
pub fn lwe_list_into_tfhe<T: Word>(list: &LweList<T>) -> impl Iterator<Item = LweCiphertextOwned<T>> {
    list.iter().map(|words| LweCiphertext::from_container(words.to_vec(), CiphertextModulus::new_native()))
}

/// Converts secret bits to words of tfhe-rs. SECRET.
pub(crate) fn bits_into_tfhe<S: Word>(bits: &[u8]) -> Vec<S> {
    bits.iter().map(|&bit| S::from_u64(u64::from(bit))).collect()
}

/// Converts secret words of tfhe-rs to bytes. A word that is not a bit becomes a byte that is not a
/// bit. SECRET.
pub(crate) fn bits_from_tfhe<S: Word>(words: &[S]) -> Vec<u8> {
    words.iter().map(|word| u8::try_from(word.to_u64()).unwrap_or(u8::MAX)).collect()
}

fn shape<T: Word, C: Container<Element = T>>(
    ggsws: &SeededGgswCiphertextList<C>,
) -> Result<GgswShape, ConversionError> {
    if !ggsws.ciphertext_modulus().is_native_modulus() {
        return Err(ConversionError::Unsupported { what: "a bootstrap key with a modulus of its own" });
    }
    Ok(GgswShape {
        glwe_dimension: ggsws.glwe_size().to_glwe_dimension().0,
        polynomial_size: ggsws.polynomial_size().0,
        gadget: gadget(ggsws.decomposition_base_log(), ggsws.decomposition_level_count()),
    })
}

fn gadget(base_log: DecompositionBaseLog, levels: DecompositionLevelCount) -> Decomposition {
    Decomposition { base_log: base_log.0 as u32, levels: levels.0 }
}

fn modulus_log2<S: Word>(modulus: CiphertextModulus<S>) -> Result<u32, ConversionError> {
    if modulus.is_power_of_two() {
        Ok(modulus.into_modulus_log().0 as u32)
    } else {
        Err(ConversionError::Unsupported { what: "a modulus that is not a power of two" })
    }
}
