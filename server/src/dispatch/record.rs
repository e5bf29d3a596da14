//! Metrics that the dispatcher records.

use std::time::Duration;

use cloakwork_proto::v1::{JobState, LatencyRecord, WaveCut};
use cloakwork_scheduler::{Stats, Why};

use super::PoolView;
use crate::{
    error::{INTERNAL, Reason},
    jobs::{End, JobMeta},
    metrics::Metrics,
};

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

/// Records the counts and times of an ended job.
pub(super) fn ended(metrics: &Metrics, meta: &JobMeta, end: &End) {
    let state = match end.state {
        JobState::Succeeded => "succeeded",
        JobState::Cancelled => "cancelled",
        _ => "failed",
    };
    let reason = end.error.as_ref().map_or("", |error| Reason::named(&error.reason).unwrap_or(INTERNAL).code);
    metrics.jobs_ended.add(1, [state, reason]);
    let record = &end.latency;
    let run = record.wall_nanos.saturating_sub(record.validate_nanos).saturating_sub(record.queue_nanos);
    metrics.job_queue.record(seconds(record.queue_nanos), []);
    metrics.job_run.record(seconds(run), []);
    metrics.job_wall.record(seconds(record.wall_nanos), []);
    metrics.job_attempts.record(f64::from(record.attempts), []);
    for (stage, nanos) in stages(record) {
        metrics.job_stage.record(seconds(nanos), [stage]);
    }
    if end.state != JobState::Succeeded {
        return;
    }
    metrics.pbs.add(meta.pbs_count, [meta.set.name()]);
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
pub(super) fn observe(metrics: &Metrics, stats: &Stats, now: u64, pools: &[PoolView]) {
    metrics.jobs_queued.set(stats.queued as u64, []);
    metrics.jobs_running.set(stats.running as u64, []);
    let oldest = stats.oldest_queued.map_or(0, |since| now.saturating_sub(since));
    metrics.oldest_queued.set(oldest / 1_000_000, []);
    let all: usize = stats.pools.values().map(|pool| pool.workers).sum();
    let draining: usize = stats.pools.values().map(|pool| pool.draining).sum();
    metrics.workers.set(all.saturating_sub(draining) as u64, ["ready"]);
    metrics.workers.set(draining as u64, ["draining"]);
    metrics.keys_resident.set(pools.iter().map(|pool| pool.resident_keys).sum(), []);
    // Workers may report any number.
    let bytes = pools.iter().map(|pool| pool.resident_bytes).fold(0, u64::saturating_add);
    metrics.key_resident_bytes.set(bytes, []);
}

/// Records how long a database operation took.
pub(super) fn database(metrics: &Metrics, op: &'static str, took: Duration) {
    metrics.db_time.record(took.as_secs_f64(), [op]);
}

fn stages(record: &LatencyRecord) -> [(&'static str, u64); 11] {
    [
        ("validate", record.validate_nanos),
        ("queue", record.queue_nanos),
        ("dispatch", record.dispatch_nanos),
        ("key_load", record.key_load_nanos),
        ("fetch", record.fetch_nanos),
        ("wave_wait", record.wave_wait_nanos),
        ("key_switch", record.key_switch_nanos),
        ("blind_rotate", record.blind_rotate_nanos),
        ("other_compute", record.other_compute_nanos),
        ("store", record.store_nanos),
        ("commit", record.commit_nanos),
    ]
}

fn cut_name(cut: WaveCut) -> &'static str {
    match cut {
        WaveCut::Full => "full",
        WaveCut::Deadline => "deadline",
        WaveCut::Idle => "idle",
        WaveCut::OtherKey => "other_key",
        WaveCut::Drain => "drain",
        WaveCut::Unspecified => "unknown",
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use cloakwork_proto::v1::{CutCount, JobError, WaveRecord};
    use cloakwork_scheduler::PoolStats;

    use super::*;
    use crate::{metrics::Telemetry, store::tests::new_job};

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
        let scraped = telemetry.scrape().unwrap();
        for line in lines {
            assert!(scraped.lines().any(|found| found == *line), "no {line}:\n{scraped}");
        }
    }

    #[test]
    fn ends_are_counted_by_state_and_reason() {
        let telemetry = Telemetry::new().unwrap();
        let meta = new_job("tenant", 1).meta;
        for (state, reason) in [
            (JobState::Succeeded, None),
            (JobState::Cancelled, Some("JOB_CANCELLED")),
            (JobState::Failed, Some("JOB_POISON")),
            // A reason that a later version of the server has stored.
            (JobState::Failed, Some("UNKNOWN_TO_THIS_VERSION")),
        ] {
            ended(&telemetry.metrics, &meta, &end(state, reason, latency()));
        }
        assert_lines(
            &telemetry,
            &[
                "cloakwork_jobs_ended_total{reason=\"\",state=\"succeeded\"} 1",
                "cloakwork_jobs_ended_total{reason=\"JOB_CANCELLED\",state=\"cancelled\"} 1",
                "cloakwork_jobs_ended_total{reason=\"JOB_POISON\",state=\"failed\"} 1",
                "cloakwork_jobs_ended_total{reason=\"INTERNAL\",state=\"failed\"} 1",
            ],
        );
    }

    #[test]
    fn each_time_of_a_latency_record_has_its_metric() {
        let telemetry = Telemetry::new().unwrap();
        ended(&telemetry.metrics, &new_job("tenant", 1).meta, &end(JobState::Failed, Some("JOB_POISON"), latency()));
        assert_lines(
            &telemetry,
            &[
                "cloakwork_job_queue_seconds_sum 2",
                // All except the validation and the queue.
                "cloakwork_job_run_seconds_sum 97",
                "cloakwork_job_seconds_sum 100",
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
        let telemetry = Telemetry::new().unwrap();
        let meta = new_job("tenant", 1).meta;
        ended(&telemetry.metrics, &meta, &end(JobState::Failed, Some("JOB_POISON"), latency()));
        let scraped = telemetry.scrape().unwrap();
        for name in ["cloakwork_pbs_total", "cloakwork_job_waves_total", "cloakwork_key_cache_jobs_total"] {
            let is_counted = scraped.lines().any(|line| line.starts_with(name) && !line.ends_with(" 0"));
            assert!(!is_counted, "{name}:\n{scraped}");
        }
        let loaded = LatencyRecord { key_load_nanos: 0, ..latency() };
        for latency in [latency(), loaded.clone(), loaded, LatencyRecord::default()] {
            ended(&telemetry.metrics, &meta, &end(JobState::Succeeded, None, latency));
        }
        assert_lines(
            &telemetry,
            &[
                &format!("cloakwork_pbs_total{{parameter_set=\"{}\"}} 4", meta.set.name()),
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
    fn cuts_of_waves_have_different_names() {
        let cuts = [WaveCut::Full, WaveCut::Deadline, WaveCut::Idle, WaveCut::OtherKey, WaveCut::Drain];
        let names = ["full", "deadline", "idle", "other_key", "drain"];
        assert_eq!(cuts.map(cut_name), names);
    }

    #[test]
    fn lost_leases_are_counted_by_the_clock_that_expired() {
        let telemetry = Telemetry::new().unwrap();
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
        assert_eq!(telemetry.scrape().unwrap().matches("cloakwork_leases_expired_total{").count(), 3);
    }

    #[test]
    fn the_queue_and_the_workers_are_observed() {
        let telemetry = Telemetry::new().unwrap();
        let pool = |workers, draining| PoolStats { workers, draining, ..PoolStats::default() };
        let stats = Stats {
            queued: 5,
            running: 3,
            oldest_queued: Some(2_000_000),
            pools: [("cpu".into(), pool(4, 1)), ("gpu".into(), pool(2, 1))].into(),
            ..Stats::default()
        };
        observe(&telemetry.metrics, &stats, 9_500_000, &[]);
        assert_lines(
            &telemetry,
            &[
                "cloakwork_jobs_queued 5",
                "cloakwork_jobs_running 3",
                "cloakwork_job_oldest_queued_seconds 7",
                "cloakwork_workers{state=\"ready\"} 4",
                "cloakwork_workers{state=\"draining\"} 2",
            ],
        );
    }

    #[test]
    fn bytes_of_resident_keys_that_workers_report_do_not_overflow() {
        let telemetry = Telemetry::new().unwrap();
        let pool = |kind: &str| PoolView {
            kind: kind.to_owned(),
            workers: 1,
            waves: Vec::new(),
            resident: Vec::new(),
            resident_keys: 1,
            resident_bytes: u64::MAX,
            verifiable: false,
        };
        observe(&telemetry.metrics, &Stats::default(), 0, &[pool("cpu"), pool("gpu")]);
        let scraped = telemetry.scrape().unwrap();
        let line = |name: &str| scraped.lines().find(|line| line.starts_with(name)).map(str::to_owned);
        assert_eq!(line("cloakwork_keys_resident ").as_deref(), Some("cloakwork_keys_resident 2"), "{scraped}");
        assert!(line("cloakwork_key_resident_bytes ").is_some(), "{scraped}");
    }
}
