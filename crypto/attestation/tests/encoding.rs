//! The encoding is stable, and each value has one encoding.

use cloakwork_attestation::{ATTESTATION_BYTES, Certificate, Claim, PublicKey, Statement, Subject};
use proptest::prelude::*;

use crate::common::{certificate, claim, statement, verifier, worker};

/// Other implementations of the protocol have to make these bytes. A change needs new magic bytes.
#[test]
fn an_attestation_has_the_stored_bytes() {
    let attestation = statement().sign(&worker(), &certificate());
    assert_eq!(attestation.len(), ATTESTATION_BYTES);
    assert_eq!(attestation[..24], *b"CWKRSLT1\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03");
    assert_eq!(attestation[282..290], *b"CWKCERT1");
    assert_eq!(
        blake3::hash(&attestation).to_hex().as_str(),
        "041ed25d0e24eefba058de7d738f42e1c6efa745129b4923306cf5ba8159e9e9",
        "Ed25519 is deterministic, so that the whole attestation is"
    );
}

#[test]
fn a_claim_has_the_bytes_that_the_installation_signs() {
    let bytes = claim().encode();
    assert_eq!(bytes.len(), Claim::BYTES);
    assert_eq!(Certificate::decode(&certificate().encode()).expect("a certificate"), certificate());
    assert_eq!(certificate().encode()[..Claim::BYTES], bytes);
}

fn subjects() -> impl Strategy<Value = Subject> {
    let ids = (any::<[u8; 16]>(), any::<[u8; 16]>(), any::<[u8; 16]>());
    let digests = (any::<[u8; 32]>(), any::<[u8; 32]>(), any::<[u8; 32]>(), any::<[u8; 32]>());
    (ids, digests, any::<u16>(), any::<u64>()).prop_map(
        |((job, request, key), (program, inputs, outputs, evaluation_key), set, rows)| Subject {
            job,
            request,
            program,
            key,
            evaluation_key,
            set,
            rows,
            inputs,
            outputs,
        },
    )
}

proptest! {
    #[test]
    fn a_signed_statement_is_read_as_it_was_written(subject in subjects(), second in -3600i64..=3600) {
        let statement =
            Statement { subject, signed_at_micros: statement().signed_at_micros + second * 1_000_000, ..statement() };
        let attestation = statement.sign(&worker(), &certificate());
        prop_assert_eq!(verifier().verify(&attestation, statement.signed_at_micros), Ok(statement));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(verifier().verify(&bytes, 0).is_err());
        if let Ok(certificate) = Certificate::decode(&bytes) {
            prop_assert_eq!(certificate.encode(), bytes);
        }
    }

    #[test]
    fn a_public_key_is_read_as_it_was_written(bytes: [u8; 32]) {
        let key = PublicKey(bytes);
        prop_assert_eq!(PublicKey::parse(&key.to_string()), Some(key));
    }
}
