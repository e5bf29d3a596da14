//! The latency record. The record partitions the server's wall time of a job into stages.

use std::time::{Duration, Instant};

use cloakwork_proto::v1::LatencyRecord;

/// Times in a job's life that the server itself observes, on its monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Timeline {
    /// When the request arrived.
    pub received: Instant,
    /// When the request was validated.
    pub validated: Instant,
    /// When the latest attempt was handed to a worker.
    pub leased: Option<Instant>,
    /// When the worker's result began to arrive.
    pub returned: Option<Instant>,
    /// When the result was stored. Only the durable end is left to do.
    pub stored: Option<Instant>,
}

impl Timeline {
    /// The timeline of a newly validated request.
    pub fn start(received: Instant) -> Self {
        Self { received, validated: Instant::now(), leased: None, returned: None, stored: None }
    }

    /// The timeline of a job that an earlier process accepted. Its earlier times are unknown.
    pub fn restart() -> Self {
        let now = Instant::now();
        Self { received: now, validated: now, leased: None, returned: None, stored: None }
    }

    /// Discards the times of an attempt that the store never recorded. If the job runs anyway, its
    /// attempt began before now.
    pub fn forget_attempt(&mut self, running: bool) {
        (self.returned, self.stored) = (None, None);
        self.leased = if running { self.leased.or(Some(self.validated)) } else { None };
    }

    /// The record of a job that ended at `ended`. `worker` holds the stages that the worker
    /// measured.
    ///
    /// The time between lease and return that the worker does not account for is transport in both
    /// directions. The record has at most `bootstraps_max` bootstraps, the number that the program
    /// has, because tenants are charged for them.
    pub fn record(
        &self,
        ended: Instant,
        worker: Option<LatencyRecord>,
        attempts: u32,
        bootstraps_max: u64,
    ) -> LatencyRecord {
        let mut record = worker.unwrap_or_default();
        let inside = worker_nanos(&record);
        let span = |from: Instant, to: Instant| nanos(to.saturating_duration_since(from));
        record.transit_nanos = 0;
        record.attempts = attempts;
        record.validate_nanos = span(self.received, self.validated);
        match (self.leased, self.returned) {
            (Some(leased), Some(returned)) => {
                let stored = self.stored.unwrap_or(returned);
                record.queue_nanos = span(self.validated, leased);
                let outside = span(leased, returned);
                record.dispatch_nanos = outside.saturating_sub(inside);
                shrink_to(&mut record, outside);
                record.device_nanos = record.device_nanos.min(outside);
                record.pbs_count = record.pbs_count.min(bootstraps_max);
                bound_waves(&mut record);
                record.store_nanos += span(returned, stored);
                record.commit_nanos = span(stored, ended);
            }
            // The job ended without a result. All its time was waiting, in the queue or for an
            // attempt without a result.
            _ => {
                let attempts = record.attempts;
                record = LatencyRecord { attempts, validate_nanos: record.validate_nanos, ..Default::default() };
                record.queue_nanos = span(self.validated, ended);
            }
        }
        record.wall_nanos = stages(&record).iter().map(|(_, nanos)| nanos).sum();
        record
    }
}

