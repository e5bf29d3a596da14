//! A decoder refuses a corrupted envelope with an error that names the corruption.

use std::sync::LazyLock;

use cloakwork_params::{
    EnvelopeError, Expected, KeyId, ObjectKind, SetId,
    envelope::{DIMENSIONS, HEADER_BYTES, TRAILER_BYTES},
};
use cloakwork_tests_formats::{Case, KEY_ID, all, named, reseal};
use cloakwork_tfhe::format::FormatError;
use proptest::{prelude::*, sample::Index};

static CASES: LazyLock<Vec<Case>> = LazyLock::new(all);

const ANY: Expected = Expected { set: None, key_id: None };

/// The error of a case's decoder for bytes that it must refuse.
fn refusal(case: &Case, bytes: &[u8]) -> FormatError {
    (case.decode)(bytes, &ANY).expect_err("must be refused")
}

fn envelope_refusal(case: &Case, bytes: &[u8]) -> EnvelopeError {
    match refusal(case, bytes) {
        FormatError::Envelope(error) => error,
        other => panic!("expected an envelope error, got {other:?}"),
    }
}

fn is_list(kind: ObjectKind) -> bool {
    use ObjectKind::{CompactList, CompressedGlweList, LweList, SeededLweList};
    matches!(kind, LweList | SeededLweList | CompactList | CompressedGlweList)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_flipped_bit_is_refused(case: Index, bit: Index) {
        let case = case.get(&CASES);
        let mut bytes = case.bytes.clone();
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        refusal(case, &bytes);
    }

    #[test]
    fn a_flipped_bit_of_the_header_is_refused(case: Index, bit in 0..HEADER_BYTES * 8) {
        let case = case.get(&CASES);
        let mut bytes = case.bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        refusal(case, &bytes);
    }

    #[test]
    fn the_error_for_a_truncation_states_how_many_bytes_came(case: Index, len: Index) {
        let case = case.get(&CASES);
        let len = len.index(case.bytes.len());
        let expected = if len < HEADER_BYTES { HEADER_BYTES } else { case.bytes.len() } as u64;
        let error = envelope_refusal(case, &case.bytes[..len]);
        prop_assert_eq!(error, EnvelopeError::Truncated { expected, got: len as u64 });
    }

    #[test]
    fn an_extension_is_refused(case: Index, more in prop::collection::vec(any::<u8>(), 1..100)) {
        let case = case.get(&CASES);
        let error = envelope_refusal(case, &[&case.bytes[..], &more].concat());
        prop_assert_eq!(error, EnvelopeError::TrailingBytes { expected: case.bytes.len() as u64 });
    }

    #[test]
    fn a_wrong_payload_length_is_refused(case: Index, lie: u64) {
        let case = case.get(&CASES);
        let mut bytes = case.bytes.clone();
        bytes[HEADER_BYTES - 8..HEADER_BYTES].copy_from_slice(&lie.to_le_bytes());
        let expected = (case.bytes.len() - HEADER_BYTES - TRAILER_BYTES) as u64;
        prop_assume!(lie != expected);
        prop_assert_eq!(envelope_refusal(case, &bytes), EnvelopeError::WrongPayloadLength { expected, got: lie });
    }

    #[test]
    fn a_changed_dimension_is_refused_even_with_a_correct_digest(case: Index, index in 0..DIMENSIONS, lie: u32) {
        let case = case.get(&CASES);
        let mut bytes = case.bytes.clone();
        let at = 32 + 4 * index;
        prop_assume!(bytes[at..at + 4] != lie.to_le_bytes());
        bytes[at..at + 4].copy_from_slice(&lie.to_le_bytes());
        let error = envelope_refusal(case, &reseal(&bytes));
        if (is_list(case.kind) || case.kind == ObjectKind::Lut) && index == 0 {
            // The count of a list, or of a table's outputs, is free, so the length of the payload
            // reveals the lie.
            let is_length = matches!(error, EnvelopeError::WrongPayloadLength { .. });
            prop_assert!(is_length, "{}", error);
        } else {
            let is_named = matches!(error, EnvelopeError::WrongDimension { got, .. } if got == u64::from(lie));
            prop_assert!(is_named, "{}", error);
        }
    }

    #[test]
    fn bytes_that_are_not_an_envelope_are_refused(case: Index, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        refusal(case.get(&CASES), &bytes);
    }
}

#[test]
fn every_kind_is_refused_by_the_decoder_of_every_other() {
    for case in &*CASES {
        for other in CASES.iter().filter(|other| other.kind != case.kind) {
            let expected = EnvelopeError::WrongKind { expected: case.kind, got: other.kind };
            assert_eq!(envelope_refusal(case, &other.bytes), expected);
        }
    }
}

