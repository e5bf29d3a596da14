//! Conversion of client keys, server keys and ciphertexts of the shortint sets.

use cloakwork_params::{KeyId, ModulusSwitch, ParameterSet};
use cloakwork_secret::{ClientKey, GlweSecretKey, LweSecretKey};
use cloakwork_tfhe::{LweList, SeededBootstrapKey};
use tfhe::{
    core_crypto::prelude::{
        GlweSecretKey as TheirGlweSecretKey, LweSecretKey as TheirLweSecretKey, PolynomialSize,
        SeededLweKeyswitchKeyOwned,
    },
    shortint::{
        self, AtomicPatternParameters, Ciphertext, CompressedServerKey,
        atomic_pattern::compressed::{
            CompressedAtomicPatternServerKey, CompressedKS32AtomicPatternServerKey,
            CompressedStandardAtomicPatternServerKey,
        },
        ciphertext::MaxDegree,
        client_key::atomic_pattern::{
            AtomicPatternClientKey, KS32AtomicPatternClientKey, StandardAtomicPatternClientKey,
        },
        parameters::{Degree, NoiseLevel, PBSOrder},
        server_key::{CompressedModulusSwitchConfiguration, ShortintCompressedBootstrappingKey},
    },
};

use crate::{
    ConversionError, EvaluationKeys,
    entity::{self, Word},
    parameters,
};

/// Converts a client key of tfhe-rs, under a public name of the caller's choice.
pub fn client_key_from_tfhe(key: shortint::ClientKey, key_id: KeyId) -> Result<ClientKey, ConversionError> {
    let (big, small, parameters) = match key.atomic_pattern {
        AtomicPatternClientKey::Standard(key) => {
            let (big, small, parameters, _) = key.into_raw_parts();
            (big, entity::bits_from_tfhe(small.as_ref()), parameters.into())
        }
        AtomicPatternClientKey::KeySwitch32(key) => {
            let (big, small, parameters) = key.into_raw_parts();
            (big, entity::bits_from_tfhe(small.as_ref()), AtomicPatternParameters::KeySwitch32(parameters))
        }
    };
    let set = parameters::find_shortint(&parameters)?;
    let big = GlweSecretKey::from_bits(big.polynomial_size().0, entity::bits_from_tfhe(big.as_ref()))?;
    Ok(ClientKey::from_parts(key_id, set, big, LweSecretKey::from_bits(small)?)?)
}

/// Converts the part of a client key that serves `set` to a key of tfhe-rs. SECRET.
pub fn client_key_into_tfhe(
    key: &ClientKey,
    set: &'static ParameterSet,
) -> Result<shortint::ClientKey, ConversionError> {
    let big = entity::bits_into_tfhe(key.big().bits());
    let big = TheirGlweSecretKey::from_container(big, PolynomialSize(set.polynomial_size));
    let small = key.small(set)?.bits();
    let atomic_pattern = match parameters::shortint(set)? {
        AtomicPatternParameters::Standard(parameters) => {
            let small = TheirLweSecretKey::from_container(entity::bits_into_tfhe(small));
            let key = StandardAtomicPatternClientKey::from_raw_parts(big, small, parameters, None);
            AtomicPatternClientKey::Standard(key)
        }
        AtomicPatternParameters::KeySwitch32(parameters) => {
            let small = TheirLweSecretKey::from_container(entity::bits_into_tfhe(small));
            AtomicPatternClientKey::KeySwitch32(KS32AtomicPatternClientKey::from_raw_parts(big, small, parameters))
        }
    };
    Ok(shortint::ClientKey { atomic_pattern })
}

/// The word of a shortint set's small key, which determines the kind of the server key.
pub trait SmallWord: Word {
    /// Takes a server key of this kind apart.
    fn split(
        key: CompressedAtomicPatternServerKey,
    ) -> Option<(SeededLweKeyswitchKeyOwned<Self>, ShortintCompressedBootstrappingKey<Self>, PBSOrder)>;