/// The stages of a record, by name, in the order in which a job passes them. The stages add up to
/// the wall time.
pub fn stages(record: &LatencyRecord) -> [(&'static str, u64); 11] {
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

/// The stages that workers measure.
fn worker_stages(record: &mut LatencyRecord) -> [&mut u64; 7] {
    [
        &mut record.key_load_nanos,
        &mut record.fetch_nanos,
        &mut record.wave_wait_nanos,
        &mut record.key_switch_nanos,
        &mut record.blind_rotate_nanos,
        &mut record.other_compute_nanos,
        &mut record.store_nanos,
    ]
}

fn worker_nanos(record: &LatencyRecord) -> u64 {
    worker_stages(&mut record.clone()).into_iter().fold(0, |sum, stage| sum.saturating_add(*stage))
}

/// Limits the worker's stages to the time that passed on the server. A worker may report more, and
/// the record must still add up.
fn shrink_to(record: &mut LatencyRecord, outside: u64) {
    let mut left = outside;
    for stage in worker_stages(record) {
        *stage = (*stage).min(left);
        left -= *stage;
    }
}

/// Limits the worker's figures of waves to what is possible. Other figures would spoil the sums of
/// metrics.
fn bound_waves(record: &mut LatencyRecord) {
    let fill = record.mean_wave_fill;
    record.mean_wave_fill = if fill.is_finite() { fill.clamp(0.0, WAVE_FILL_MAX) } else { 0.0 };
    record.wave_count = record.wave_count.min(record.pbs_count);
    for wave in &mut record.waves {
        wave.own_width = wave.own_width.min(wave.width);
    }
    for cut in &mut record.cuts {
        cut.waves = cut.waves.min(record.pbs_count);
    }
}

/// Largest mean fill of waves. A wave may be wider than the preferred width.
const WAVE_FILL_MAX: f64 = 64.0;

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use cloakwork_proto::v1::{CutCount, WaveRecord};

    use super::*;

    fn timeline(micros: [u64; 5]) -> (Timeline, Instant) {
        let start = Instant::now();
        let [validated, leased, returned, stored, ended] = micros.map(|micros| start + Duration::from_micros(micros));
        let timeline = Timeline {
            received: start,
            validated,
            leased: Some(leased),
            returned: Some(returned),
            stored: Some(stored),
        };
        (timeline, ended)
    }

    #[test]
    fn the_stages_are_a_partition_of_the_wall_time() {
        let (timeline, ended) = timeline([10, 30, 1000, 1100, 1400]);
        let worker = LatencyRecord {
            fetch_nanos: 100_000,
            blind_rotate_nanos: 600_000,
            store_nanos: 50_000,
            ..Default::default()
        };
        let record = timeline.record(ended, Some(worker), 1, 7);
        assert_eq!(record.validate_nanos, 10_000);
        assert_eq!(record.queue_nanos, 20_000);
        assert_eq!(record.dispatch_nanos, 970_000 - 750_000);
        assert_eq!(record.store_nanos, 50_000 + 100_000);
        assert_eq!(record.commit_nanos, 300_000);
        assert_eq!(record.wall_nanos, 1_400_000);
    }

    #[test]
    fn a_worker_that_exaggerates_does_not_break_the_sum() {
        let (timeline, ended) = timeline([10, 30, 1000, 1000, 1400]);
        let worker = LatencyRecord {
            fetch_nanos: u64::MAX,
            blind_rotate_nanos: u64::MAX,
            device_nanos: u64::MAX,
            pbs_count: u64::MAX,
            ..Default::default()
        };
        let record = timeline.record(ended, Some(worker), 1, 7);
        assert_eq!((record.wall_nanos, record.device_nanos, record.pbs_count), (1_400_000, 970_000, 7));
    }

    #[test]
    fn figures_of_waves_are_bounded_by_what_is_possible() {
        let (timeline, ended) = timeline([10, 30, 1000, 1000, 1400]);
        for (fill, bounded) in [(f64::NAN, 0.0), (f64::INFINITY, 0.0), (-1.0, 0.0), (0.5, 0.5), (1e9, WAVE_FILL_MAX)] {
            let worker = LatencyRecord {
                pbs_count: 5,
                wave_count: u64::MAX,
                mean_wave_fill: fill,
                waves: vec![WaveRecord { width: 3, own_width: 4, ..Default::default() }],
                cuts: vec![CutCount { waves: u64::MAX, ..Default::default() }],
                ..Default::default()
            };
            let record = timeline.record(ended, Some(worker), 1, 7);
            assert_eq!(record.mean_wave_fill, bounded);
            assert_eq!((record.wave_count, record.waves[0].own_width, record.cuts[0].waves), (5, 3, 5));
        }
    }

    #[test]
    fn a_job_that_never_ran_has_only_waited() {
        let start = Instant::now();
        let validated = start + Duration::from_millis(2);
        let timeline = Timeline { received: start, validated, leased: None, returned: None, stored: None };
        let record = timeline.record(start + Duration::from_millis(5), None, 0, 7);
        assert_eq!((record.validate_nanos, record.queue_nanos, record.wall_nanos), (2_000_000, 3_000_000, 5_000_000));
    }
}
