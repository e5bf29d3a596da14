//! Lookup tables equal those of tfhe-rs word for word, and so do the parameters of their sets.

use crate::common::*;
use cloakwork_params::{Encoding, ParameterSet, table};
use cloakwork_tests_interop::parameters;
use cloakwork_tfhe::Lut;
use tfhe::{
    boolean::parameters as boolean,
    core_crypto::prelude::{CiphertextModulus, GlweDimension, LweDimension, MsDecompressionType, PolynomialSize},
    shortint::{
        AtomicPatternKind, CarryModulus, Ciphertext, EncryptionKeyChoice, MessageModulus,
        atomic_pattern::AtomicPattern,
        ciphertext::{CompressedModulusSwitchedCiphertext, MaxDegree, MaxNoiseLevel},
        parameters::{PBSOrder, v1_8},
        server_key::{GenericServerKey, LookupTableOwned, LookupTableSize, ManyLookupTableOwned},
    },
};

/// A server key of tfhe-rs with a size but without a key, which suffices to make lookup tables.
struct Keyless(LookupTableSize);

impl Keyless {
    fn server_key(set: &ParameterSet) -> Option<GenericServerKey<Self>> {
        let Encoding::Shortint { message_modulus, carry_modulus, max_noise_level } = set.encoding else {
            return None;
        };
        let glwe_size = GlweDimension(set.glwe_dimension).to_glwe_size();
        let size = LookupTableSize::new(glwe_size, PolynomialSize(set.polynomial_size));
        let (message_modulus, carry_modulus) = (MessageModulus(message_modulus), CarryModulus(carry_modulus));
        let max_degree = MaxDegree::from_msg_carry_modulus(message_modulus, carry_modulus);
        let max_noise_level = MaxNoiseLevel::new(max_noise_level);
        Some(GenericServerKey::from_raw_parts(Self(size), message_modulus, carry_modulus, max_degree, max_noise_level))
    }
}

impl AtomicPattern for Keyless {
    fn ciphertext_lwe_dimension_for_key(&self, _: EncryptionKeyChoice) -> LweDimension {
        self.0.glwe_size().to_glwe_dimension().to_equivalent_lwe_dimension(self.0.polynomial_size())
    }

    fn ciphertext_modulus_for_key(&self, _: EncryptionKeyChoice) -> CiphertextModulus<u64> {
        CiphertextModulus::new_native()
    }

    fn ciphertext_decompression_method(&self) -> MsDecompressionType {
        unreachable!("there is no key")
    }

    fn apply_lookup_table_assign(&self, _: &mut Ciphertext, _: &LookupTableOwned) {
        unreachable!("there is no key")
    }

    fn apply_many_lookup_table(&self, _: &Ciphertext, _: &ManyLookupTableOwned) -> Vec<Ciphertext> {
        unreachable!("there is no key")
    }

    fn lookup_table_size(&self) -> LookupTableSize {
        self.0
    }

    fn kind(&self) -> AtomicPatternKind {
        AtomicPatternKind::Standard(PBSOrder::KeyswitchBootstrap)
    }

    fn deterministic_execution(&self) -> bool {
        true
    }

    fn switch_modulus_and_compress(&self, _: &Ciphertext) -> CompressedModulusSwitchedCiphertext {
        unreachable!("there is no key")
    }

    fn decompress_and_apply_lookup_table(
        &self,
        _: &CompressedModulusSwitchedCiphertext,
        _: &LookupTableOwned,
    ) -> Ciphertext {
        unreachable!("there is no key")
    }
}

/// All shortint sets, each with a server key that can make its tables.
fn sets() -> impl Iterator<Item = (&'static ParameterSet, GenericServerKey<Keyless>)> {
    table::SETS.iter().filter_map(|set| Some((set, Keyless::server_key(set)?)))
}

fn words(acc: &tfhe::core_crypto::prelude::GlweCiphertextOwned<u64>) -> &[u64] {
    let (mask, body) = acc.as_ref().split_at(acc.as_ref().len() - acc.polynomial_size().0);
    assert!(mask.iter().all(|&word| word == 0));
    body
}

#[test]
fn tables_of_one_function_agree() {
    let mut random = Random::new(20);
    for (set, server_key) in sets() {
        let values = server_key.message_modulus.0 * server_key.carry_modulus.0;
        let table = random.list_below(values, values as usize);
        let function = |input: u64| table[input as usize];
        let ours = Lut::from_fn(set, function).unwrap();
        assert!(ours.body() == words(&server_key.generate_lookup_table(function).acc), "{}", set.name);
        assert_eq!(ours.outputs(), [0]);
    }
}