#[test]
fn a_secret_kind_is_refused_whatever_follows() {
    for case in &*CASES {
        for number in [0x8000_u16, 0x8001, 0xffff] {
            let mut bytes = case.bytes.clone();
            bytes[10..12].copy_from_slice(&number.to_le_bytes());
            let expected = EnvelopeError::SecretKeyRefused { got: number };
            assert_eq!(envelope_refusal(case, &reseal(&bytes)), expected);
        }
    }
}

#[test]
fn another_set_or_key_than_expected_is_refused() {
    let wanted = named("seeded_key_switch_key_2m21").set;
    for case in &*CASES {
        let refused = |expected: &Expected| (case.decode)(&case.bytes, expected).expect_err("must be refused");
        if case.set.id != wanted.id {
            let error = EnvelopeError::WrongParameterSet { expected: wanted.name, got: case.set.name };
            assert_eq!(refused(&Expected { set: Some(wanted), key_id: None }), error.into());
        }
        if case.kind == ObjectKind::Lut {
            // A table belongs to no key, so every key fits.
            continue;
        }
        let stranger = KeyId([9; 16]);
        let error = EnvelopeError::WrongKeyId { expected: stranger, got: KEY_ID };
        assert_eq!(refused(&Expected { set: Some(case.set), key_id: Some(stranger) }), error.into());
        let mut bytes = case.bytes.clone();
        bytes[12..14].copy_from_slice(&[0xfe, 0xfe]);
        let error = EnvelopeError::UnknownParameterSet { got: SetId(0xfefe) };
        assert_eq!(envelope_refusal(case, &reseal(&bytes)), error);
    }
}

#[test]
fn another_version_is_refused() {
    for case in &*CASES {
        for got in [0_u16, 2, 0xffff] {
            let mut bytes = case.bytes.clone();
            bytes[8..10].copy_from_slice(&got.to_le_bytes());
            let expected = EnvelopeError::UnsupportedVersion { expected: 1, got };
            assert_eq!(envelope_refusal(case, &reseal(&bytes)), expected);
        }
    }
}

#[test]
fn words_of_the_other_width_are_refused() {
    let (wide, narrow) = (named("lwe_list_u64"), named("lwe_list_u32"));
    assert_eq!(refusal(&wide, &narrow.bytes), FormatError::WrongWord { expected: 32, got: 64 });
    assert_eq!(refusal(&narrow, &wide.bytes), FormatError::WrongWord { expected: 64, got: 32 });
}

#[test]
fn nonzero_bits_below_a_modulus_are_refused() {
    let case = named("seeded_key_switch_key_2m21");
    let mut bytes = case.bytes.clone();
    bytes[HEADER_BYTES + 4 * 1234] |= 1;
    let expected = FormatError::LowBitsNotZero { index: 1234, modulus_log2: 21 };
    assert_eq!(refusal(&case, &reseal(&bytes)), expected);
}

#[test]
fn nonzero_bits_after_a_packed_ciphertext_are_refused() {
    // 19 ciphertexts with 8 bytes of bookkeeping each, then packs of 8, 8 and 3. A full pack has
    // (16 + 8) 9-bit values and leaves 40 bits of its fourth word unused. The last has (16 + 3) and
    // leaves 21 bits of its third word.
    let case = named("compressed_list");
    for (index, used) in [(3, 24), (7, 24), (10, 43)] {
        let mut bytes = case.bytes.clone();
        bytes[HEADER_BYTES + 19 * 8 + 8 * index + 7] |= 0x80;
        let expected = FormatError::UnusedBitsNotZero { index: index as u64, used };
        assert_eq!(refusal(&case, &reseal(&bytes)), expected);
    }
}

#[test]
fn degrees_and_noise_levels_above_their_limits_are_refused() {
    let refused = |name: &str, at: usize, value: u32| {
        let case = named(name);
        let mut bytes = case.bytes.clone();
        bytes[HEADER_BYTES + at..][..4].copy_from_slice(&value.to_le_bytes());
        refusal(&case, &reseal(&bytes))
    };
    let error = |what, index, limit, got| FormatError::ValueOutOfRange { what, index, limit, got };
    assert_eq!(refused("lwe_list_u64", 8, 16), error("degree", 1, 15, 16));
    assert_eq!(refused("lwe_list_u64", 20, 6), error("noise level", 2, 5, 6));
    assert_eq!(refused("lwe_list_u32", 0, 2), error("degree", 0, 1, 2));
    assert_eq!(refused("lwe_list_u32", 4, u32::MAX), error("noise level", 0, 1, 0xffff_ffff));
}
