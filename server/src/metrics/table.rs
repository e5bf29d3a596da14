//! The table of metrics.

use opentelemetry::metrics::Meter;

use super::{Counter, Gauge, Histogram, Kind, Metric};

macro_rules! metrics {
    ($($field:ident: $kind:ident [$($label:literal),*] $name:literal $unit:literal $help:literal $(, $buckets:expr)?;)*) => {
        /// A handle for each row of the table.
        #[derive(Debug)]
        pub struct Metrics {
            $(#[doc = $help] pub $field: $kind<{ labels(&[$($label),*]) }>,)*
        }

        impl Metrics {
            pub(super) fn new(meter: &Meter) -> Self {
                let mut rows = METRICS.iter();
                // Fields and rows are expanded from the same list, so they are in the same order.
                $(let $field = $kind::new(meter, rows.next().expect("a row for each field"));)*
                Self { $($field),* }
            }
        }

        /// Every metric, in the order of the documentation.
        pub const METRICS: &[Metric] = &[$(
            Metric {
                name: concat!("cloakwork_", $name),
                kind: Kind::$kind,
                unit: $unit,
                help: $help,
                labels: &[$($label),*],
                buckets: metrics!(@buckets $($buckets)?),
            },
        )*];
    };
    (@buckets) => { &[] };
    (@buckets $buckets:expr) => { $buckets };
}

const fn labels(labels: &[&str]) -> usize {
    labels.len()
}

/// Bucket bounds from a single bootstrap to a long job.
const JOB_SECONDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0];

/// Bucket bounds from a lookup in memory to a slow call.
const CALL_SECONDS: &[f64] = &[
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0,
];

const WIDTHS: &[f64] =
    &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 16_384.0, 65_536.0];

const RATIOS: &[f64] = &[0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0];

const COUNTS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0];

