//! An installation, a worker and a statement that all tests share.

use cloakwork_attestation::{
    Anchor, Certificate, Claim, InstallationKey, Statement, Subject, Verifier, WorkerKey, digest_of_list,
};

/// When the statement was signed.
pub(crate) const SIGNED_AT: i64 = 1_790_000_000_000_000;
pub(crate) const HOUR: i64 = 3600 * 1_000_000;

pub(crate) fn installation() -> InstallationKey {
    InstallationKey::from_seed(&[1; 32])
}

pub(crate) fn worker() -> WorkerKey {
    WorkerKey::from_seed(&[2; 32])
}

pub(crate) fn claim() -> Claim {
    Claim {
        installation: installation().public(),
        key: worker().public(),
        worker: [3; 16],
        not_before_micros: SIGNED_AT - HOUR,
        not_after_micros: SIGNED_AT + HOUR,
    }
}

pub(crate) fn certificate() -> Certificate {
    Certificate::sign(&installation(), claim())
}

pub(crate) fn subject() -> Subject {
    Subject {
        job: [4; 16],
        request: [5; 16],
        program: [6; 32],
        key: [7; 16],
        evaluation_key: digest_of_list([&[11; 32], &[12; 32]]),
        set: 0x0102,
        rows: 3,
        inputs: digest_of_list([&[8; 32], &[9; 32]]),
        outputs: digest_of_list([&[10; 32]]),
    }
}

pub(crate) fn statement() -> Statement {
    Statement { worker: [3; 16], subject: subject(), signed_at_micros: SIGNED_AT }
}

pub(crate) fn verifier() -> Verifier {
    Verifier::new(Anchor::new([installation().public()]).expect("an anchor"))
}
