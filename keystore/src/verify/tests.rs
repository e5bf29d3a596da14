//! Tests with whole envelopes, and with everything that can be wrong with an envelope.

use std::io::Write;

use cloakwork_params::{
    EnvelopeWriter, Layout, ParameterSet, Seed, SetId, Standing,
    ckks::{
        CKKS_SETS,
        layout::{CiphertextShape, Purpose, payload_len},
    },
    table,
};
use proptest::prelude::*;

use super::*;

const POLICY: Policy = Policy { allow_weak_sets: true, list_bytes: 1 << 20 };

fn blob(kind: ObjectKind, set: &'static ParameterSet, count: u32, entry: CiphertextInfo) -> Vec<u8> {
    let layout = Layout::of(kind, set, &[count, 0, 0, 0, 0, 0, 0, 0]).expect("the set has the kind");
    let mut dimensions = [0; 8];
    for (value, (_, wanted)) in dimensions.iter_mut().zip(&layout.dimensions) {
        *value = *wanted as u32;
    }
    let key_id = if kind == ObjectKind::Lut { KeyId::NONE } else { KeyId([7; 16]) };
    let seed = kind.is_seeded().then_some(Seed { key: 1, block: 2, byte: 3 });
    let header = Header { kind, set: set.id, key_id, dimensions, seed, payload_len: layout.payload_len };
    let mut out = EnvelopeWriter::new(Vec::new(), &header).expect("memory");
    let mut payload = vec![0x5a; layout.payload_len as usize];
    if is_list(kind) {
        for bytes in payload.chunks_exact_mut(8).take(count as usize) {
            bytes.copy_from_slice(&entry.to_bytes());
        }
    }
    out.write_all(&payload).expect("memory");
    out.finish().expect("memory")
}

fn toy() -> &'static ParameterSet {
    table::by_name("TOY_MESSAGE_2_CARRY_2").expect("a row")
}

const ENTRY: CiphertextInfo = CiphertextInfo { degree: 3, noise_level: 2 };

fn verify(
    announced: Digest,
    bytes: &[u8],
    policy: Policy,
    steps: impl IntoIterator<Item = usize>,
) -> Result<Content, Error> {
    let mut verifier = Verifier::new(announced, policy);
    let mut rest = bytes;
    for step in steps.into_iter().chain([usize::MAX]) {
        let (piece, behind) = rest.split_at(step.min(rest.len()));
        verifier.push(piece)?;
        rest = behind;
    }
    verifier.finish()
}

#[test]
fn all_kinds_except_secret_kinds_are_accepted() {
    for set in [toy(), table::by_name("TOY_BOOLEAN").expect("a row")] {
        for kind in ObjectKind::all().filter(|kind| !kind.is_secret()) {
            if Layout::of(kind, set, &[0; 8]).is_err() {
                continue;
            }
            let entry = CiphertextInfo { degree: 1, noise_level: 1 };
            let bytes = blob(kind, set, 5, entry);
            let content = verify(Digest::of(&bytes), &bytes, POLICY, []).expect("well formed");
            assert_eq!((content.kind, content.set.id()), (kind, set.id));
            assert_eq!(content.count, if is_key(kind) { 0 } else { 5 });
            assert_eq!(content.degree_max, u32::from(is_list(kind)));
        }
    }
}

#[test]
fn an_empty_list_and_single_byte_pieces_are_accepted() {
    for count in [0, 3] {
        let bytes = blob(ObjectKind::SeededLweList, toy(), count, ENTRY);
        let content = verify(Digest::of(&bytes), &bytes, POLICY, vec![1; bytes.len()]).expect("well formed");
        assert_eq!(content.count, u64::from(count));
        assert_eq!(content.noise_level_max, if count == 0 { 0 } else { 2 });
    }
}

#[test]
fn every_flipped_bit_is_found_even_under_the_damaged_digest() {
    let good = blob(ObjectKind::SeededLweList, toy(), 2, ENTRY);
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(verify(Digest::of(&good), &bad, POLICY, []).is_err(), "bit {bit}");
        // Under the digest of the damaged bytes, the envelope itself must reveal the damage.
        let error = verify(Digest::of(&bad), &bad, POLICY, []).expect_err("damaged");
        assert!(error.condemns(), "bit {bit}: {error}");
    }
}

