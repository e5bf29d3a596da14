//! Golden files of CKKS objects, and refusal of their corrupted envelopes.

use std::{fs, path::Path, sync::LazyLock};

use cloakwork_ckks::format::FormatError;
use cloakwork_params::{
    EnvelopeError, EnvelopeReader, KeyId, ObjectKind, SetId,
    ckks::layout::{CiphertextShape, KeyShape},
    envelope::{DIMENSIONS, HEADER_BYTES, TRAILER_BYTES},
    table::SETS,
};
use cloakwork_tests_formats::{CkksCase, KEY_ID, all, all_of_ckks, reseal};
use proptest::{prelude::*, sample::Index};

static CASES: LazyLock<Vec<CkksCase>> = LazyLock::new(all_of_ckks);

fn refusal(case: &CkksCase, bytes: &[u8]) -> FormatError {
    (case.decode)(bytes, case.ring, None).expect_err("must be refused")
}

fn envelope_refusal(case: &CkksCase, bytes: &[u8]) -> EnvelopeError {
    match refusal(case, bytes) {
        FormatError::Envelope(error) => error,
        other => panic!("expected an envelope error, got {other:?}"),
    }
}

#[test]
fn golden_files_are_still_read_and_written_byte_for_byte() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/v1");
    for case in &*CASES {
        let golden = fs::read(folder.join(format!("{}.bin", case.name))).expect("a golden file");
        assert!(golden == case.bytes, "{} is written differently", case.name);
        let again = (case.decode)(&golden, case.ring, Some(KEY_ID)).expect("a well-formed object");
        assert!(again == golden, "{} is read as another object", case.name);
    }
}

