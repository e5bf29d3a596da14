//! Certificates and attestations of an installation whose key the tests know.

mod certifier;
mod key_files;
mod renewal;

use std::path::Path;

use bytes::Bytes;
use cloakwork_attestation::{InstallationKey, Statement, WorkerKey};
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

/// A certificate for all times.
pub(crate) fn certificate(worker: WorkerId) -> Certificate {
    let claim = Claim {
        installation: installation_key().public(),
        key: worker_key().public(),
        worker: worker.0.to_be_bytes(),
        not_before_micros: 0,
        not_after_micros: i64::MAX,
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
        let (time, telemetry) = (ManualClock::at(NOW), Arc::new(Telemetry::new().unwrap()));
        let installation = installation(directory.path(), time.clock(), telemetry.clone());
        Self { installation, time, telemetry, _directory: directory }
    }
}

#[tokio::test]
async fn a_worker_that_attaches_again_keeps_its_certificate_until_half_of_its_life() {
    let fixture = Fixture::new();
    let (worker, key) = (WorkerId(7), worker_key().public());
    let first = fixture.installation.certify(worker, key).await.unwrap();
    let claim = *first.claim();
    assert_eq!((claim.key, claim.worker), (key, 7_u128.to_be_bytes()));
    assert_eq!(claim.not_before_micros, NOW - CLOCK_SKEW_MICROS);
    assert_eq!(claim.not_after_micros, NOW + 24 * 3600 * 1_000_000);
    fixture.time.advance(Duration::from_secs(12 * 3600 - 1));
    assert_eq!(fixture.installation.certify(worker, key).await.unwrap(), first);
    fixture.time.advance(Duration::from_secs(1));
    let second = fixture.installation.certify(worker, key).await.unwrap();
    assert_eq!(second.claim().not_after_micros, claim.not_after_micros + 12 * 3600 * 1_000_000);
    // Another key, and the same key of another worker, have certificates of their own.
    assert_ne!(fixture.installation.certify(worker, PublicKey([9; 32])).await.unwrap(), second);
    assert_ne!(fixture.installation.certify(WorkerId(8), key).await.unwrap(), second);
    let scraped = fixture.telemetry.scrape().unwrap();
    assert!(scraped.contains("cloakwork_worker_certificates_total{result=\"issued\"} 4"), "{scraped}");
}

#[tokio::test]
async fn the_server_remembers_a_limited_number_of_certificates() {
    let fixture = Fixture::new();
    for number in 0..ISSUED_MAX as u128 + 5 {
        fixture.installation.certify(WorkerId(number), worker_key().public()).await.unwrap();
    }
    assert_eq!(fixture.installation.issued.lock().unwrap().len(), ISSUED_MAX);
    assert!(fixture.installation.issued(WorkerId(4), worker_key().public()).is_none());
    assert!(fixture.installation.issued(WorkerId(5), worker_key().public()).is_some());
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