#[test]
fn tables_of_two_inputs_agree() {
    let mut random = Random::new(21);
    for (set, server_key) in sets() {
        let messages = server_key.message_modulus.0;
        let values = messages * server_key.carry_modulus.0;
        let table = random.list_below(values, (messages * messages) as usize);
        let function = |left: u64, right: u64| table[(left * messages + right) as usize];
        let theirs = server_key.generate_lookup_table_bivariate(function).acc;
        let ours = Lut::bivariate(set, messages, function).unwrap();
        assert!(ours.body() == words(&theirs.acc), "{}", set.name);
        // With another factor, tfhe-rs reduces both inputs to messages before it calls the
        // function.
        for factor in [2, messages + 1, values / 2] {
            let theirs = server_key.generate_lookup_table_bivariate_with_factor(function, MessageModulus(factor)).acc;
            let reduced = |left: u64, right: u64| function(left % messages, right % messages);
            let ours = Lut::bivariate(set, factor, reduced).unwrap();
            assert!(ours.body() == words(&theirs.acc), "{}, factor {factor}", set.name);
        }
    }
}

#[test]
fn tables_of_many_functions_agree() {
    let mut random = Random::new(22);
    for (set, server_key) in sets() {
        let values = server_key.message_modulus.0 * server_key.carry_modulus.0;
        for count in 1..=values / 2 {
            let tables: Vec<_> = (0..count).map(|_| random.list_below(values, values as usize)).collect();
            let functions: Vec<_> = tables.iter().map(|table| |input: u64| table[input as usize]).collect();
            let functions: Vec<&dyn Fn(u64) -> u64> = functions.iter().map(|function| function as _).collect();
            let theirs = server_key.generate_many_lookup_table(&functions);
            let ours = Lut::from_fns(set, &functions).unwrap();
            assert!(ours.body() == words(&theirs.acc), "{}, {count} functions", set.name);
            let outputs: Vec<_> = (0..count as usize).map(|index| index * theirs.sample_extraction_stride).collect();
            assert_eq!(ours.outputs(), outputs, "{}, {count} functions", set.name);
        }
    }
}

#[test]
fn shortint_sets_equal_those_of_tfhe_rs() {
    let classic = v1_8::VEC_ALL_CLASSIC_PBS_PARAMETERS.map(|(parameters, name)| (name, (*parameters).into()));
    let multi_bit = v1_8::VEC_ALL_MULTI_BIT_PBS_PARAMETERS.map(|(parameters, name)| (name, (*parameters).into()));
    let key_switch_32 = v1_8::VEC_ALL_KS32_PARAMETERS.map(|(parameters, name)| (name, (*parameters).into()));
    let theirs: Vec<_> = classic.into_iter().chain(multi_bit).chain(key_switch_32).collect();
    // tfhe-rs exports the HPU's parameters only in builds with the HPU's drivers.
    let ours: Vec<_> =
        sets().map(|(set, _)| set).filter(|set| set.name.starts_with("V1_8") && set.name != HPU_2_2).collect();
    assert_eq!(ours.len(), 29);
    for set in ours {
        let (_, theirs) = theirs.iter().find(|(name, _)| *name == set.name).expect(set.name);
        assert_eq!(parameters::shortint(set).unwrap(), *theirs, "{}", set.name);
        assert_eq!(parameters::find_shortint(theirs).unwrap().name, set.name);
    }
}

#[test]
fn boolean_sets_equal_those_of_tfhe_rs() {
    let theirs = [
        ("DEFAULT_PARAMETERS", boolean::DEFAULT_PARAMETERS),
        ("DEFAULT_PARAMETERS_KS_PBS", boolean::DEFAULT_PARAMETERS_KS_PBS),
        ("PARAMETERS_ERROR_PROB_2_POW_MINUS_165", boolean::PARAMETERS_ERROR_PROB_2_POW_MINUS_165),
        ("PARAMETERS_ERROR_PROB_2_POW_MINUS_165_KS_PBS", boolean::PARAMETERS_ERROR_PROB_2_POW_MINUS_165_KS_PBS),
        ("TFHE_LIB_PARAMETERS", boolean::TFHE_LIB_PARAMETERS),
    ];
    for (name, theirs) in theirs {
        assert_eq!(parameters::boolean(set(name)).unwrap(), theirs, "{name}");
        assert_eq!(parameters::find_boolean(&theirs).unwrap().name, name);
    }
}
