//! The table of metrics.

use cloakwork_telemetry::{CALL_SECONDS, COUNTS, JOB_SECONDS, RATIOS, WIDTHS, metrics};

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
    job_queue: Histogram ["parameter_set", "pool"] "job_queue_seconds" "seconds"
        "Time of a job from acceptance to the lease that succeeded, by the pool of the last worker (none for a job that no worker got)", JOB_SECONDS;
    job_run: Histogram ["parameter_set", "pool"] "job_run_seconds" "seconds"
        "Time of a job from the lease that succeeded to its end, by the pool of the last worker", JOB_SECONDS;
    job_wall: Histogram ["operation", "parameter_set"] "job_seconds" "seconds"
        "Time of a job from acceptance to its end, by operation: the kind of the program's operations without constants and casts (SEVERAL for different kinds, NONE for no operation)", JOB_SECONDS;
    job_stage: Histogram ["stage"] "job_stage_seconds" "seconds"
        "Time of a job in each stage of its latency record", JOB_SECONDS;
    job_attempts: Histogram [] "job_attempts" "attempts" "Number of times that a job was assigned to a worker before it ended", COUNTS;

    // Bootstraps and the waves in which they run.
    pbs: Counter ["parameter_set", "pool"] "pbs_total" "bootstraps" "Bootstraps of succeeded jobs";
    waves: Counter ["cut"] "job_waves_total" "waves"
        "Waves (batches of bootstraps) by the reason for which they were cut off, as jobs report them. A wave counts once for each of its jobs";
    wave_width: Histogram [] "wave_width" "bootstraps" "Bootstraps in a wave, as jobs report them", WIDTHS;
    wave_fill: Histogram [] "wave_fill_ratio" "ratio" "Mean fill of a job's waves, as a share of the preferred width", RATIOS;

    // Tenants.
    tenant_jobs: Counter ["tenant", "state"] "tenant_jobs_ended_total" "jobs" "Ended jobs, by tenant and state";
    tenant_pbs: Counter ["tenant"] "tenant_pbs_total" "bootstraps" "Bootstraps of succeeded jobs, by tenant";
    tenant_wall: Histogram ["tenant"] "tenant_job_seconds" "seconds" "Time of a job from acceptance to its end, by tenant", JOB_SECONDS;

    // Keys.
    keys_resident: Gauge ["pool"] "keys_resident" "keys" "Expanded keys in the memory of workers";
    key_resident_bytes: Gauge ["pool"] "key_resident_bytes" "bytes" "Memory of the expanded keys on workers";
    key_cache: Counter ["result"] "key_cache_jobs_total" "jobs"
        "Succeeded jobs by whether their key was expanded on the worker already (hit) or the job had to wait for it (miss)";

    // Uploads and downloads.
    uploads_active: Gauge [] "uploads_active" "uploads" "Uploads that receive data at present";
    upload_bytes: Counter [] "upload_bytes_total" "bytes" "Bytes received in uploads";
    uploads_resumed: Counter [] "uploads_resumed_total" "uploads" "Uploads that were resumed at an offset above 0";
    upload_time: Histogram [] "upload_seconds" "seconds" "Time of an upload from its beginning to its commit", JOB_SECONDS;
    digest_mismatches: Counter [] "upload_digest_mismatches_total" "uploads" "Uploads whose bytes did not match the announced digest";
    uploads_failed: Counter ["reason"] "uploads_failed_total" "uploads"
        "Uploads that the server ended with an error, by reason. docs/errors explains each reason";
    download_bytes: Counter [] "download_bytes_total" "bytes" "Bytes sent to tenants and workers in downloads";
    blob_urls: Counter [] "blob_urls_total" "reads" "Blobs whose bytes workers read from the store itself, by a URL";

    blob_store_time: Histogram ["op"] "blob_store_seconds" "seconds"
        "Time of operations on the store of blobs, by operation (commit, read, remove). A read counts until its first bytes", CALL_SECONDS;
    blob_store_errors: Counter ["op"] "blob_store_errors_total" "errors" "Operations on the store of blobs that failed";

    // Workers.
    workers: Gauge ["pool", "state"] "workers" "workers" "Attached workers, by pool and state (ready, draining)";
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
    shards_without_owner: Gauge [] "shards_without_owner" "shards"
        "Shards of the database that no server owns, as this server last saw them";
    fenced: Counter [] "fenced_total" "batches"
        "Batches of changes that the database refused, because another server owns it or because it lost earlier batches";
    clock_difference: Gauge [] "clock_difference_seconds" "seconds"
        "Seconds by which the clock of this server's machine differs from the clock of the database. The server goes by the clock of the database";
    forwarded: Counter ["outcome"] "forwarded_total" "calls"
        "Calls of clients that this server passed on to the owner of a shard, by outcome (answered, failed)";
    forward_repeats: Counter [] "forward_repeats_total" "calls"
        "Repetitions of calls that this server passed on, because the owner stopped or failed before its answer";
    db_time: Histogram ["op"] "db_seconds" "seconds" "Time of database operations, including the wait for the writer", CALL_SECONDS;
    db_errors: Counter ["kind"] "db_errors_total" "errors"
        "Errors of the database, by kind (full, busy, locked, closed, failed, damaged, fenced)";
    standbys: Gauge ["kind"] "database_standbys" "standbys"
        "Standbys that are connected to the PostgreSQL server, by kind (synchronous, asynchronous; hidden without the right pg_monitor)";
    standby_lag: Gauge [] "database_standby_lag_bytes" "bytes"
        "Bytes of the PostgreSQL log that the standby with the most data has not flushed";
    disk_free: Gauge ["place"] "disk_free_bytes" "bytes" "Free bytes of the file system, by place (data: storage.directory)";
    disk_size: Gauge ["place"] "disk_size_bytes" "bytes" "Size of the file system, by place";
    certificate_valid: Gauge ["certificate"] "certificate_valid_seconds" "seconds"
        "Time until a certificate expires, by certificate (listen: listen.tls_certificate, workers: listen.client_ca)";
    invariants: Counter ["invariant"] "invariant_violations_total" "violations"
        "Violations of an invariant that the server checks every minute, by invariant (live_jobs: the jobs in memory are those of the database). Each violation is a fault of the service";
    limit_used: Gauge ["limit"] "limit_used" "1" "Use of a limit, by limit (requests, watchers, message_bytes, queued_jobs)";
    limit_value: Gauge ["limit"] "limit_value" "1" "The configured limit, by limit";
    spans_exported: Counter [] "spans_exported_total" "spans" "Spans of traces that the collector has taken";
    spans_dropped: Counter ["reason"] "spans_dropped_total" "spans"
        "Spans of traces that were dropped, by reason (queue_full: the collector is too slow; failed: it refused them or did not answer)";
    log_suppressed: Counter ["target"] "log_suppressed_total" "events"
        "Log events of this process that were suppressed because many of one kind occurred within a minute, by the crate that logged them";
    build_info: Gauge ["version"] "build_info" "1" "Always 1. The label is the version of the server";
}
