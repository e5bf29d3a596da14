//! Metrics that the dispatcher records.

use std::{collections::BTreeMap, time::Duration};

use cloakwork_proto::v1::JobState;
use cloakwork_scheduler::{Stats, Why};
use cloakwork_worker::metrics::cut_name;

use super::PoolView;
use crate::{
    error::{INTERNAL, Reason},
    jobs::{End, JobMeta, stages},
    metrics::{Metrics, Telemetry},
};

/// The label of the pool of a job that no worker got.
const NO_POOL: &str = "none";

/// Counts an accepted job.
pub(super) fn submitted(metrics: &Metrics, meta: &JobMeta) {
    metrics.jobs_submitted.add(1, [meta.set.name()]);
}

/// Counts a lease that ended without ending its job, by the clock that expired.
pub(super) fn requeued(metrics: &Metrics, why: Why) {
    let clock = match why {
        Why::WorkerCrashed => "connection",
        Why::LeaseExpired => "lease",
        Why::NoProgress => "progress",
        Why::Failed | Why::NotStarted | Why::WorkerLeft | Why::Quarantined => return,
    };
    metrics.leases_expired.add(1, [clock]);
}

/// Records the counts and times of an ended job. `pool` is the pool of its last worker.
pub(super) fn ended(telemetry: &Telemetry, meta: &JobMeta, end: &End, pool: Option<&'static str>) {
    let (metrics, set, pool) = (&telemetry.metrics, meta.set.name(), pool.unwrap_or(NO_POOL));
    let tenant = telemetry.tenants.label(&meta.tenant);
    let state = match end.state {
        JobState::Succeeded => "succeeded",
        JobState::Cancelled => "cancelled",
        _ => "failed",
    };
    let reason = end.error.as_ref().map_or("", |error| Reason::named(&error.reason).unwrap_or(INTERNAL).code);
    metrics.jobs_ended.add(1, [state, reason]);
    let record = &end.latency;
    telemetry.pulse.ended(end.state, reason, record);
    let run = record.wall_nanos.saturating_sub(record.validate_nanos).saturating_sub(record.queue_nanos);
    let trace = meta.trace.map(|trace| trace.trace);
    metrics.job_queue.record_traced(seconds(record.queue_nanos), [set, pool], trace);
    metrics.job_run.record_traced(seconds(run), [set, pool], trace);
    metrics.job_wall.record_traced(seconds(record.wall_nanos), [meta.operation, set], trace);
    metrics.tenant_jobs.add(1, [tenant, state]);
    metrics.tenant_wall.record(seconds(record.wall_nanos), [tenant]);
    metrics.job_attempts.record(f64::from(record.attempts), []);
    for (stage, nanos) in stages(record) {
        metrics.job_stage.record(seconds(nanos), [stage]);
    }
    if end.state != JobState::Succeeded {
        return;
    }
    metrics.pbs.add(meta.pbs_count, [set, pool]);
    metrics.tenant_pbs.add(meta.pbs_count, [tenant]);
    metrics.key_cache.add(1, [if record.key_load_nanos > 0 { "miss" } else { "hit" }]);
    for cut in &record.cuts {
        metrics.waves.add(cut.waves, [cut_name(cut.cut())]);
    }
    for wave in &record.waves {
        metrics.wave_width.record(f64::from(wave.width), []);
    }
    if record.wave_count > 0 {
        metrics.wave_fill.record(record.mean_wave_fill, []);
    }
}

/// Records the current queue, workers and resident keys.
pub(super) fn observe(telemetry: &Telemetry, stats: &Stats, now: u64, pools: &[PoolView]) {
    let metrics = &telemetry.metrics;
    metrics.jobs_queued.set(stats.queued as u64, []);
    metrics.limit_used.set(stats.queued as u64 + stats.running as u64, ["queued_jobs"]);
    metrics.jobs_running.set(stats.running as u64, []);
    telemetry.pulse.queue(stats.queued as u64, stats.running as u64);
    let oldest = stats.oldest_queued.map_or(0, |since| now.saturating_sub(since));
    metrics.oldest_queued.set(oldest / 1_000_000, []);
    // Pools without workers have values too: a worker may have left.
    let labels = telemetry.pools.all().into_iter();
    let mut seen: BTreeMap<&'static str, Seen> = labels.map(|label| (label, Seen::default())).collect();
    for (pool, stats) in &stats.pools {
        let seen = seen.entry(telemetry.pools.label(pool)).or_default();
        seen.draining += stats.draining as u64;
        seen.ready += stats.workers.saturating_sub(stats.draining) as u64;
    }
    for pool in pools {
        let seen = seen.entry(telemetry.pools.label(&pool.kind)).or_default();
        seen.keys += pool.resident_keys;
        // Workers may report any number.
        seen.key_bytes = seen.key_bytes.saturating_add(pool.resident_bytes);
    }
    for (pool, seen) in seen {
        metrics.workers.set(seen.ready, [pool, "ready"]);
        metrics.workers.set(seen.draining, [pool, "draining"]);
        metrics.keys_resident.set(seen.keys, [pool]);
        metrics.key_resident_bytes.set(seen.key_bytes, [pool]);
    }
}

