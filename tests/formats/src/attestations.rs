//! Attestations, certificates and anchors from arbitrary bytes.

use cloakwork_attestation::{
    Anchor, CERTIFICATE_LIFE_MAX_MICROS, CLOCK_SKEW_MICROS, Certificate, Claim, InstallationKey, Statement, Subject,
    Verifier, WorkerKey,
};

/// Verifies the bytes as an attestation, and as a certificate. Then signs a statement and a claim
/// with fields from the bytes: exactly those that belong together hold.
pub fn verify_attestation_input(bytes: &[u8]) {
    let (installation, worker) = (InstallationKey::from_seed(&[1; 32]), WorkerKey::from_seed(&[2; 32]));
    let verifier = Verifier::new(Anchor::new([installation.public()]).expect("one key"));
    if let Ok(certificate) = Certificate::decode(bytes) {
        assert_eq!(certificate.encode(), bytes, "a certificate has one encoding");
    }
    let mut fields = Fields(bytes);
    let now_micros = fields.time();
    // Only attestations of the corpus are signed by the keys of this function.
    if let Ok(statement) = verifier.verify(bytes, now_micros) {
        assert!(statement.signed_at_micros <= now_micros.saturating_add(CLOCK_SKEW_MICROS));
    }
    let subject = Subject {
        job: fields.take(),
        request: fields.take(),
        program: fields.take(),
        key: fields.take(),
        evaluation_key: fields.take(),
        set: u16::from_le_bytes(fields.take()),
        rows: u64::from_le_bytes(fields.take()),
        inputs: fields.take(),
        outputs: fields.take(),
    };
    let statement = Statement { worker: fields.take(), subject, signed_at_micros: fields.time() };
    let is_own = fields.take::<1>()[0] & 1 == 0;
    let claim = Claim {
        installation: installation.public(),
        key: worker.public(),
        worker: if is_own { statement.worker } else { fields.take() },
        not_before_micros: fields.time(),
        not_after_micros: fields.time(),
    };
    let certificate = Certificate::sign(&installation, claim);
    let life = claim.not_after_micros.saturating_sub(claim.not_before_micros);
    let holds = claim.worker == statement.worker
        && life <= CERTIFICATE_LIFE_MAX_MICROS + CLOCK_SKEW_MICROS
        && claim.holds_at(statement.signed_at_micros)
        && statement.signed_at_micros <= now_micros.saturating_add(CLOCK_SKEW_MICROS);
    let verified = verifier.verify(&statement.sign(&worker, &certificate), now_micros);
    assert_eq!(verified.ok(), holds.then_some(statement));
}

/// Reads the bytes as an anchor. An anchor is read as it was written.
pub fn read_anchor_input(bytes: &[u8]) {
    let Ok(anchor) = String::from_utf8_lossy(bytes).parse::<Anchor>() else { return };
    assert_eq!(anchor.to_string().parse(), Ok(anchor));
}

/// Bytes of an input, with zeros after its end.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_at(N.min(self.0.len()));
        let mut bytes = [0; N];
        bytes[..field.len()].copy_from_slice(field);
        self.0 = rest;
        bytes
    }

    fn time(&mut self) -> i64 {
        i64::from_le_bytes(self.take())
    }
}
