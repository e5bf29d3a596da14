//! Latency record of a job: a partition of its time, measured on one clock.

use std::{collections::BTreeMap, time::Instant};

use cloakwork_device::{Times, WorkStats};
use cloakwork_proto::v1::{CutCount, LatencyRecord, OperationTime, WaveCut, WaveRecord};

/// Stages of a worker outside of waves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    KeyLoad,
    Fetch,
    WaveWait,
    Store,
}

/// Attributes every moment since the assignment to one stage. The caller names the stage of the
/// time since the last advance.
#[derive(Clone, Debug)]
pub(crate) struct Stopwatch {
    start: Instant,
    until: Instant,
    record: LatencyRecord,
    cuts: BTreeMap<i32, u64>,
    fill_sum: f64,
}

/// A wave from the view of one of its jobs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaveShare {
    pub(crate) stats: WorkStats,
    /// Number of bootstraps in the wave.
    pub(crate) width: u32,
    /// Number of the job's own bootstraps in the wave.
    pub(crate) own_width: u32,
    /// Width that the engine would have preferred.
    pub(crate) preferred: u32,
    pub(crate) cut: WaveCut,
    /// Whether the wave used the companion's key.
    pub(crate) is_companion: bool,
}

/// Maximum number of waves that a record lists individually.
const WAVES_MAX: usize = 64;

impl Stopwatch {
    pub(crate) fn start(now: Instant) -> Self {
        Self { start: now, until: now, record: LatencyRecord::default(), cuts: BTreeMap::new(), fill_sum: 0.0 }
    }

    /// Attributes the time up to `now` to `stage`.
    pub(crate) fn advance(&mut self, stage: Stage, now: Instant) {
        let nanos = self.pass(now);
        let record = &mut self.record;
        *match stage {
            Stage::KeyLoad => &mut record.key_load_nanos,
            Stage::Fetch => &mut record.fetch_nanos,
            Stage::WaveWait => &mut record.wave_wait_nanos,
            Stage::Store => &mut record.store_nanos,
        } += nanos;
    }

    /// Records that the job took part in a wave. Time of the wave that overlaps another of the
    /// job's waves is counted once only.
    pub(crate) fn wave(&mut self, share: WaveShare) {
        let stats = share.stats;
        self.advance(Stage::WaveWait, stats.began);
        let wall = (stats.ended - stats.began).as_nanos();
        let nanos = u128::from(self.pass(stats.ended));
        let part = |stage: std::time::Duration| (nanos * stage.as_nanos()).checked_div(wall).unwrap_or(0) as u64;
        let (key_switch, blind_rotate) = (part(stats.key_switch), part(stats.blind_rotate));
        self.record.key_switch_nanos += key_switch;
        self.record.blind_rotate_nanos += blind_rotate;
        self.record.other_compute_nanos += nanos as u64 - key_switch - blind_rotate;
        self.record.pbs_count += u64::from(share.own_width);
        self.record.device_nanos += (wall * u128::from(share.own_width) / u128::from(share.width.max(1))) as u64;
        self.record.wave_count += 1;
        self.record.companion_waves += u64::from(share.is_companion);
        self.fill_sum += f64::from(share.width) / f64::from(share.preferred.max(1));
        *self.cuts.entry(share.cut as i32).or_default() += 1;
        if self.record.waves.len() < WAVES_MAX {
            self.record.waves.push(WaveRecord {
                width: share.width,
                own_width: share.own_width,
                compute_nanos: wall as u64,
                cut: share.cut as i32,
            });
        }
    }

    /// Records the run of a program on vectors. The time before `began` counts as waiting.
    pub(crate) fn run(&mut self, began: Instant, ended: Instant, bootstraps: u64, times: &Times) {
        self.advance(Stage::WaveWait, began);
        self.record.other_compute_nanos += self.pass(ended);
        self.record.pbs_count += bootstraps;
        self.record.device_nanos += ended.saturating_duration_since(began).as_nanos() as u64;
        let operations = times.0.iter().map(|(name, (count, time))| OperationTime {
            name: (*name).to_owned(),
            count: *count,
            nanos: time.as_nanos() as u64,
        });
        self.record.operations.extend(operations);
    }

    /// Finishes the record, and attributes the time up to `now` to `last`.
    pub(crate) fn finish(mut self, last: Stage, now: Instant) -> LatencyRecord {
        self.advance(last, now);
        let mut record = self.record;
        if record.wave_count > 0 {
            record.mean_wave_fill = self.fill_sum / record.wave_count as f64;
        }
        record.cuts = self.cuts.into_iter().map(|(cut, waves)| CutCount { cut, waves }).collect();
        record.wall_nanos = (self.until - self.start).as_nanos() as u64;
        record
    }

    /// Time since the last advance, or 0 if `now` is earlier.
    fn pass(&mut self, now: Instant) -> u64 {
        let nanos = now.saturating_duration_since(self.until).as_nanos() as u64;
        self.until = self.until.max(now);
        nanos
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    /// Sum of the stages that a worker measures.
    fn sum(record: &LatencyRecord) -> u64 {
        record.key_load_nanos
            + record.fetch_nanos
            + record.wave_wait_nanos
            + record.key_switch_nanos
            + record.blind_rotate_nanos
            + record.other_compute_nanos
            + record.store_nanos
    }

    proptest! {
        #[test]
        fn stages_sum_to_wall_time(waves in prop::collection::vec((0u64..50, 0u64..50, 0u64..100, 0u64..100), 0..80)) {
            let start = Instant::now();
            let mut watch = Stopwatch::start(start);
            let mut now = start;
            for stage in [Stage::KeyLoad, Stage::Fetch] {
                now += Duration::from_micros(5);
                watch.advance(stage, now);
            }
            let (mut end, mut companions) = (now, 0);
            for (begin, length, key_switch, blind_rotate) in waves {
                let began = now + Duration::from_nanos(begin);
                let wall = Duration::from_nanos(length);
                let key_switch = wall.mul_f64(key_switch as f64 / 200.0);
                let blind_rotate = wall.mul_f64(blind_rotate as f64 / 200.0);
                let other = wall.saturating_sub(key_switch + blind_rotate);
                let stats = WorkStats { began, ended: began + wall, key_switch, blind_rotate, other };
                let is_companion = begin % 2 == 0;
                companions += u64::from(is_companion);
                watch.wave(WaveShare { stats, width: 8, own_width: 2, preferred: 16, cut: WaveCut::Idle, is_companion });
                end = end.max(stats.ended);
                now += Duration::from_nanos(begin / 2);
            }
            let last = end + Duration::from_micros(1);
            let record = watch.finish(Stage::Store, last);
            prop_assert_eq!(sum(&record), (last - start).as_nanos() as u64);
            prop_assert_eq!(record.wall_nanos, sum(&record));
            prop_assert_eq!(record.key_load_nanos, 5000);
            prop_assert_eq!(record.store_nanos, 1000);
            prop_assert_eq!(record.pbs_count, 2 * record.wave_count);
            prop_assert_eq!(record.companion_waves, companions);
            prop_assert!(record.waves.len() <= WAVES_MAX);
        }
    }
}
