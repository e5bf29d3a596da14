//! Refusals: of changed bytes, of other keys, of other times and of other results.

use cloakwork_attestation::{
    Anchor, AttestationError, CERTIFICATE_LIFE_MAX_MICROS, CLOCK_SKEW_MICROS, Certificate, Claim, InstallationKey,
    PublicKey, Statement, Subject, Verifier, WorkerKey,
};

use crate::common::{HOUR, SIGNED_AT, certificate, claim, installation, statement, subject, verifier, worker};

fn verify(attestation: &[u8]) -> Result<Statement, AttestationError> {
    verifier().verify(attestation, SIGNED_AT)
}

#[test]
fn a_change_of_any_bit_is_refused() {
    let attestation = statement().sign(&worker(), &certificate());
    assert_eq!(verify(&attestation), Ok(statement()));
    for place in 0..attestation.len() {
        for bit in 0..8 {
            let mut changed = attestation.clone();
            changed[place] ^= 1 << bit;
            assert!(verify(&changed).is_err(), "bit {bit} of byte {place}");
        }
    }
}

#[test]
fn a_change_of_any_bit_is_refused_after_the_certificate_was_remembered() {
    let (verifier, attestation) = (verifier(), statement().sign(&worker(), &certificate()));
    assert!(verifier.verify(&attestation, SIGNED_AT).is_ok());
    for place in 0..attestation.len() {
        let mut changed = attestation.clone();
        changed[place] ^= 1;
        assert!(verifier.verify(&changed, SIGNED_AT).is_err(), "byte {place}");
    }
}

#[test]
fn another_length_is_refused() {
    let attestation = statement().sign(&worker(), &certificate());
    let longer = [&attestation[..], &[0]].concat();
    for bytes in [&attestation[..449], &attestation[1..], &longer, &[]] {
        assert_eq!(verify(bytes), Err(AttestationError::Malformed { what: "the length" }));
    }
}

#[test]
fn a_key_without_a_certificate_of_the_installation_signs_nothing() {
    let other = InstallationKey::from_seed(&[11; 32]);
    let of_other = Certificate::sign(&other, Claim { installation: other.public(), ..claim() });
    let refused = AttestationError::OtherInstallation { installation: other.public() };
    assert_eq!(verify(&statement().sign(&worker(), &of_other)), Err(refused));
    // The other installation claims to be this one.
    let forged = Certificate::sign(&other, claim());
    let refused = AttestationError::Signature { what: "the certificate" };
    assert_eq!(verify(&statement().sign(&worker(), &forged)), Err(refused));
    // A worker without a certificate uses that of another.
    let thief = WorkerKey::from_seed(&[12; 32]);
    let refused = AttestationError::Signature { what: "the statement" };
    assert_eq!(verify(&statement().sign(&thief, &certificate())), Err(refused));
}

#[test]
fn a_certificate_that_names_a_key_of_small_order_signs_nothing() {
    // Under the identity as public key, one signature fits every message in the lax form of
    // Ed25519: the identity and the number 0.
    let mut identity = [0; 32];
    identity[0] = 1;
    let signature = [&identity[..], &[0; 32]].concat();
    let weak = Certificate::sign(&installation(), Claim { key: PublicKey(identity), ..claim() });
    let mut attestation = statement().sign(&worker(), &weak);
    attestation[218..282].copy_from_slice(&signature);
    assert_eq!(verify(&attestation), Err(AttestationError::Signature { what: "the statement" }));
}

#[test]
fn a_worker_cannot_use_the_certificate_of_its_key_under_another_name() {
    let renamed = Certificate::sign(&installation(), Claim { worker: [13; 16], ..claim() });
    let refused = AttestationError::Mismatch { field: "worker" };
    assert_eq!(verify(&statement().sign(&worker(), &renamed)), Err(refused));
}

#[test]
fn a_certificate_holds_from_its_first_to_its_last_microsecond() {
    let at = |signed_at_micros| {
        let statement = Statement { signed_at_micros, ..statement() };
        verifier().verify(&statement.sign(&worker(), &certificate()), SIGNED_AT + HOUR + 1).map(drop)
    };
    let refused = Err(AttestationError::Expired { problem: "was not valid when the statement was signed" });
    assert_eq!([at(SIGNED_AT - HOUR), at(SIGNED_AT + HOUR)], [Ok(()), Ok(())]);
    assert_eq!([at(SIGNED_AT - HOUR - 1), at(SIGNED_AT + HOUR + 1)], [refused.clone(), refused]);
}