/// The workers of a pool, and their keys.
#[derive(Default)]
struct Seen {
    ready: u64,
    draining: u64,
    keys: u64,
    key_bytes: u64,
}

/// Records how long a database operation took.
pub(super) fn database(metrics: &Metrics, op: &'static str, took: Duration) {
    metrics.db_time.record(took.as_secs_f64(), [op]);
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use cloakwork_proto::v1::{CutCount, JobError, LatencyRecord, WaveCut, WaveRecord};
    use cloakwork_scheduler::PoolStats;
    use cloakwork_telemetry::Format;

    use super::*;
    use crate::store::tests::new_job;

    const SECOND: u64 = 1_000_000_000;

    /// The record of a job that took 100 s and computed in one wave.
    fn latency() -> LatencyRecord {
        LatencyRecord {
            validate_nanos: SECOND,
            queue_nanos: 2 * SECOND,
            dispatch_nanos: 3 * SECOND,
            key_load_nanos: 4 * SECOND,
            fetch_nanos: 5 * SECOND,
            wave_wait_nanos: 6 * SECOND,
            key_switch_nanos: 7 * SECOND,
            blind_rotate_nanos: 8 * SECOND,
            other_compute_nanos: 9 * SECOND,
            store_nanos: 10 * SECOND,
            commit_nanos: 11 * SECOND,
            wall_nanos: 100 * SECOND,
            wave_count: 1,
            waves: vec![WaveRecord { width: 12, ..WaveRecord::default() }],
            mean_wave_fill: 0.75,
            attempts: 2,
            cuts: vec![CutCount { cut: WaveCut::Idle.into(), waves: 1 }],
            ..LatencyRecord::default()
        }
    }

    fn end(state: JobState, reason: Option<&str>, latency: LatencyRecord) -> End {
        let error = reason.map(|reason| JobError { reason: reason.to_owned(), ..JobError::default() });
        End {
            state,
            ended_micros: 0,
            outputs_expire_micros: None,
            error,
            outputs: Vec::new(),
            latency,
            attestation: None,
        }
    }

    /// Fails unless the metrics contain each of the lines.
    fn assert_lines(telemetry: &Telemetry, lines: &[&str]) {
        let scraped = telemetry.scrape(Format::Prometheus);
        for line in lines {
            assert!(scraped.lines().any(|found| found == *line), "no {line}:\n{scraped}");
        }
    }

    #[test]
    fn ends_are_counted_by_state_and_reason() {
        let telemetry = Telemetry::new(10).unwrap();
        let meta = new_job("tenant", 1).meta;
        for (state, reason) in [
            (JobState::Succeeded, None),
            (JobState::Cancelled, Some("JOB_CANCELLED")),
            (JobState::Failed, Some("JOB_POISON")),
            // A reason that a later version of the server has stored.
            (JobState::Failed, Some("UNKNOWN_TO_THIS_VERSION")),
        ] {
            ended(&telemetry, &meta, &end(state, reason, latency()), None);
        }
        assert_lines(
            &telemetry,
            &[
                "cloakwork_jobs_ended_total{reason=\"\",state=\"succeeded\"} 1",
                "cloakwork_jobs_ended_total{reason=\"JOB_CANCELLED\",state=\"cancelled\"} 1",
                "cloakwork_jobs_ended_total{reason=\"JOB_POISON\",state=\"failed\"} 1",
                "cloakwork_jobs_ended_total{reason=\"INTERNAL\",state=\"failed\"} 1",
                "cloakwork_tenant_jobs_ended_total{state=\"failed\",tenant=\"tenant\"} 2",
                &format!("cloakwork_job_queue_seconds_count{{parameter_set=\"{}\",pool=\"none\"}} 4", meta.set.name()),
            ],
        );
    }

    #[test]
    fn each_time_of_a_latency_record_has_its_metric() {
        let telemetry = Telemetry::new(10).unwrap();
        let meta = JobMeta { operation: "ADD", ..JobMeta::clone(&new_job("tenant", 1).meta) };
        let set = meta.set.name();
        ended(&telemetry, &meta, &end(JobState::Failed, Some("JOB_POISON"), latency()), Some("cpu"));
        assert_lines(
            &telemetry,
            &[
                &format!("cloakwork_job_queue_seconds_sum{{parameter_set=\"{set}\",pool=\"cpu\"}} 2"),
                // All except the validation and the queue.
                &format!("cloakwork_job_run_seconds_sum{{parameter_set=\"{set}\",pool=\"cpu\"}} 97"),
                &format!("cloakwork_job_seconds_sum{{operation=\"ADD\",parameter_set=\"{set}\"}} 100"),
                "cloakwork_tenant_job_seconds_sum{tenant=\"tenant\"} 100",
                "cloakwork_job_attempts_sum 2",
            ],
        );
        let stages = ["validate", "queue", "dispatch", "key_load", "fetch", "wave_wait", "key_switch", "blind_rotate"];
        for (index, stage) in stages.into_iter().chain(["other_compute", "store", "commit"]).enumerate() {
            let line = format!("cloakwork_job_stage_seconds_sum{{stage=\"{stage}\"}} {}", index + 1);
            assert_lines(&telemetry, &[&line]);
        }
    }

    #[test]
    fn only_successes_count_bootstraps_waves_and_uses_of_keys() {
        let telemetry = Telemetry::new(10).unwrap();
        let meta = new_job("tenant", 1).meta;
        ended(&telemetry, &meta, &end(JobState::Failed, Some("JOB_POISON"), latency()), Some("cpu"));
        let scraped = telemetry.scrape(Format::Prometheus);
        for name in ["cloakwork_pbs_total", "cloakwork_job_waves_total", "cloakwork_key_cache_jobs_total"] {
            let is_counted = scraped.lines().any(|line| line.starts_with(name) && !line.ends_with(" 0"));
            assert!(!is_counted, "{name}:\n{scraped}");
        }
        let loaded = LatencyRecord { key_load_nanos: 0, ..latency() };
        for latency in [latency(), loaded.clone(), loaded, LatencyRecord::default()] {
            ended(&telemetry, &meta, &end(JobState::Succeeded, None, latency), Some("cpu"));
        }
        assert_lines(
            &telemetry,
            &[
                &format!("cloakwork_pbs_total{{parameter_set=\"{}\",pool=\"cpu\"}} 4", meta.set.name()),
                "cloakwork_tenant_pbs_total{tenant=\"tenant\"} 4",
                "cloakwork_job_waves_total{cut=\"idle\"} 3",
                "cloakwork_key_cache_jobs_total{result=\"miss\"} 1",
                "cloakwork_key_cache_jobs_total{result=\"hit\"} 3",
                "cloakwork_wave_width_sum 36",
                // A job without waves has no fill.
                "cloakwork_wave_fill_ratio_count 3",
                "cloakwork_wave_fill_ratio_sum 2.25",
            ],
        );
    }

    #[test]
    fn lost_leases_are_counted_by_the_clock_that_expired() {
        let telemetry = Telemetry::new(10).unwrap();
        for why in
            [Why::WorkerCrashed, Why::LeaseExpired, Why::NoProgress, Why::Failed, Why::NotStarted, Why::WorkerLeft]
        {
            requeued(&telemetry.metrics, why);
        }
        assert_lines(
            &telemetry,
            &[
                "cloakwork_leases_expired_total{clock=\"connection\"} 1",
                "cloakwork_leases_expired_total{clock=\"lease\"} 1",
                "cloakwork_leases_expired_total{clock=\"progress\"} 1",
            ],
        );
        assert_eq!(telemetry.scrape(Format::Prometheus).matches("cloakwork_leases_expired_total{").count(), 3);
    }

    #[test]
    fn the_queue_and_the_workers_are_observed() {
        let telemetry = Telemetry::new(10).unwrap();
        let pool = |workers, draining| PoolStats { workers, draining, ..PoolStats::default() };
        let stats = Stats {
            queued: 5,
            running: 3,
            oldest_queued: Some(2_000_000),
            pools: [("cpu".into(), pool(4, 1)), ("gpu".into(), pool(2, 1))].into(),
            ..Stats::default()
        };
        observe(&telemetry, &stats, 9_500_000, &[]);
        assert_lines(
            &telemetry,
            &[
                "cloakwork_jobs_queued 5",
                "cloakwork_jobs_running 3",
                "cloakwork_job_oldest_queued_seconds 7",
                "cloakwork_workers{pool=\"cpu\",state=\"ready\"} 3",
                "cloakwork_workers{pool=\"cpu\",state=\"draining\"} 1",
                "cloakwork_workers{pool=\"gpu\",state=\"ready\"} 1",
            ],
        );
        observe(&telemetry, &Stats::default(), 9_500_000, &[]);
        assert_lines(&telemetry, &["cloakwork_workers{pool=\"cpu\",state=\"ready\"} 0"]);
    }

    #[test]
    fn bytes_of_resident_keys_that_workers_report_do_not_overflow() {
        let telemetry = Telemetry::new(10).unwrap();
        let pool = |kind: &str| PoolView {
            kind: kind.to_owned(),
            workers: 1,
            waves: Vec::new(),
            resident: Vec::new(),
            resident_keys: 1,
            resident_bytes: u64::MAX,
            verifiable: false,
        };
        // Both pools have one label.
        (0..80).for_each(|number| _ = telemetry.pools.label(&number.to_string()));
        observe(&telemetry, &Stats::default(), 0, &[pool("cpu"), pool("gpu")]);
        let scraped = telemetry.scrape(Format::Prometheus);
        for line in ["cloakwork_keys_resident{pool=\"_other\"} 2", "cloakwork_key_resident_bytes{pool=\"_other\"} "] {
            assert!(scraped.lines().any(|found| found.starts_with(line)), "no {line}:\n{scraped}");
        }
    }
}
