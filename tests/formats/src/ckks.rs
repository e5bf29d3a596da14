//! One small object of every kind of CKKS, and the checks of their decoders on arbitrary bytes, as
//! `cases` and `inputs` have them for TFHE.

use std::sync::LazyLock;

use cloakwork_ckks::{
    Basis, Ciphertext, Gadget, KeyPart, Poly, Ring, SeededCiphertext, SeededPublicKey,
    format::{FormatError, WireObject, decode, encode},
    key::SeededSwitchKey,
};
use cloakwork_math::random::MaskSeed;
use cloakwork_params::{
    KeyId, ObjectKind,
    ckks::{
        by_name,
        layout::{KeyShape, Purpose},
    },
};

use crate::{cases::KEY_ID, inputs::reseal};

/// An object, its encoding and its decoder.
pub struct CkksCase {
    /// Name of the case and of its golden file.
    pub name: &'static str,
    /// Kind of the object.
    pub kind: ObjectKind,
    /// Ring of the object's parameter set.
    pub ring: &'static Ring,
    /// Encoding of the object: its envelope.
    pub bytes: Vec<u8>,
    /// Decodes other bytes as an object of this kind, for a ring and under a key, and encodes the
    /// result again.
    pub decode: Decoder,
}

/// Reads bytes as an object of a ring, and writes the object again.
pub type Decoder = fn(&[u8], &Ring, Option<KeyId>) -> Result<Vec<u8>, FormatError>;

/// A ring whose primes differ in size.
static MIXED: LazyLock<Ring> = LazyLock::new(|| ring("TOY_CKKS_45_60_50"));
/// A ring whose primes have nearly one size.
static EVEN: LazyLock<Ring> = LazyLock::new(|| ring("TOY_CKKS_54_60"));

fn ring(set: &str) -> Ring {
    Ring::new(by_name(set).expect("a row of the table"))
}

/// All cases of CKKS.
pub fn all_of_ckks() -> Vec<CkksCase> {
    let key = |ring: &Ring, purpose, level| {
        let shape = KeyShape { purpose, level };
        let basis = Basis { level, special: shape.special(ring.set()) };
        let gadget = if shape.is_whole() { Gadget::Whole } else { Gadget::Digits };
        let bodies = (0..shape.bodies(ring.set())).map(|_| poly(ring, basis)).collect();
        KeyPart { purpose, key: SeededSwitchKey { basis, gadget, seed: SEED, bodies } }
    };
    let scale = 1.000_1 * MIXED.scale();
    let polys = || [poly(&MIXED, Basis::of_level(1)), poly(&MIXED, Basis::of_level(1))];
    let body = || poly(&EVEN, Basis::of_level(0));
    let public = poly(&MIXED, Basis::of_level(MIXED.set().working_level));
    vec![
        case("ckks_ciphertext", &MIXED, &Ciphertext { polys: polys(), scale, slots_log2: 3 }),
        case(
            "seeded_ckks_ciphertext",
            &EVEN,
            &SeededCiphertext { body: body(), seed: SEED, scale: EVEN.scale(), slots_log2: 9 },
        ),
        case("seeded_ckks_public_key", &MIXED, &SeededPublicKey { body: public, seed: SEED }),
        case("seeded_ckks_switch_key_move", &MIXED, &key(&MIXED, Purpose::Move { power: 5 }, 0)),
        case("seeded_ckks_switch_key_to_sparse", &MIXED, &key(&MIXED, Purpose::ToSparse, 0)),
        case("seeded_ckks_switch_key_to_dense", &EVEN, &key(&EVEN, Purpose::ToDense, 1)),
    ]
}

fn case<O: WireObject>(name: &'static str, ring: &'static Ring, object: &O) -> CkksCase {
    let mut bytes = Vec::new();
    encode(object, ring, KEY_ID, &mut bytes).expect("the object conforms to its set");
    CkksCase { name, kind: O::KIND, ring, bytes, decode: again::<O> }
}

fn again<O: WireObject>(bytes: &[u8], ring: &Ring, key_id: Option<KeyId>) -> Result<Vec<u8>, FormatError> {
    let decoded = decode::<O>(bytes, ring, key_id)?;
    let mut again = Vec::new();
    encode(&decoded.object, ring, decoded.key_id, &mut again)?;
    Ok(again)
}

/// Residues from the additive sequence of the golden ratio, like the words of TFHE's cases.
fn poly(ring: &Ring, basis: Basis) -> Poly {
    let mut poly = ring.zero(basis);
    for (prime, row) in ring.primes(basis).zip(poly.rows_mut()) {
        for (index, word) in (1_u64..).zip(row) {
            *word = prime.modulus().reduce((index % 251).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
    }
    poly
}

const SEED: MaskSeed = MaskSeed { key: 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100, block: 1 << 100, byte: 11 };

/// Decodes the bytes as a ciphertext.
pub fn decode_ckks_ciphertext_input(bytes: &[u8]) {
    check::<Ciphertext>(bytes);
}

/// Decodes the bytes as a seeded ciphertext.
pub fn decode_seeded_ckks_ciphertext_input(bytes: &[u8]) {
    check::<SeededCiphertext>(bytes);
}

/// Decodes the bytes as a public key.
pub fn decode_seeded_ckks_public_key_input(bytes: &[u8]) {
    check::<SeededPublicKey>(bytes);
}

/// Decodes the bytes as a part of a key.
pub fn decode_seeded_ckks_switch_key_input(bytes: &[u8]) {
    check::<KeyPart>(bytes);
}

fn check<O: WireObject>(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), reseal(bytes)] {
        for ring in [&*MIXED, &*EVEN] {
            match again::<O>(&bytes, ring, None) {
                Ok(again) => assert!(again == bytes, "an object has one encoding"),
                Err(error) => drop(error.to_string()),
            }
        }
    }
}