#[test]
fn a_certificate_of_more_than_a_year_is_refused() {
    let of_life = |life: i64| {
        let claim = Claim { not_before_micros: SIGNED_AT, not_after_micros: SIGNED_AT.saturating_add(life), ..claim() };
        verify(&statement().sign(&worker(), &Certificate::sign(&installation(), claim))).map(drop)
    };
    let most = CERTIFICATE_LIFE_MAX_MICROS + CLOCK_SKEW_MICROS;
    let refused = Err(AttestationError::Expired { problem: "is valid for longer than a certificate may be" });
    assert_eq!([of_life(most), of_life(most + 1), of_life(i64::MAX)], [Ok(()), refused.clone(), refused]);
}

#[test]
fn only_the_holder_of_a_key_proves_its_possession() {
    let (key, proof) = (worker().public(), worker().proof_of_possession());
    assert!(key.is_proved_by(&proof));
    let other = WorkerKey::from_seed(&[15; 32]);
    assert!(!key.is_proved_by(&other.proof_of_possession()) && !other.public().is_proved_by(&proof));
    for bit in 0..8 * proof.len() {
        let mut changed = proof;
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(!key.is_proved_by(&changed), "bit {bit}");
    }
    for length in [0, 63] {
        assert!(!key.is_proved_by(&proof[..length]));
    }
    assert!(!key.is_proved_by(&[&proof[..], &[0]].concat()));
    // A key of small order would verify signatures of nobody.
    assert!(!PublicKey([0; 32]).is_proved_by(&[0; 64]));
    assert_ne!(key.worker_id(), other.public().worker_id());
}

#[test]
fn results_stay_good_after_their_certificate_has_ended() {
    let attestation = statement().sign(&worker(), &certificate());
    assert_eq!(verifier().verify(&attestation, SIGNED_AT + 10_000 * HOUR), Ok(statement()));
}

#[test]
fn a_statement_of_a_time_to_come_is_refused() {
    let attestation = statement().sign(&worker(), &certificate());
    let at = |now| verifier().verify(&attestation, now).map(drop);
    let refused = Err(AttestationError::Expired { problem: "signs a statement of a time to come" });
    assert_eq!(at(SIGNED_AT - CLOCK_SKEW_MICROS), Ok(()));
    assert_eq!(at(SIGNED_AT - CLOCK_SKEW_MICROS - 1), refused);
    assert_eq!([at(i64::MIN), at(i64::MAX)], [refused, Ok(())]);
}

#[test]
fn an_anchor_of_two_keys_takes_the_results_of_both() {
    let next = InstallationKey::from_seed(&[14; 32]);
    let of_next = Certificate::sign(&next, Claim { installation: next.public(), ..claim() });
    let anchor = Anchor::new([installation().public(), next.public()]).expect("an anchor");
    let verifier = Verifier::new(anchor);
    for certificate in [certificate(), of_next] {
        assert!(verifier.verify(&statement().sign(&worker(), &certificate), SIGNED_AT).is_ok());
    }
}

#[test]
fn a_statement_about_another_result_names_the_field_that_differs() {
    assert_eq!(subject().check(&subject()), Ok(()));
    let other = subject();
    for (field, other) in [
        ("request", Subject { request: [0; 16], ..other }),
        ("job", Subject { job: [0; 16], ..other }),
        ("program", Subject { program: [0; 32], ..other }),
        ("key", Subject { key: [0; 16], ..other }),
        ("evaluation key", Subject { evaluation_key: [0; 32], ..other }),
        ("parameter set", Subject { set: 0, ..other }),
        ("number of rows", Subject { rows: 0, ..other }),
        ("inputs", Subject { inputs: [0; 32], ..other }),
        ("outputs", Subject { outputs: [0; 32], ..other }),
    ] {
        assert_eq!(subject().check(&other), Err(AttestationError::Mismatch { field }));
    }
}

#[test]
fn more_certificates_than_a_verifier_remembers_stay_good() {
    let verifier = verifier();
    for number in 0..600u32 {
        let claim = Claim { not_after_micros: SIGNED_AT + HOUR + i64::from(number), ..claim() };
        let attestation = statement().sign(&worker(), &Certificate::sign(&installation(), claim));
        assert!(verifier.verify(&attestation, SIGNED_AT).is_ok());
    }
}

#[test]
fn a_signature_of_another_program_must_fit_its_claim() {
    let signature = certificate().encode()[Claim::BYTES..].try_into().expect("64 bytes");
    assert_eq!(Certificate::signed(claim(), signature), Ok(certificate()));
    let refused = Err(AttestationError::Signature { what: "the certificate" });
    assert_eq!(Certificate::signed(Claim { worker: [0; 16], ..claim() }, signature), refused);
}

#[test]
fn secrets_are_not_printed() {
    let (installation, worker) = (format!("{:?}", installation()), format!("{:?}", worker()));
    assert!(!installation.contains(&"01".repeat(8)) && !installation.contains("1, 1"), "{installation}");
    assert!(!worker.contains(&"02".repeat(8)) && !worker.contains("2, 2"), "{worker}");
}
