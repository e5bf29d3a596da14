//! One small object of every kind. Their words come from a fixed formula, so that golden files can be
//! compared with objects and not only with themselves.

use cloakwork_math::{Torus, random::MaskSeed};
use cloakwork_params::{Expected, KeyId, ObjectKind, ParameterSet, table};
use cloakwork_tfhe::{
    GgswShape, LweList, SeededBootstrapKey, SeededKeySwitchKey,
    format::{CiphertextInfo, CiphertextList, FormatError, WireObject, decode, encode},
};

/// An object, its encoding and its decoder.
pub struct Case {
    /// Name, as of its golden file.
    pub name: &'static str,
    /// What it is.
    pub kind: ObjectKind,
    /// Its parameter set.
    pub set: &'static ParameterSet,
    /// Its envelope.
    pub bytes: Vec<u8>,
    /// Decodes other bytes as such an object, and encodes it again.
    pub decode: fn(&[u8], &Expected) -> Result<Vec<u8>, FormatError>,
    /// Decodes bytes and compares with the object itself.
    pub is_object: Comparison,
}

/// Are these bytes a certain object?
pub type Comparison = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// The key that every case claims to be made under.
pub const KEY_ID: KeyId = KeyId(*b"golden key id 16");

/// Every case there is.
pub fn all() -> Vec<Case> {
    vec![
        case("lwe_list_u64", "TOY_MESSAGE_2_CARRY_2", |set| lwe_list::<u64>(set, &[(3, 1), (15, 5), (0, 0)])),
        case("lwe_list_u32", "TOY_BOOLEAN", |set| lwe_list::<u32>(set, &[(1, 1), (0, 0)])),
        case("lwe_list_empty", "TOY_MESSAGE_2_CARRY_2", |set| lwe_list::<u64>(set, &[])),
        case("seeded_bootstrap_key_u32", "TOY_BOOLEAN_KS_PBS", bootstrap_key::<u32>),
        case("seeded_bootstrap_key_u64", "TOY_MESSAGE_2_CARRY_2", bootstrap_key::<u64>),
        case("seeded_key_switch_key_u64", "TOY_MESSAGE_2_CARRY_2", key_switch_key::<u64>),
        case("seeded_key_switch_key_u32", "TOY_BOOLEAN", key_switch_key::<u32>),
        case("seeded_key_switch_key_2m21", "TOY_MESSAGE_2_CARRY_2_KS32", key_switch_key::<u32>),
    ]
}

/// The case of this name.
pub fn named(name: &str) -> Case {
    all().into_iter().find(|case| case.name == name).expect("a case of this name")
}

fn case<O: WireObject + PartialEq + Send + Sync + 'static>(
    name: &'static str,
    set: &str,
    build: impl Fn(&ParameterSet) -> O,
) -> Case {
    let set = table::by_name(set).expect("a row of the table");
    let object = build(set);
    let mut bytes = Vec::new();
    encode(&object, set, KEY_ID, &mut bytes).expect("the object conforms to its set");
    Case {
        name,
        kind: O::KIND,
        set,
        bytes,
        decode: |bytes, expected| {
            let decoded = decode::<O>(bytes, expected)?;
            let mut again = Vec::new();
            encode(&decoded.object, decoded.set, decoded.key_id, &mut again)?;
            Ok(again)
        },
        is_object: Box::new(move |bytes| {
            let decoded = decode::<O>(bytes, &Expected { set: Some(set), key_id: Some(KEY_ID) });
            decoded.is_ok_and(|decoded| decoded.object == object)
        }),
    }
}

fn lwe_list<T: Torus>(set: &ParameterSet, info: &[(u32, u32)]) -> CiphertextList<LweList<T>> {
    let dimension = set.input_dimension();
    let list = LweList::from_words(dimension, words(T::BITS, info.len() * (dimension + 1))).expect("whole ciphertexts");
    let info = info.iter().map(|&(degree, noise_level)| CiphertextInfo { degree, noise_level });
    CiphertextList::new(list, info.collect()).expect("one entry each")
}

fn bootstrap_key<T: Torus>(set: &ParameterSet) -> SeededBootstrapKey<T> {
    let (glwe_dimension, polynomial_size) = (set.glwe_dimension, set.polynomial_size);
    let shape = GgswShape { glwe_dimension, polynomial_size, gadget: set.bootstrap };
    let bodies = words(T::BITS, set.ggsw_count() * shape.body_words());
    SeededBootstrapKey::new(shape, set.ggsw_count(), SEED, bodies).expect("whole GGSW ciphertexts")
}

fn key_switch_key<S: Torus>(set: &ParameterSet) -> SeededKeySwitchKey<S> {
    let (input, output, gadget) = (set.big_dimension(), set.lwe_dimension, set.key_switch);
    let bodies = words(set.small_modulus_log2, input * gadget.levels);
    SeededKeySwitchKey::new(input, output, gadget, set.small_modulus_log2, SEED, bodies).expect("a body for each digit")
}

/// Values of a modulus from the additive sequence of the golden ratio. It repeats so that the files compress
/// well, and with a prime period so that a displaced piece shows.
fn words<T: Torus>(modulus_log2: u32, count: usize) -> Vec<T> {
    (1..=count as u64)
        .map(|index| {
            let value = (index % 251).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - modulus_log2);
            T::from_u64(value << (T::BITS - modulus_log2))
        })
        .collect()
}

const SEED: MaskSeed = MaskSeed { key: 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100, block: 1 << 100, byte: 11 };
