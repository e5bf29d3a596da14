//! Certificates and attestations of an installation whose key the tests know.

mod certifier;
mod key_files;
mod renewal;

use std::path::Path;

use bytes::Bytes;
use cloakwork_attestation::{CERTIFICATE_LIFE_MAX_MICROS, InstallationKey, Statement, WorkerKey};
use cloakwork_clock::ManualClock;
use cloakwork_proto::v1;

use super::*;

/// A clock's time in these tests.
pub(super) const NOW: i64 = 1_790_000_000_000_000;

/// The installation of a data directory, which gets the key that the tests know.
pub(crate) fn installation(data: &Path, clock: Clock, telemetry: Arc<Telemetry>) -> Arc<Installation> {
    let directory = data.join(DIRECTORY);
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("key"), format!("ed25519-seed:{}\n", "01".repeat(32))).unwrap();
    let mut config = Config::default();
    config.storage.directory = data.to_owned();
    Arc::new(Installation::open(&config, clock, telemetry).unwrap())
}

pub(crate) fn installation_key() -> InstallationKey {
    InstallationKey::from_seed(&[1; 32])
}

/// The key of every worker in tests.
pub(crate) fn worker_key() -> WorkerKey {
    WorkerKey::from_seed(&[2; 32])
}

/// A certificate for a year from the beginning of Unix time, when the workers of tests sign.
pub(crate) fn certificate(worker: WorkerId) -> Certificate {
    let claim = Claim {
        installation: installation_key().public(),
        key: worker_key().public(),
        worker: worker.0.to_be_bytes(),
        not_before_micros: 0,
        not_after_micros: CERTIFICATE_LIFE_MAX_MICROS,
    };
    Certificate::sign(&installation_key(), claim)
}

/// A worker's attestation of outputs with these digests, after `change`.
pub(crate) fn attest(
    worker: WorkerId,
    leased: &Leased,
    digests: &[v1::Digest],
    change: impl FnOnce(&mut Statement),
) -> Bytes {
    let digests: Vec<Digest> = digests.iter().filter_map(|it| crate::digest::parse(Some(it), "digest").ok()).collect();
    let subject = subject(leased, &digests);
    let mut statement = Statement { worker: worker.0.to_be_bytes(), subject, signed_at_micros: 0 };
    change(&mut statement);
    statement.sign(&worker_key(), &certificate(worker)).into()
}

/// An installation in a directory of its own.
pub(super) struct Fixture {
    pub(super) installation: Arc<Installation>,
    pub(super) time: ManualClock,
    pub(super) telemetry: Arc<Telemetry>,
    _directory: tempfile::TempDir,
}

impl Fixture {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (time, telemetry) = (ManualClock::at(NOW), Arc::new(Telemetry::new(10).unwrap()));
        let installation = installation(directory.path(), time.clock(), telemetry.clone());
        Self { installation, time, telemetry, _directory: directory }
    }
}

#[tokio::test]
async fn a_certificate_holds_for_the_time_that_is_configured() {
    let fixture = Fixture::new();
    let (worker, key) = (WorkerId(7), worker_key().public());
    let claim = *fixture.installation.certify(worker, key).await.unwrap().claim();
    assert_eq!((claim.key, claim.worker), (key, 7_u128.to_be_bytes()));
    assert_eq!(claim.not_before_micros, NOW - CLOCK_SKEW_MICROS);
    assert_eq!(claim.not_after_micros, NOW + 24 * 3600 * 1_000_000);
    let scraped = fixture.telemetry.scrape(cloakwork_telemetry::Format::Prometheus);
    assert!(scraped.contains("cloakwork_worker_certificates_total{result=\"issued\"} 1"), "{scraped}");
}

#[test]
fn each_attestation_error_has_the_reason_of_its_code() {
    for error in [
        AttestationError::Malformed { what: "x" },
        AttestationError::Signature { what: "x" },
        AttestationError::OtherInstallation { installation: PublicKey([0; 32]) },
        AttestationError::Expired { problem: "x" },
        AttestationError::Mismatch { field: "x" },
    ] {
        assert_eq!(refusal(error.clone()).reason().code, error.reason());
    }
}