    /// Assembles a server key of this kind.
    fn join(
        key_switch: SeededLweKeyswitchKeyOwned<Self>,
        bootstrap: ShortintCompressedBootstrappingKey<Self>,
        order: PBSOrder,
    ) -> CompressedAtomicPatternServerKey;
}

impl SmallWord for u64 {
    fn split(
        key: CompressedAtomicPatternServerKey,
    ) -> Option<(SeededLweKeyswitchKeyOwned<u64>, ShortintCompressedBootstrappingKey<u64>, PBSOrder)> {
        match key {
            CompressedAtomicPatternServerKey::Standard(key) => Some(key.into_raw_parts()),
            CompressedAtomicPatternServerKey::KeySwitch32(_) => None,
        }
    }

    fn join(
        key_switch: SeededLweKeyswitchKeyOwned<u64>,
        bootstrap: ShortintCompressedBootstrappingKey<u64>,
        order: PBSOrder,
    ) -> CompressedAtomicPatternServerKey {
        CompressedAtomicPatternServerKey::Standard(CompressedStandardAtomicPatternServerKey::from_raw_parts(
            key_switch, bootstrap, order,
        ))
    }
}

impl SmallWord for u32 {
    fn split(
        key: CompressedAtomicPatternServerKey,
    ) -> Option<(SeededLweKeyswitchKeyOwned<u32>, ShortintCompressedBootstrappingKey<u32>, PBSOrder)> {
        match key {
            CompressedAtomicPatternServerKey::Standard(_) => None,
            CompressedAtomicPatternServerKey::KeySwitch32(key) => {
                let (key_switch, bootstrap) = key.into_raw_parts();
                Some((key_switch, bootstrap, PBSOrder::KeyswitchBootstrap))
            }
        }
    }

    fn join(
        key_switch: SeededLweKeyswitchKeyOwned<u32>,
        bootstrap: ShortintCompressedBootstrappingKey<u32>,
        _order: PBSOrder,
    ) -> CompressedAtomicPatternServerKey {
        CompressedAtomicPatternServerKey::KeySwitch32(CompressedKS32AtomicPatternServerKey::from_raw_parts(
            key_switch, bootstrap,
        ))
    }
}

impl<S: SmallWord> EvaluationKeys<u64, S> {
    /// Converts a compressed server key of tfhe-rs, made under the parameters of `set`.
    pub fn from_shortint(set: &'static ParameterSet, key: CompressedServerKey) -> Result<Self, ConversionError> {
        let (message_modulus, carry_modulus, _) = parameters::plaintext(set)?;
        ConversionError::check("message modulus", message_modulus, key.message_modulus)?;
        ConversionError::check("carry modulus", carry_modulus, key.carry_modulus)?;
        let (key_switch, bootstrap, order) = S::split(key.compressed_ap_server_key)
            .ok_or(ConversionError::Unsupported { what: "a key-switch key of another word than the caller's" })?;
        ConversionError::check("order of key switch and bootstrap", parameters::pbs_order(set.order), order)?;
        let bootstrap = bootstrap_from_tfhe(set, bootstrap)?;
        Ok(Self { set, key_switch: entity::key_switch_key_from_tfhe(key_switch)?, bootstrap })
    }

    /// Converts the keys to a compressed server key of tfhe-rs, for blocks with full carries.
    pub fn to_shortint(&self) -> Result<CompressedServerKey, ConversionError> {
        let (message_modulus, carry_modulus, max_noise_level) = parameters::plaintext(self.set)?;
        let key_switch = entity::key_switch_key_into_tfhe(&self.key_switch);
        let order = parameters::pbs_order(self.set.order);
        let max_degree = MaxDegree::from_msg_carry_modulus(message_modulus, carry_modulus);
        Ok(CompressedServerKey::from_raw_parts(
            S::join(key_switch, bootstrap_into_tfhe(self.set, &self.bootstrap), order),
            message_modulus,
            carry_modulus,
            max_degree,
            max_noise_level,
        ))
    }
}

