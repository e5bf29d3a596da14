//! Conversion of parameter sets.

use cloakwork_params::{Encoding, ModulusSwitch, Noise, Order, ParameterSet, table};
use tfhe::{
    boolean::parameters::BooleanParameters,
    core_crypto::prelude::{
        CiphertextModulus, DecompositionBaseLog, DecompositionLevelCount, DynamicDistribution, GlweDimension,
        LweBskGroupingFactor, LweDimension, PolynomialSize, StandardDev, UnsignedInteger,
    },
    shortint::{
        AtomicPatternParameters, CarryModulus, ClassicPBSParameters, EncryptionKeyChoice, MaxNoiseLevel,
        MessageModulus, MultiBitPBSParameters, PBSParameters,
        parameters::{AtomicPatternKind, KeySwitch32PBSParameters, ModulusSwitchType, PBSOrder},
    },
};

use crate::ConversionError;

/// Returns the parameters of a shortint set as those of tfhe-rs.
pub fn shortint(set: &ParameterSet) -> Result<AtomicPatternParameters, ConversionError> {
    let plaintext = plaintext(set)?;
    Ok(match (set.small_modulus_log2, set.grouping) {
        (64, 1) => classic(set, plaintext).into(),
        (64, _) => multi_bit(set, plaintext).into(),
        _ => key_switch_32(set, plaintext).into(),
    })
}

/// Returns the parameters of a boolean set as those of tfhe-rs.
pub fn boolean(set: &ParameterSet) -> Result<BooleanParameters, ConversionError> {
    let Encoding::Boolean = set.encoding else {
        return Err(ConversionError::WrongKind { set: set.name, expected: "boolean" });
    };
    Ok(BooleanParameters {
        lwe_dimension: LweDimension(set.lwe_dimension),
        glwe_dimension: GlweDimension(set.glwe_dimension),
        polynomial_size: PolynomialSize(set.polynomial_size),
        lwe_noise_distribution: noise(set.lwe_noise),
        glwe_noise_distribution: noise(set.glwe_noise),
        pbs_base_log: DecompositionBaseLog(set.bootstrap.base_log as usize),
        pbs_level: DecompositionLevelCount(set.bootstrap.levels),
        ks_base_log: DecompositionBaseLog(set.key_switch.base_log as usize),
        ks_level: DecompositionLevelCount(set.key_switch.levels),
        encryption_key_choice: key_choice(set.order),
    })
}

/// Finds the named set with these parameters. The comparison ignores free choices of a user:
/// whether a multi-bit bootstrap is deterministic, and the stated failure probability.
pub fn find_shortint(parameters: &AtomicPatternParameters) -> Result<&'static ParameterSet, ConversionError> {
    let wanted = without_choices(*parameters);
    table::SETS
        .iter()
        .find(|set| shortint(set).is_ok_and(|parameters| without_choices(parameters) == wanted))
        .ok_or_else(|| ConversionError::UnknownParameters { parameters: format!("{parameters:?}") })
}

/// Finds the named boolean set with these parameters.
pub fn find_boolean(parameters: &BooleanParameters) -> Result<&'static ParameterSet, ConversionError> {
    table::SETS
        .iter()
        .find(|set| boolean(set).as_ref() == Ok(parameters))
        .ok_or_else(|| ConversionError::UnknownParameters { parameters: format!("{parameters:?}") })
}

/// Message modulus, carry modulus and largest noise level of a shortint set.
pub(crate) fn plaintext(set: &ParameterSet) -> Result<(MessageModulus, CarryModulus, MaxNoiseLevel), ConversionError> {
    match set.encoding {
        Encoding::Shortint { message_modulus, carry_modulus, max_noise_level } => {
            Ok((MessageModulus(message_modulus), CarryModulus(carry_modulus), MaxNoiseLevel::new(max_noise_level)))
        }
        Encoding::Boolean => Err(ConversionError::WrongKind { set: set.name, expected: "shortint" }),
    }
}

/// Returns the atomic pattern of tfhe-rs for ciphertexts of a shortint set.
pub(crate) fn atomic_pattern(set: &ParameterSet) -> AtomicPatternKind {
    match set.small_modulus_log2 {
        64 => AtomicPatternKind::Standard(pbs_order(set.order)),
        _ => AtomicPatternKind::KeySwitch32,
    }
}

pub(crate) fn pbs_order(order: Order) -> PBSOrder {
    match order {
        Order::KeySwitchFirst => PBSOrder::KeyswitchBootstrap,
        Order::BootstrapFirst => PBSOrder::BootstrapKeyswitch,
    }
}

/// Returns a modulus that the word can hold.
pub(crate) fn modulus<S: UnsignedInteger>(log2: u32) -> CiphertextModulus<S> {
    CiphertextModulus::try_new_power_of_2(log2 as usize).expect("a set's modulus fits its word")
}

fn key_choice(order: Order) -> EncryptionKeyChoice {
    match order {
        Order::KeySwitchFirst => EncryptionKeyChoice::Big,
        Order::BootstrapFirst => EncryptionKeyChoice::Small,
    }
}

