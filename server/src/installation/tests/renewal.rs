//! Renewal of certificates while a worker is attached.

use tokio::time::timeout;

use super::*;

/// Longer than any pause of a renewal. The time of the runtime jumps, so that nothing waits.
const LONG: Duration = Duration::from_secs(3600);

async fn begin(fixture: &Fixture) -> Renewal {
    Renewal::begin(fixture.installation.clone(), WorkerId(1), worker_key().public(), None).await.unwrap()
}

fn decode(certificate: &Bytes) -> Claim {
    *Certificate::decode(certificate).unwrap().claim()
}

#[tokio::test(start_paused = true)]
async fn a_certificate_is_renewed_after_half_of_its_life() {
    let fixture = Fixture::new();
    let renewal = begin(&fixture).await;
    let mut certificates = renewal.certificates();
    let first = decode(&certificates.borrow_and_update());
    tokio::spawn(renewal.run());
    fixture.time.advance(Duration::from_secs(12 * 3600 - 60));
    assert!(timeout(LONG, certificates.changed()).await.is_err(), "it has more than half of its life");
    fixture.time.advance(Duration::from_secs(60));
    timeout(LONG, certificates.changed()).await.expect("in time").unwrap();
    let second = decode(&certificates.borrow_and_update());
    assert_eq!(second.not_after_micros - first.not_after_micros, 12 * 3600 * 1_000_000);
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_the_certificate_that_cannot_be_renewed() {
    let directory = tempfile::tempdir().unwrap();
    let (time, telemetry) = (ManualClock::at(NOW), Arc::new(Telemetry::new(10).unwrap()));
    let installation = installation(directory.path(), time.clock(), telemetry);
    let mut renewal = Renewal::begin(installation, WorkerId(1), worker_key().public(), None).await.unwrap();
    renewal.fail();
    let running = tokio::spawn(renewal.run());
    time.advance(Duration::from_secs(23 * 3600));
    tokio::time::sleep(LONG).await;
    assert!(!running.is_finished(), "the certificate is still valid");
    time.advance(Duration::from_secs(3600));
    let status = timeout(LONG, running).await.expect("in time").unwrap();
    assert_eq!(status.code(), tonic::Code::Unavailable, "{status}");
}

/// The certificate that a worker has at first when it attaches again with `latest`.
async fn again(fixture: &Fixture, worker: WorkerId, latest: &Bytes) -> Bytes {
    let latest = Certificate::decode(latest).ok();
    let renewal = Renewal::begin(fixture.installation.clone(), worker, worker_key().public(), latest).await.unwrap();
    renewal.certificates().borrow().clone()
}

#[tokio::test]
async fn a_worker_that_attaches_again_keeps_its_certificate_until_the_end_of_its_life() {
    let fixture = Fixture::new();
    let first = begin(&fixture).await.certificates().borrow().clone();
    // Past half of its life, the stream of the worker begins with it and renews it.
    for hours in [0, 11, 12] {
        fixture.time.advance(Duration::from_secs(hours * 3600));
        assert_eq!(again(&fixture, WorkerId(1), &first).await, first);
    }
    // A certificate of another worker, of another installation, or none at all, is of no use.
    assert_ne!(again(&fixture, WorkerId(2), &first).await, first);
    let stranger = InstallationKey::from_seed(&[8; 32]);
    let foreign = Claim { installation: stranger.public(), ..decode(&first) };
    let forged = Certificate::sign(&stranger, decode(&first)).encode();
    // So is one from before the configured life became shorter.
    let later = decode(&first).not_after_micros + 24 * 3600 * 1_000_000;
    let long = Claim { not_after_micros: later, ..decode(&first) };
    let long = Certificate::sign(&installation_key(), long).encode();
    for other in [Certificate::sign(&stranger, foreign).encode(), forged, long, vec![1; 168]] {
        let other = Bytes::from(other);
        assert_ne!(again(&fixture, WorkerId(1), &other).await, other);
    }
    fixture.time.advance(Duration::from_secs(3600 + 1));
    assert_ne!(again(&fixture, WorkerId(1), &first).await, first);
}

#[tokio::test]
async fn a_worker_with_a_valid_certificate_needs_no_signature() {
    let fixture = Fixture::new();
    let first = begin(&fixture).await.certificates().borrow().clone();
    // Another worker waits for a signature that takes long.
    let _turn = fixture.installation.turn.lock().await;
    assert_eq!(again(&fixture, WorkerId(1), &first).await, first);
}