metrics! {
    // Jobs.
    jobs_submitted: Counter ["parameter_set"] "jobs_submitted_total" "jobs"
        "Accepted jobs. A repeated request counts once";
    jobs_ended: Counter ["state", "reason"] "jobs_ended_total" "jobs"
        "Ended jobs, by state (succeeded, failed, cancelled) and reason (empty for success)";
    jobs_queued: Gauge [] "jobs_queued" "jobs" "Jobs that wait for a worker";
    jobs_running: Gauge [] "jobs_running" "jobs" "Jobs that are assigned to a worker";
    pool_backlog: Gauge ["pool"] "pool_backlog_worker_seconds" "seconds"
        "Time that one worker of a declared pool would take for all waiting jobs of the pool's sets and for the jobs that its workers hold, by pool";
    oldest_queued: Gauge [] "job_oldest_queued_seconds" "seconds" "Time for which the oldest waiting job has waited";
    job_queue: Histogram [] "job_queue_seconds" "seconds" "Time of a job from acceptance to the lease that succeeded", JOB_SECONDS;
    job_run: Histogram [] "job_run_seconds" "seconds" "Time of a job from the lease that succeeded to its end", JOB_SECONDS;
    job_wall: Histogram [] "job_seconds" "seconds" "Time of a job from acceptance to its end", JOB_SECONDS;
    job_stage: Histogram ["stage"] "job_stage_seconds" "seconds"
        "Time of a job in each stage of its latency record", JOB_SECONDS;
    job_attempts: Histogram [] "job_attempts" "attempts" "Number of times that a job was assigned to a worker before it ended", COUNTS;

    // Bootstraps and the waves in which they run.
    pbs: Counter ["parameter_set"] "pbs_total" "bootstraps" "Bootstraps of succeeded jobs";
    waves: Counter ["cut"] "job_waves_total" "waves"
        "Waves (batches of bootstraps) by the reason for which they were cut off, as jobs report them. A wave counts once for each of its jobs";
    wave_width: Histogram [] "wave_width" "bootstraps" "Bootstraps in a wave, as jobs report them", WIDTHS;
    wave_fill: Histogram [] "wave_fill_ratio" "ratio" "Mean fill of a job's waves, as a share of the preferred width", RATIOS;

    // Keys.
    keys_resident: Gauge [] "keys_resident" "keys" "Expanded keys in the memory of workers";
    key_resident_bytes: Gauge [] "key_resident_bytes" "bytes" "Memory of the expanded keys on workers";
    key_cache: Counter ["result"] "key_cache_jobs_total" "jobs"
        "Succeeded jobs by whether their key was expanded on the worker already (hit) or the job had to wait for it (miss)";

    // Uploads and downloads.
    uploads_active: Gauge [] "uploads_active" "uploads" "Uploads that receive data at present";
    upload_bytes: Counter [] "upload_bytes_total" "bytes" "Bytes received in uploads";
    uploads_resumed: Counter [] "uploads_resumed_total" "uploads" "Uploads that were resumed at an offset above 0";
    upload_time: Histogram [] "upload_seconds" "seconds" "Time of an upload from its beginning to its commit", JOB_SECONDS;
    digest_mismatches: Counter [] "upload_digest_mismatches_total" "uploads" "Uploads whose bytes did not match the announced digest";
    download_bytes: Counter [] "download_bytes_total" "bytes" "Bytes sent to tenants and workers in downloads";
    blob_urls: Counter [] "blob_urls_total" "reads" "Blobs whose bytes workers read from the store itself, by a URL";

    // Workers.
    workers: Gauge ["state"] "workers" "workers" "Attached workers, by state (ready, draining)";
    worker_disconnects: Counter ["reason"] "worker_disconnects_total" "workers"
        "Workers that disconnected, by reason (left, lost, moved, quarantined)";
    leases_expired: Counter ["clock"] "leases_expired_total" "leases"
        "Jobs taken from a worker, by the timeout that expired (connection, lease, progress)";
    certificates: Counter ["result"] "worker_certificates_total" "certificates"
        "Requests for a certificate of a worker's key, by result (issued, failed)";
    attestations_refused: Counter ["reason"] "attestations_refused_total" "results"
        "Results that were refused because the worker's attestation does not hold, by reason. docs/errors explains each reason";
    false_alarms: Counter [] "worker_false_alarms_total" "results"
        "Reports of a damaged key part whose stored bytes are intact. The worker that reported it is at fault";
    stale_results: Counter [] "stale_results_total" "results" "Results that arrived after their lease was lost, and were discarded";

    // Second computations of rows.
    rows_verified: Counter [] "verified_rows_total" "rows" "Rows that another worker computed a second time, with the same bits";
    rows_unverified: Counter ["reason"] "unverified_rows_total" "rows"
        "Rows that were chosen for a second computation and not compared, by reason (no_worker, not_reproducible, crowded, too_large, failed, lost, late, wrong)";
    verify_mismatches: Counter [] "verify_mismatches_total" "checks"
        "Checks in which two workers computed different bits for the same rows. One of the two workers is wrong";
    workers_quarantined: Counter [] "workers_quarantined_total" "workers"
        "Workers that were quarantined, because their results were found wrong";

    // The server itself.
    grpc_calls: Counter ["method", "code"] "grpc_calls_total" "calls" "Ended calls, by method and gRPC status code";
    grpc_time: Histogram ["method"] "grpc_call_seconds" "seconds" "Time of a call from its arrival to its last byte", CALL_SECONDS;
    rejected: Counter ["reason"] "rejected_total" "calls" "Calls that ended with an error, by reason. docs/errors explains each reason";
    owner: Gauge [] "owner" "1" "1 while this server owns a shard of the database, 0 while it waits for another server to end";
    fenced: Counter [] "fenced_total" "batches"
        "Batches of changes that the database refused, because another server owns it or because it lost earlier batches";
    clock_difference: Gauge [] "clock_difference_seconds" "seconds"
        "Seconds by which the clock of this server's machine differs from the clock of the database. The server goes by the clock of the database";
    forwarded: Counter ["outcome"] "forwarded_total" "calls"
        "Calls of clients that this server passed on to the owner of a shard, by outcome (answered, failed)";
    forward_repeats: Counter [] "forward_repeats_total" "calls"
        "Repetitions of calls that this server passed on, because the owner stopped or failed before its answer";
    db_time: Histogram ["op"] "db_seconds" "seconds" "Time of database operations, including the wait for the writer", CALL_SECONDS;
    log_suppressed: Counter ["target"] "log_suppressed_total" "events"
        "Log events of this process that were suppressed because many of one kind occurred within a minute, by the crate that logged them";
    build_info: Gauge ["version"] "build_info" "1" "Always 1. The label is the version of the server";
}
