//! Renewal of certificates while a worker is attached.

use tokio::time::timeout;

use super::*;

/// Longer than any pause of a renewal. The time of the runtime jumps, so that nothing waits.
const LONG: Duration = Duration::from_secs(3600);

async fn begin(fixture: &Fixture) -> Renewal {
    Renewal::begin(fixture.installation.clone(), WorkerId(1), worker_key().public()).await.unwrap()
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
    let (time, telemetry) = (ManualClock::at(NOW), Arc::new(Telemetry::new().unwrap()));
    let installation = installation(directory.path(), time.clock(), telemetry);
    let mut renewal = Renewal::begin(installation, WorkerId(1), worker_key().public()).await.unwrap();
    renewal.fail();
    let running = tokio::spawn(renewal.run());
    time.advance(Duration::from_secs(23 * 3600));
    tokio::time::sleep(LONG).await;
    assert!(!running.is_finished(), "the certificate is still valid");
    time.advance(Duration::from_secs(3600));
    let status = timeout(LONG, running).await.expect("in time").unwrap();
    assert_eq!(status.code(), tonic::Code::Unavailable, "{status}");
}