pub(crate) fn noise<S: UnsignedInteger>(noise: Noise) -> DynamicDistribution<S> {
    match noise {
        Noise::Gaussian { std_dev } => DynamicDistribution::new_gaussian_from_std_dev(StandardDev(std_dev)),
        Noise::TUniform { bound_log2 } => DynamicDistribution::new_t_uniform(bound_log2),
    }
}

type Plaintext = (MessageModulus, CarryModulus, MaxNoiseLevel);

fn classic(set: &ParameterSet, (message_modulus, carry_modulus, max_noise_level): Plaintext) -> ClassicPBSParameters {
    ClassicPBSParameters {
        lwe_dimension: LweDimension(set.lwe_dimension),
        glwe_dimension: GlweDimension(set.glwe_dimension),
        polynomial_size: PolynomialSize(set.polynomial_size),
        lwe_noise_distribution: noise(set.lwe_noise),
        glwe_noise_distribution: noise(set.glwe_noise),
        pbs_base_log: DecompositionBaseLog(set.bootstrap.base_log as usize),
        pbs_level: DecompositionLevelCount(set.bootstrap.levels),
        ks_base_log: DecompositionBaseLog(set.key_switch.base_log as usize),
        ks_level: DecompositionLevelCount(set.key_switch.levels),
        message_modulus,
        carry_modulus,
        max_noise_level,
        log2_p_fail: stated_failure(set),
        ciphertext_modulus: CiphertextModulus::new_native(),
        encryption_key_choice: key_choice(set.order),
        modulus_switch_noise_reduction_params: modulus_switch(set.modulus_switch),
    }
}

fn multi_bit(
    set: &ParameterSet,
    (message_modulus, carry_modulus, max_noise_level): Plaintext,
) -> MultiBitPBSParameters {
    MultiBitPBSParameters {
        lwe_dimension: LweDimension(set.lwe_dimension),
        glwe_dimension: GlweDimension(set.glwe_dimension),
        polynomial_size: PolynomialSize(set.polynomial_size),
        lwe_noise_distribution: noise(set.lwe_noise),
        glwe_noise_distribution: noise(set.glwe_noise),
        pbs_base_log: DecompositionBaseLog(set.bootstrap.base_log as usize),
        pbs_level: DecompositionLevelCount(set.bootstrap.levels),
        ks_base_log: DecompositionBaseLog(set.key_switch.base_log as usize),
        ks_level: DecompositionLevelCount(set.key_switch.levels),
        message_modulus,
        carry_modulus,
        max_noise_level,
        log2_p_fail: stated_failure(set),
        ciphertext_modulus: CiphertextModulus::new_native(),
        encryption_key_choice: key_choice(set.order),
        grouping_factor: LweBskGroupingFactor(set.grouping),
        deterministic_execution: false,
    }
}

fn key_switch_32(
    set: &ParameterSet,
    (message_modulus, carry_modulus, max_noise_level): Plaintext,
) -> KeySwitch32PBSParameters {
    KeySwitch32PBSParameters {
        lwe_dimension: LweDimension(set.lwe_dimension),
        glwe_dimension: GlweDimension(set.glwe_dimension),
        polynomial_size: PolynomialSize(set.polynomial_size),
        lwe_noise_distribution: noise(set.lwe_noise),
        glwe_noise_distribution: noise(set.glwe_noise),
        pbs_base_log: DecompositionBaseLog(set.bootstrap.base_log as usize),
        pbs_level: DecompositionLevelCount(set.bootstrap.levels),
        ks_base_log: DecompositionBaseLog(set.key_switch.base_log as usize),
        ks_level: DecompositionLevelCount(set.key_switch.levels),
        message_modulus,
        carry_modulus,
        max_noise_level,
        log2_p_fail: stated_failure(set),
        post_keyswitch_ciphertext_modulus: modulus(set.small_modulus_log2),
        ciphertext_modulus: CiphertextModulus::new_native(),
        modulus_switch_noise_reduction_params: modulus_switch(set.modulus_switch),
    }
}

fn modulus_switch(rule: ModulusSwitch) -> ModulusSwitchType {
    match rule {
        ModulusSwitch::Plain => ModulusSwitchType::Standard,
        ModulusSwitch::CenteredMean => ModulusSwitchType::CenteredMeanNoiseReduction,
    }
}

/// The stated failure probability. Our own sets state none, but tfhe-rs needs a number.
fn stated_failure(set: &ParameterSet) -> f64 {
    set.failure.published_log2.unwrap_or(0.0)
}

fn without_choices(parameters: AtomicPatternParameters) -> AtomicPatternParameters {
    match parameters {
        AtomicPatternParameters::Standard(PBSParameters::PBS(parameters)) => {
            ClassicPBSParameters { log2_p_fail: 0.0, ..parameters }.into()
        }
        AtomicPatternParameters::Standard(PBSParameters::MultiBitPBS(parameters)) => {
            MultiBitPBSParameters { log2_p_fail: 0.0, deterministic_execution: false, ..parameters }.into()
        }
        AtomicPatternParameters::KeySwitch32(parameters) => {
            KeySwitch32PBSParameters { log2_p_fail: 0.0, ..parameters }.into()
        }
    }
}
