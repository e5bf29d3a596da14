//! A service in use records every metric that it declares.

use std::time::Duration;

use bytes::Bytes;
use cloakwork_client::Input;
use cloakwork_proto::v1::{BeginUploadRequest, Digest, WriteRequest, blob_service_client::BlobServiceClient};
use cloakwork_server::metrics::METRICS;
use cloakwork_telemetry::never_recorded;
use cloakwork_tests_service::{Server, Setup, Tenant, VALUES, Worker, eventually};
use tonic::transport::Channel;

/// Metrics of faults that this test does not cause, and of second computations, which are off.
const FAULTS: &[&str] = &[
    "cloakwork_attestations_refused_total",
    "cloakwork_log_suppressed_total",
    "cloakwork_stale_results_total",
    "cloakwork_worker_false_alarms_total",
    "cloakwork_verified_rows_total",
    "cloakwork_unverified_rows_total",
    "cloakwork_verify_mismatches_total",
    "cloakwork_workers_quarantined_total",
    "cloakwork_blob_store_errors_total",
    "cloakwork_db_errors_total",
];

/// Metrics of parts that the server of this test does not have: PostgreSQL, TLS and a collector.
const OTHER_PARTS: &[&str] = &[
    "cloakwork_database_standbys",
    "cloakwork_database_standby_lag_bytes",
    "cloakwork_certificate_valid_seconds",
    "cloakwork_spans_exported_total",
    "cloakwork_spans_dropped_total",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_service_in_use_records_every_declared_metric() {
    let server = Server::start(Setup::default().without_worker().with("pools.cpu.bootstraps_per_second", 300)).await;
    let token = server.token("workers", "worker");
    let tenant = Tenant::new(server.client().await).await;
    // The first worker dies with a job, and the second completes the job.
    let mut first = Worker::start(&server, "first", &token);
    let values: Vec<u64> = (0..30_000).map(|row| row % VALUES).collect();
    let list = tenant.keys.encrypt(&values, VALUES as u32 - 1).expect("values");
    let stored = tenant.client.store(&list).await.expect("stored");
    let request = cloakwork_client::JobRequest::new(tenant.lookup(|x| x), &tenant.key).input(Input::Name(stored));
    let job = tenant.client.submit(&request).await.expect("accepted");
    eventually("the job runs", || async { tenant.client.job(&job.name).await.expect("a job").attempts > 0 }).await;
    first.process().kill();
    let mut second = Worker::start(&server, "second", &token);
    let ended = tenant.client.wait(&job.name).await.expect("an end");
    let finished = tenant.client.finish(ended, Duration::ZERO, &request).await.expect("a signed result");
    tenant.client.output(&finished.output(0).expect("an output")).await.expect("its bytes");
    tenant.check_squares(&[1, 2, 3]).await;
    broken_uploads(&server, &tenant).await;
    // A refusal, and a worker that shuts down in good order.
    tenant.client.job("tenants/local/jobs/none").await.expect_err("no such name");
    assert!(second.process().terminate(std::time::Duration::from_secs(20)), "{}", second.process().log());
    eventually("every declared metric is recorded", || async {
        let missing = never_recorded(METRICS, &server.metrics().await);
        let missing: Vec<_> =
            missing.into_iter().filter(|name| ![FAULTS, OTHER_PARTS].concat().contains(name)).collect();
        eprintln!("not recorded: {missing:?}");
        missing.is_empty()
    })
    .await;
}

/// Resumes an upload after a break, and makes an upload whose bytes differ from their announced
/// digest.
async fn broken_uploads(server: &Server, tenant: &Tenant) {
    let channel = Channel::from_shared(server.url()).expect("a URL").connect().await.expect("the server answers");
    let mut blobs = BlobServiceClient::new(channel);
    let values: Vec<u64> = (0..1000).map(|row| row % VALUES).collect();
    let list = tenant.keys.encrypt(&values, VALUES as u32 - 1).expect("values").envelope;
    let digest = Digest { blake3: list.digest_bytes(), size_bytes: list.len() as u64 };
    let begin = |number: u32| BeginUploadRequest {
        request_id: format!("7b0c9a52-0a4f-4e3b-9f5e-{number:012x}"),
        digest: Some(digest.clone()),
    };
    let upload = blobs.begin_upload(begin(1)).await.expect("an upload").into_inner().upload.expect("an upload");
    let write = |offset: usize, data: Bytes, finish| WriteRequest {
        upload: upload.name.clone(),
        offset_bytes: offset as u64,
        data,
        finish,
    };
    let half = list.len() / 2;
    blobs.write(tokio_stream::iter([write(0, list.slice(..half), false)])).await.expect("the first half");
    let again = blobs.begin_upload(begin(2)).await.expect("an upload").into_inner().upload.expect("an upload");
    assert_eq!(again.committed_bytes, half as u64);
    let mut wrong = list.slice(half..).to_vec();
    let middle = wrong.len() / 2;
    wrong[middle] ^= 1;
    let answer = blobs.write(tokio_stream::iter([write(half, wrong.into(), true)])).await;
    answer.expect_err("the bytes differ from the announced digest");
}

/// Bytes whose name is their hash.
trait Named {
    fn digest_bytes(&self) -> Bytes;
}

impl Named for Bytes {
    fn digest_bytes(&self) -> Bytes {
        Bytes::copy_from_slice(&cloakwork_client::Digest::of(self).blake3)
    }
}
