//! One small object of every kind. Their words come from a fixed formula, so that tests compare
//! golden files with objects and not only with themselves.

use cloakwork_math::{Torus, random::MaskSeed};
use cloakwork_params::{Decomposition, Expected, KeyId, ObjectKind, ParameterSet, table};
use cloakwork_tfhe::{
    CompactList, CompactPublicKey, CompressedList, GgswShape, Lut, LweList, SeededBootstrapKey, SeededDecompressionKey,
    SeededKeySwitchKey, SeededLweList, SeededPackingKey,
    format::{CiphertextInfo, CiphertextList, FormatError, ListForm, WireObject, decode, encode},
};

/// An object, its encoding and its decoder.
pub struct Case {
    /// Name of the case and of its golden file.
    pub name: &'static str,
    /// Kind of the object.
    pub kind: ObjectKind,
    /// Parameter set of the object.
    pub set: &'static ParameterSet,
    /// Encoding of the object: its envelope.
    pub bytes: Vec<u8>,
    /// Decodes other bytes as an object of this kind, and encodes the result again.
    pub decode: fn(&[u8], &Expected) -> Result<Vec<u8>, FormatError>,
    /// Decodes bytes and compares the result with the object.
    pub is_object: Comparison,
}

/// Returns whether bytes encode a certain object.
pub type Comparison = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// Key identifier of all cases that belong to a key.
pub const KEY_ID: KeyId = KeyId(*b"golden key id 16");