/// Converts ciphertexts of a set.
pub fn ciphertexts_from_tfhe<'a>(
    set: &ParameterSet,
    ciphertexts: impl IntoIterator<Item = &'a Ciphertext>,
) -> Result<LweList<u64>, ConversionError> {
    let expected = parameters::atomic_pattern(set);
    let ciphertexts: Vec<_> = ciphertexts.into_iter().collect();
    for ciphertext in &ciphertexts {
        ConversionError::check("kind of a ciphertext", expected, ciphertext.atomic_pattern)?;
    }
    entity::lwe_list_from_tfhe(set.input_dimension(), ciphertexts.into_iter().map(|ciphertext| &ciphertext.ct))
}

/// Converts ciphertexts of a set to those of tfhe-rs. The ciphertexts must be freshly encrypted or
/// bootstrapped, with messages up to `degree`.
pub fn ciphertexts_into_tfhe(
    set: &ParameterSet,
    list: &LweList<u64>,
    degree: u64,
) -> Result<Vec<Ciphertext>, ConversionError> {
    let (message_modulus, carry_modulus, _) = parameters::plaintext(set)?;
    ConversionError::check("dimension of the ciphertexts", set.input_dimension(), list.dimension())?;
    let pattern = parameters::atomic_pattern(set);
    let wrap = |ciphertext| {
        Ciphertext::new(ciphertext, Degree::new(degree), NoiseLevel::NOMINAL, message_modulus, carry_modulus, pattern)
    };
    Ok(entity::lwe_list_into_tfhe(list).map(wrap).collect())
}

fn bootstrap_from_tfhe<S: Word>(
    set: &ParameterSet,
    key: ShortintCompressedBootstrappingKey<S>,
) -> Result<SeededBootstrapKey<u64>, ConversionError> {
    let (key, grouping, rule) = match key {
        ShortintCompressedBootstrappingKey::Classic { bsk, modulus_switch_noise_reduction_key } => {
            let rule = match modulus_switch_noise_reduction_key {
                CompressedModulusSwitchConfiguration::Standard => ModulusSwitch::Plain,
                CompressedModulusSwitchConfiguration::CenteredMeanNoiseReduction => ModulusSwitch::CenteredMean,
                CompressedModulusSwitchConfiguration::DriftTechniqueNoiseReduction(_) => {
                    return Err(ConversionError::Unsupported { what: "the drift technique of the modulus switch" });
                }
            };
            (entity::bootstrap_key_from_tfhe(bsk)?, 1, rule)
        }
        ShortintCompressedBootstrappingKey::MultiBit { seeded_bsk, .. } => {
            let (key, grouping) = entity::multi_bit_bootstrap_key_from_tfhe(seeded_bsk)?;
            (key, grouping, ModulusSwitch::Plain)
        }
    };
    ConversionError::check("secret bits a step", set.grouping, grouping)?;
    ConversionError::check("modulus switch", set.modulus_switch, rule)?;
    Ok(key)
}

fn bootstrap_into_tfhe<S: Word>(
    set: &ParameterSet,
    key: &SeededBootstrapKey<u64>,
) -> ShortintCompressedBootstrappingKey<S> {
    if set.grouping > 1 {
        return ShortintCompressedBootstrappingKey::MultiBit {
            seeded_bsk: entity::multi_bit_bootstrap_key_into_tfhe(key, set.grouping),
            deterministic_execution: false,
        };
    }
    ShortintCompressedBootstrappingKey::Classic {
        bsk: entity::bootstrap_key_into_tfhe(key),
        modulus_switch_noise_reduction_key: match set.modulus_switch {
            ModulusSwitch::Plain => CompressedModulusSwitchConfiguration::Standard,
            ModulusSwitch::CenteredMean => CompressedModulusSwitchConfiguration::CenteredMeanNoiseReduction,
        },
    }
}
