//! The time of signing and verifying a result.

use std::time::Instant;

use cloakwork_attestation::{
    Anchor, CERTIFICATE_LIFE_MAX_MICROS, Certificate, Claim, InstallationKey, Statement, Subject, Verifier, WorkerKey,
    digest_of_list,
};

use crate::report::{Bound, Report, Row};

/// Results in a round.
const RESULTS: u32 = 2000;

/// Times a worker that signs results, and a server and a client that verify them.
pub(crate) fn measure(rounds: usize, report: &mut Report) {
    let installation = InstallationKey::generate().expect("randomness");
    let worker = WorkerKey::generate().expect("randomness");
    let claim = Claim {
        installation: installation.public(),
        key: worker.public(),
        worker: [1; 16],
        not_before_micros: 0,
        not_after_micros: CERTIFICATE_LIFE_MAX_MICROS,
    };
    let certificate = Certificate::sign(&installation, claim);
    let verifier = || Verifier::new(Anchor::new([installation.public()]).expect("an anchor"));
    let [mut signing, mut verifying, mut first, mut whole] = [const { Vec::new() }; 4];
    for _ in 0..rounds {
        let mut attestations = Vec::new();
        let signed = micros(|number| attestations.push(statement(number).sign(&worker, &certificate)));
        let known = verifier();
        let verify = |verifier: &Verifier, number: u32| {
            let verified = verifier.verify(&attestations[number as usize], i64::MAX).expect("a valid attestation");
            assert_eq!(verified.subject.check(&statement(number).subject), Ok(()));
        };
        let verified = micros(|number| verify(&known, number));
        let new = micros(|number| verify(&verifier(), number));
        signing.push(signed);
        verifying.push(verified);
        first.push(new);
        // The worker signs, and server and client verify.
        whole.push(signed + 2.0 * verified);
    }
    report.add(Row::of("signing a result", "us", &signing));
    report.add(Row::of("verifying a result", "us", &verifying));
    report.add(Row::of("verifying a result, with a certificate that is new", "us", &first));
    let whole = Row::of("a job's signature, and its verification by server and client", "us", &whole);
    report.add(whole.required(Bound::Most(200.0)));
}

/// The mean time of some work, in microseconds.
fn micros(mut work: impl FnMut(u32)) -> f64 {
    let begun = Instant::now();
    (0..RESULTS).for_each(&mut work);
    begun.elapsed().as_secs_f64() * 1e6 / f64::from(RESULTS)
}

/// A statement about a result of one input and one output.
fn statement(number: u32) -> Statement {
    let digest = *blake3::hash(&number.to_le_bytes()).as_bytes();
    let subject = Subject {
        job: [2; 16],
        request: [3; 16],
        program: digest,
        key: [4; 16],
        evaluation_key: digest_of_list([&digest, &digest]),
        set: 5,
        rows: 6,
        inputs: digest_of_list([&digest]),
        outputs: digest_of_list([&digest]),
    };
    Statement { worker: [1; 16], subject, signed_at_micros: i64::from(number) }
}