/// All cases.
pub fn all() -> Vec<Case> {
    vec![
        case("lwe_list_u64", "TOY_MESSAGE_2_CARRY_2", |set| lwe_list::<u64>(set, &[(3, 1), (15, 5), (0, 0)])),
        case("lwe_list_u32", "TOY_BOOLEAN", |set| lwe_list::<u32>(set, &[(1, 1), (0, 0)])),
        case("lwe_list_empty", "TOY_MESSAGE_2_CARRY_2", |set| lwe_list::<u64>(set, &[])),
        case("seeded_lwe_list_u64", "TOY_MESSAGE_2_CARRY_2", |set| seeded_lwe_list::<u64>(set, &[(3, 1), (0, 0)])),
        case("seeded_lwe_list_u32", "TOY_BOOLEAN_KS_PBS", |set| seeded_lwe_list::<u32>(set, &[(1, 1)])),
        case("compact_list_u64", "TOY_MESSAGE_2_CARRY_2", |set| compact_list::<u64>(set, 257)),
        case("compact_list_u32", "TOY_BOOLEAN", |set| compact_list::<u32>(set, 3)),
        case("compact_public_key_u64", "TOY_MESSAGE_2_CARRY_2", compact_public_key::<u64>),
        case("compact_public_key_u32", "TOY_BOOLEAN", compact_public_key::<u32>),
        case("compressed_list", "TOY_MESSAGE_2_CARRY_2", |set| compressed_list(set, 19)),
        case("lut_u64", "TOY_MESSAGE_2_CARRY_2", |set| lut::<u64>(set, 3)),
        case("lut_u32", "TOY_BOOLEAN", |set| lut::<u32>(set, 1)),
        case("seeded_packing_key", "TOY_MESSAGE_2_CARRY_2", packing_key),
        case("seeded_decompression_key", "TOY_MESSAGE_2_CARRY_2", decompression_key),
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
    // Lookup tables belong to no key.
    let key_id = if O::KIND == ObjectKind::Lut { KeyId::NONE } else { KEY_ID };
    let mut bytes = Vec::new();
    encode(&object, set, key_id, &mut bytes).expect("the object conforms to its set");
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
    let words = words(T::BITS, info.len() * (dimension + 1));
    described(LweList::from_words(dimension, words).expect("whole ciphertexts"), info)
}

fn seeded_lwe_list<T: Torus>(set: &ParameterSet, info: &[(u32, u32)]) -> CiphertextList<SeededLweList<T>> {
    let list = SeededLweList::new(set.input_dimension(), SEED, words(T::BITS, info.len()));
    described(list.expect("a set's dimension"), info)
}

fn compact_list<T: Torus>(set: &ParameterSet, count: usize) -> CiphertextList<CompactList<T>> {
    let dimension = set.input_dimension();
    let masks = words(T::BITS, count.next_multiple_of(dimension));
    let list = CompactList::new(dimension, masks, words(T::BITS, count)).expect("a mask for each run");
    described(list, &vec![(1, 1); count])
}

fn compact_public_key<T: Torus>(set: &ParameterSet) -> CompactPublicKey<T> {
    CompactPublicKey::new(SEED, words(T::BITS, set.input_dimension())).expect("a power of two")
}

fn compressed_list(set: &ParameterSet, count: usize) -> CiphertextList<CompressedList> {
    let set = table::compression_for(set).expect("the set can compress");
    let (bits, full) = (set.storage_modulus_log2 as usize, set.lwe_per_glwe);
    let mut packed = Vec::new();
    for first in (0..count).step_by(full) {
        let used = (set.packing_dimension() + full.min(count - first)) * bits;
        packed.extend(words::<u64>(64, used.div_ceil(64)));
        if let Some(last) = packed.last_mut().filter(|_| !used.is_multiple_of(64)) {
            *last >>= 64 - used % 64;
        }
    }
    described(CompressedList::from_words(set, count, packed).expect("whole words"), &vec![(3, 1); count])
}

fn lut<T: Torus>(set: &ParameterSet, outputs: usize) -> Lut<T> {
    let body = words(T::BITS, set.polynomial_size);
    Lut::from_parts(body, (0..outputs).map(|output| output * 17).collect()).expect("ascending outputs")
}

fn described<L: ListForm>(list: L, info: &[(u32, u32)]) -> CiphertextList<L> {
    let info = info.iter().map(|&(degree, noise_level)| CiphertextInfo { degree, noise_level });
    CiphertextList::new(list, info.collect()).expect("one entry each")
}

fn bootstrap_key<T: Torus>(set: &ParameterSet) -> SeededBootstrapKey<T> {
    ggsws(set, set.bootstrap, set.ggsw_count())
}

fn decompression_key(set: &ParameterSet) -> SeededDecompressionKey {
    let packed = table::compression_for(set).expect("the set can compress");
    SeededDecompressionKey(ggsws(set, packed.bootstrap, packed.packing_dimension()))
}

fn ggsws<T: Torus>(set: &ParameterSet, gadget: Decomposition, count: usize) -> SeededBootstrapKey<T> {
    let shape = GgswShape::of_set(set, gadget);
    let bodies = words(T::BITS, count * shape.body_words());
    SeededBootstrapKey::new(shape, count, SEED, bodies).expect("whole GGSW ciphertexts")
}

fn packing_key(set: &ParameterSet) -> SeededPackingKey<u64> {
    let packed = table::compression_for(set).expect("the set can compress");
    let (input, k, n) = (set.big_dimension(), packed.packing_glwe_dimension, packed.packing_polynomial_size);
    let bodies = words(64, input * packed.packing.levels * n);
    SeededPackingKey::new(input, k, n, packed.packing, SEED, bodies).expect("a polynomial for each digit")
}

fn key_switch_key<S: Torus>(set: &ParameterSet) -> SeededKeySwitchKey<S> {
    let (input, output, gadget) = (set.big_dimension(), set.lwe_dimension, set.key_switch);
    let bodies = words(set.small_modulus_log2, input * gadget.levels);
    SeededKeySwitchKey::new(input, output, gadget, set.small_modulus_log2, SEED, bodies).expect("a body for each digit")
}

/// Values of a modulus from the additive sequence of the golden ratio. The sequence repeats, so
/// that the files compress well. Its period is prime, so that a displaced piece changes the object.
fn words<T: Torus>(modulus_log2: u32, count: usize) -> Vec<T> {
    (1..=count as u64)
        .map(|index| {
            let value = (index % 251).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - modulus_log2);
            T::from_u64(value << (T::BITS - modulus_log2))
        })
        .collect()
}

const SEED: MaskSeed = MaskSeed { key: 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100, block: 1 << 100, byte: 11 };