#[test]
fn a_secret_key_is_refused_with_the_last_byte_of_its_header() {
    let mut bytes = blob(ObjectKind::SeededLweList, toy(), 2, ENTRY);
    bytes[10..12].copy_from_slice(&0x8000u16.to_le_bytes());
    let mut verifier = Verifier::new(Digest::of(&bytes), POLICY);
    verifier.push(&bytes[..111]).expect("nothing to be seen yet");
    assert!(!verifier.header_accepted());
    assert_eq!(verifier.push(&bytes[111..112]), Err(Error::SecretKeyRejected));
    // Later kinds that this version does not know are secret, too.
    bytes[10..12].copy_from_slice(&0xffffu16.to_le_bytes());
    assert_eq!(verify(Digest::of(&bytes), &bytes, POLICY, []), Err(Error::SecretKeyRejected));
}

#[test]
fn foreign_bytes_and_wrong_sizes_are_refused_early() {
    let bytes = blob(ObjectKind::SeededLweList, toy(), 2, ENTRY);
    let digest = Digest::of(&bytes);
    // Foreign bytes are refused with the first byte.
    let mut verifier = Verifier::new(digest, POLICY);
    assert_eq!(verifier.push(b"P").expect_err("foreign").kind(), "EnvelopeInvalid");
    // A size that the header contradicts is refused with the header.
    for size_bytes in [digest.size_bytes - 1, digest.size_bytes + 1, 1 << 40] {
        let mut verifier = Verifier::new(Digest { size_bytes, ..digest }, POLICY);
        assert_eq!(verifier.push(&bytes[..112]).expect_err("a lie").kind(), "SizeMismatch");
    }
    // A piece that exceeds the announced size is refused before it is hashed.
    let mut verifier = Verifier::new(digest, POLICY);
    verifier.push(&bytes).expect("all of it");
    assert_eq!(verifier.push(&[0]).expect_err("too much").kind(), "SizeMismatch");
    // A blob is refused if it is shorter than announced, down to nothing.
    for end in [0, 50, 112, 120, bytes.len() - 33, bytes.len() - 1] {
        let error = verify(digest, &bytes[..end], POLICY, []).expect_err("truncated");
        assert_eq!(error.kind(), "SizeMismatch", "{end}");
        let error = verify(Digest::of(&bytes[..end]), &bytes[..end], POLICY, []).expect_err("truncated");
        assert!(matches!(&*error.kind(), "SizeMismatch" | "EnvelopeInvalid"), "{end}: {error}");
    }
}

#[test]
fn unserved_sets_and_oversized_lists_are_refused() {
    let strict = Policy { allow_weak_sets: false, ..POLICY };
    for set in table::SETS {
        let bytes = blob(ObjectKind::SeededLweList, set, 1, CiphertextInfo { degree: 1, noise_level: 1 });
        let verdict = verify(Digest::of(&bytes), &bytes, strict, []);
        match set.standing {
            Standing::Served => assert!(verdict.is_ok(), "{}", set.name),
            _ => assert_eq!(verdict, Err(weak(set.name, set.standing))),
        }
    }
    let bytes = blob(ObjectKind::LweList, toy(), 600, ENTRY);
    assert!(bytes.len() > 1 << 20);
    assert_eq!(verify(Digest::of(&bytes), &bytes, POLICY, []).expect_err("large").kind(), "BlobTooLarge");
}

fn weak(set: &'static str, standing: Standing) -> Error {
    Error::WeakSetRefused { set, reason: standing.weakness().expect("a weak set") }
}