#[test]
fn every_truncation_and_every_flipped_byte_of_a_header_is_refused() {
    for case in &*CASES {
        for len in (0..HEADER_BYTES + 70).chain((HEADER_BYTES..case.bytes.len()).step_by(997)) {
            let expected = if len < HEADER_BYTES { HEADER_BYTES } else { case.bytes.len() } as u64;
            let error = envelope_refusal(case, &case.bytes[..len]);
            assert_eq!(error, EnvelopeError::Truncated { expected, got: len as u64 }, "{}", case.name);
        }
        for (at, flip) in (0..HEADER_BYTES).flat_map(|at| [1, 0x80, 0xff].map(|flip| (at, flip))) {
            let mut bytes = case.bytes.clone();
            bytes[at] ^= flip;
            envelope_refusal(case, &bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_flipped_bit_is_refused(case: Index, bit: Index) {
        let case = case.get(&CASES);
        let mut bytes = case.bytes.clone();
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        refusal(case, &bytes);
    }

    #[test]
    fn a_changed_dimension_is_refused_or_gives_another_valid_object(case: Index, index in 0..DIMENSIONS, lie in prop_oneof![
        any::<u32>(), 0_u32..2100
    ]) {
        let case = case.get(&CASES);
        let mut bytes = case.bytes.clone();
        bytes[32 + 4 * index..][..4].copy_from_slice(&lie.to_le_bytes());
        let bytes = reseal(&bytes);
        // Slots, scale and the power of a move are free within bounds. A change of one of them
        // changes nothing else.
        if let Ok(again) = (case.decode)(&bytes, case.ring, None) {
            prop_assert!(again == bytes);
            let is_free = match case.kind {
                ObjectKind::SeededCkksPublicKey => false,
                ObjectKind::SeededCkksSwitchKey => index == 1 && lie % 2 == 1,
                _ => (1..=3).contains(&index),
            };
            prop_assert!(is_free || bytes == case.bytes, "{index} {lie}");
        }
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
}

#[test]
fn a_residue_that_is_not_below_its_prime_is_refused() {
    for case in &*CASES {
        let mut bytes = case.bytes.clone();
        // The first residue has as many bits as the first prime, at least seven bytes.
        bytes[HEADER_BYTES..][..8].fill(0xff);
        let prime = case.ring.set().chain[0];
        assert_eq!(refusal(case, &reseal(&bytes)), FormatError::ResidueTooLarge { row: 0, index: 0, prime });
        // The last residue of the last row: fill as many whole bytes as it has.
        let mut bytes = case.bytes.clone();
        let end = bytes.len() - TRAILER_BYTES;
        let whole = (last_prime(case).ilog2() as usize + 1) / 8;
        bytes[end - whole..end].fill(0xff);
        let error = refusal(case, &reseal(&bytes));
        assert!(matches!(error, FormatError::ResidueTooLarge { index: 1023, .. }), "{error}");
    }
}

fn last_prime(case: &CkksCase) -> u64 {
    let set = case.ring.set();
    let dimensions = EnvelopeReader::open(&case.bytes[..]).expect("an envelope").header().dimensions;
    match case.kind {
        ObjectKind::SeededCkksSwitchKey => set.special[KeyShape::of(set, &dimensions).expect("a key").special(set) - 1],
        ObjectKind::SeededCkksPublicKey => set.chain[set.working_level],
        _ => set.chain[CiphertextShape::of(set, &dimensions).expect("a ciphertext").level],
    }
}

#[test]
fn scales_that_are_not_finite_and_in_range_are_refused() {
    let case = CASES.iter().find(|case| case.kind == ObjectKind::CkksCiphertext).expect("a ciphertext");
    for scale in [f64::NAN, f64::INFINITY, 0.0, -1.0, 0.5, f64::MIN_POSITIVE, 5e-324, 1e300] {
        let mut bytes = case.bytes.clone();
        bytes[40..48].copy_from_slice(&scale.to_bits().to_le_bytes());
        let error = envelope_refusal(case, &reseal(&bytes));
        assert_eq!(error, EnvelopeError::ScaleOutOfRange { bits: scale.to_bits() });
    }
}

#[test]
fn another_kind_set_or_key_than_expected_is_refused() {
    for case in &*CASES {
        for other in CASES.iter().filter(|other| other.kind != case.kind) {
            let expected = EnvelopeError::WrongKind { expected: case.kind, got: other.kind };
            assert_eq!(envelope_refusal(case, &other.bytes), expected);
        }
        for other in all() {
            let expected = EnvelopeError::WrongKind { expected: case.kind, got: other.kind };
            assert_eq!(envelope_refusal(case, &other.bytes), expected);
        }
        let stranger = KeyId([9; 16]);
        let refused = (case.decode)(&case.bytes, case.ring, Some(stranger));
        assert_eq!(refused, Err(EnvelopeError::WrongKeyId { expected: stranger, got: KEY_ID }.into()));
        let other = CASES.iter().find(|other| other.ring.set() != case.ring.set()).expect("a case of another set");
        let (expected, got) = (other.ring.set().name, case.ring.set().name);
        let refused = (case.decode)(&case.bytes, other.ring, None);
        assert_eq!(refused, Err(EnvelopeError::WrongParameterSet { expected, got }.into()));
        let with_set = |number: SetId| {
            let mut bytes = case.bytes.clone();
            bytes[12..14].copy_from_slice(&number.0.to_le_bytes());
            envelope_refusal(case, &reseal(&bytes))
        };
        assert_eq!(with_set(SetId(0xfefe)), EnvelopeError::UnknownParameterSet { got: SetId(0xfefe) });
        let (expected, got) = ("a set of CKKS", SETS[0].name);
        assert_eq!(with_set(SETS[0].id), EnvelopeError::WrongParameterSet { expected, got });
        let mut bytes = case.bytes.clone();
        bytes[10..12].copy_from_slice(&0x8001_u16.to_le_bytes());
        assert_eq!(envelope_refusal(case, &reseal(&bytes)), EnvelopeError::SecretKeyRefused { got: 0x8001 });
    }
}
