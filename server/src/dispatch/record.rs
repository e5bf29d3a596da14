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
        Why::Failed | Why::NotStarted | Why::WorkerLeft => return,
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
    metrics.workers.set((all - draining) as u64, ["ready"]);
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
    use super::*;
    use crate::metrics::Telemetry;

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
        };
        observe(&telemetry.metrics, &Stats::default(), 0, &[pool("cpu"), pool("gpu")]);
        let scraped = telemetry.scrape().unwrap();
        let line = |name: &str| scraped.lines().find(|line| line.starts_with(name)).map(str::to_owned);
        assert_eq!(line("cloakwork_keys_resident ").as_deref(), Some("cloakwork_keys_resident 2"), "{scraped}");
        assert!(line("cloakwork_key_resident_bytes ").is_some(), "{scraped}");
    }
}