#[test]
fn headers_describe_ckks_objects() {
    let sealed = |kind: ObjectKind, set: SetId, dimensions, payload_len| {
        let seed = kind.is_seeded().then_some(Seed { key: 1, block: 2, byte: 3 });
        let header = Header { kind, set, key_id: KeyId([7; 16]), dimensions, seed, payload_len };
        let mut out = EnvelopeWriter::new(Vec::new(), &header).expect("memory");
        out.write_all(&vec![0x11; payload_len as usize]).expect("memory");
        out.finish().expect("memory")
    };
    for set in CKKS_SETS {
        // The key is the one into a bootstrap, because it has at most a megabyte.
        let shape = KeyShape { purpose: Purpose::ToSparse, level: 0 };
        let numbers = CiphertextShape { level: 0, slots_log2: 4, scale: 1.5 * 2_f64.powi(40) };
        let of_key = shape.to_dimensions(set).expect("a key");
        let of_numbers = numbers.to_dimensions(set).expect("a ciphertext");
        for (kind, dimensions, expected) in [
            (ObjectKind::SeededCkksSwitchKey, of_key, Some(shape)),
            (ObjectKind::SeededCkksCiphertext, of_numbers, None),
            (ObjectKind::CkksCiphertext, of_numbers, None),
        ] {
            let bytes = sealed(kind, set.id, dimensions, payload_len(kind, set, &dimensions).expect("an object"));
            let digest = Digest::of(&bytes);
            let content = verify(digest, &bytes, Policy { list_bytes: 2 << 20, ..POLICY }, [7]).expect("well formed");
            assert_eq!((content.set.id(), content.dimensions, content.key_shape()), (set.id, dimensions, expected));
            assert_eq!(content.count, u64::from(expected.is_none()));
            let strict = verify(digest, &bytes, Policy { allow_weak_sets: false, list_bytes: 2 << 20 }, []);
            match (set.standing, expected) {
                (Standing::Served, _) => assert!(strict.is_ok(), "{}", set.name),
                // Owners of stored keys send ciphertexts, and nobody sends a new key.
                (Standing::Retired(_), None) => assert!(strict.is_ok(), "{}", set.name),
                _ => assert_eq!(strict, Err(weak(set.name, set.standing))),
            }
            // Wrong objects: a key to a sparse secret at another level, an invalid scale, a set of
            // TFHE.
            let mut bad = dimensions;
            bad[if expected.is_some() { 2 } else { 3 }] = 1;
            let bytes = sealed(kind, set.id, bad, 4096);
            assert_eq!(
                verify(Digest::of(&bytes), &bytes, POLICY, []).expect_err("no such object").kind(),
                "EnvelopeInvalid"
            );
            let bytes = sealed(kind, toy().id, dimensions, 4096);
            assert_eq!(
                verify(Digest::of(&bytes), &bytes, POLICY, []).expect_err("no such set").kind(),
                "EnvelopeInvalid"
            );
        }
    }
}

#[test]
fn entries_beyond_the_limits_of_the_set_are_refused() {
    for entry in [CiphertextInfo { degree: 16, noise_level: 1 }, CiphertextInfo { degree: 1, noise_level: 6 }] {
        let bytes = blob(ObjectKind::LweList, toy(), 4, entry);
        let error = verify(Digest::of(&bytes), &bytes, POLICY, [112, 3]).expect_err("out of range");
        assert!(matches!(error, Error::EntryOutOfRange { index: 0, .. }), "{error}");
    }
    let mut bytes = blob(ObjectKind::LweList, toy(), 4, ENTRY);
    bytes[112 + 3 * 8] = 99;
    let error = verify(Digest::of(&bytes), &bytes, POLICY, vec![5; 40]).expect_err("out of range");
    assert!(matches!(error, Error::EntryOutOfRange { index: 3, what: "degree", limit: 15, got: 99 }), "{error}");
}

proptest! {
    #[test]
    fn any_split_gives_the_same_result(count in 0u32..40, steps in proptest::collection::vec(0usize..400, 0..40)) {
        let bytes = blob(ObjectKind::LweList, toy(), count, ENTRY);
        let whole = verify(Digest::of(&bytes), &bytes, POLICY, []);
        prop_assert!(whole.is_ok());
        prop_assert_eq!(verify(Digest::of(&bytes), &bytes, POLICY, steps), whole);
    }

    #[test]
    fn no_input_panics(mut head in proptest::collection::vec(any::<u8>(), 0..400), known in 0usize..112, size in 0u64..500) {
        let good = blob(ObjectKind::SeededLweList, toy(), 9, ENTRY);
        let known = known.min(head.len());
        head[..known].copy_from_slice(&good[..known]);
        let digest = Digest { size_bytes: size, ..Digest::of(&head) };
        prop_assert!(verify(digest, &head, POLICY, [known]).is_err());
    }
}

/// Names the variant of an error.
trait Kind {
    fn kind(&self) -> String;
}

impl Kind for Error {
    fn kind(&self) -> String {
        let text = format!("{self:?}");
        text.split([' ', '(']).next().expect("a name").to_owned()
    }
}
