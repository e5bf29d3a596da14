//! Events of the last ten minutes, for the console: counts in fixed intervals, with the mean fill
//! of waves and the times of jobs.
//!
//! Metrics have the same counts for as long as a Prometheus keeps them. The console works without
//! one.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use cloakwork_proto::v1::{JobState, LatencyRecord, WaveCut};

/// Length of an interval in seconds.
pub const INTERVAL_SECONDS: u64 = 2;

/// Maximum number of samples that are kept: ten minutes.
pub const PULSE_SAMPLES_MAX: usize = 300;

/// Maximum number of times of jobs in one interval. Of further jobs, every time replaces another.
const TIMES_MAX: usize = 2048;

/// Number of reasons why waves are cut.
const CUTS: usize = 5;

/// Counts of the present interval, and the samples of those before.
#[derive(Debug, Default)]
pub struct Pulse(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    now: Counts,
    /// Waiting and running jobs, as last seen.
    queue: [u64; 2],
    samples: VecDeque<Sample>,
    reasons: BTreeMap<&'static str, ReasonCounts>,
}

#[derive(Debug, Default)]
struct Counts {
    jobs: u64,
    failures: u64,
    bootstraps: u64,
    /// Waves, each job counted by its part of them.
    waves: f64,
    /// Sum over those waves of their fill, and of their width.
    fill: f64,
    width: f64,
    listed_waves: f64,
    cuts: [f64; CUTS],
    /// Wall times of jobs in nanoseconds.
    times: Vec<u64>,
}

/// An interval that has ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// End of the interval, in microseconds since 1970.
    pub at_micros: i64,
    /// Waiting jobs at the end of the interval.
    pub queued: u64,
    /// Running jobs at the end of the interval.
    pub running: u64,
    /// Ended jobs in a second.
    pub jobs_per_second: f64,
    /// Those of them that did not succeed.
    pub failures_per_second: f64,
    /// Bootstraps of ended jobs in a second.
    pub bootstraps_per_second: f64,
    /// Mean fill of the waves of ended jobs.
    pub wave_fill: Option<f64>,
    /// Mean width of these waves.
    pub wave_width: Option<f64>,
    /// Waves in a second by the reason why they were cut: full, deadline, idle, other key, drain.
    pub cuts_per_second: [f64; CUTS],
    /// Half of the ended jobs took at most this time.
    pub p50_seconds: Option<f64>,
    /// 99 of 100 ended jobs took at most this time.
    pub p99_seconds: Option<f64>,
}

/// How often a reason was given since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReasonCounts {
    /// To calls.
    pub calls: u64,
    /// To jobs.
    pub jobs: u64,
}

impl Pulse {
    /// Counts a job that has ended.
    pub fn ended(&self, state: JobState, reason: &'static str, record: &LatencyRecord) {
        let mut all = self.state();
        let now = &mut all.now;
        now.jobs += 1;
        now.failures += u64::from(state != JobState::Succeeded);
        now.bootstraps = now.bootstraps.saturating_add(record.pbs_count);
        let waves = record.wave_count as f64;
        // A job has a part of each of its waves. The list is of the first waves only.
        let (mut part, mut width) = (0.0, 0.0);
        for wave in &record.waves {
            let own = f64::from(wave.own_width) / f64::from(wave.width.max(1));
            part += own;
            width += own * f64::from(wave.width);
        }
        let mean_part = if record.waves.is_empty() { 0.0 } else { part / record.waves.len() as f64 };
        now.waves += mean_part * waves;
        now.fill += mean_part * waves * record.mean_wave_fill;
        now.width += width;
        now.listed_waves += part;
        for cut in &record.cuts {
            if let Some(count) = place(cut.cut()).and_then(|place| now.cuts.get_mut(place)) {
                *count += mean_part * cut.waves as f64;
            }
        }
        let place = usize::try_from(now.jobs - 1).unwrap_or_default();
        if now.times.len() < TIMES_MAX {
            now.times.push(record.wall_nanos);
        } else {
            now.times[place % TIMES_MAX] = record.wall_nanos;
        }
        if !reason.is_empty() {
            all.reasons.entry(reason).or_default().jobs += 1;
        }
    }

    /// Counts a call that ended with an error. Reasons are fixed text, so their number is limited.
    pub fn refused(&self, reason: &'static str) {
        self.state().reasons.entry(reason).or_default().calls += 1;
    }

    /// Takes note of the numbers of waiting and running jobs.
    pub fn queue(&self, queued: u64, running: u64) {
        self.state().queue = [queued, running];
    }

    /// Ends the present interval.
    pub fn sample(&self, at_micros: i64, seconds: f64) {
        let mut all = self.state();
        let [queued, running] = all.queue;
        let mut now = std::mem::take(&mut all.now);
        let rate = |count: f64| count / seconds.max(0.001);
        let mean = |sum: f64, count: f64| (count > 0.0).then(|| sum / count);
        now.times.sort_unstable();
        let sample = Sample {
            at_micros,
            queued,
            running,
            jobs_per_second: rate(now.jobs as f64),
            failures_per_second: rate(now.failures as f64),
            bootstraps_per_second: rate(now.bootstraps as f64),
            wave_fill: mean(now.fill, now.waves),
            wave_width: mean(now.width, now.listed_waves),
            cuts_per_second: now.cuts.map(rate),
            p50_seconds: quantile(&now.times, 50),
            p99_seconds: quantile(&now.times, 99),
        };
        if all.samples.len() >= PULSE_SAMPLES_MAX {
            all.samples.pop_front();
        }
        all.samples.push_back(sample);
    }

    /// The samples, oldest first.
    pub fn samples(&self) -> Vec<Sample> {
        self.state().samples.iter().cloned().collect()
    }

    /// How often each reason was given since the start, most frequent first.
    pub fn reasons(&self) -> Vec<(&'static str, ReasonCounts)> {
        let mut reasons: Vec<_> = self.state().reasons.iter().map(|(reason, counts)| (*reason, *counts)).collect();
        reasons.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.calls.saturating_add(counts.jobs)));
        reasons
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a reason in the counts of cuts.
fn place(cut: WaveCut) -> Option<usize> {
    match cut {
        WaveCut::Unspecified => None,
        WaveCut::Full => Some(0),
        WaveCut::Deadline => Some(1),
        WaveCut::Idle => Some(2),
        WaveCut::OtherKey => Some(3),
        WaveCut::Drain => Some(4),
    }
}

/// The time in seconds that this percentage of the sorted times does not exceed.
fn quantile(sorted_nanos: &[u64], percent: usize) -> Option<f64> {
    let rank = (sorted_nanos.len() * percent).div_ceil(100).max(1);
    sorted_nanos.get(rank - 1).map(|nanos| *nanos as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use cloakwork_proto::v1::{CutCount, WaveRecord};

    use super::*;

    /// A job that has `own` bootstraps in each of two waves of eight.
    fn record(own: u32, wall_seconds: u64) -> LatencyRecord {
        let wave = WaveRecord { width: 8, own_width: own, compute_nanos: 1, cut: WaveCut::Full.into() };
        LatencyRecord {
            wall_nanos: wall_seconds * 1_000_000_000,
            pbs_count: 2 * u64::from(own),
            wave_count: 2,
            mean_wave_fill: 0.5,
            waves: vec![wave, wave],
            cuts: vec![CutCount { cut: WaveCut::Full.into(), waves: 2 }],
            ..LatencyRecord::default()
        }
    }

    #[test]
    fn a_shared_wave_counts_once() {
        let pulse = Pulse::default();
        for (own, seconds) in [(2, 1), (6, 3)] {
            pulse.ended(JobState::Succeeded, "", &record(own, seconds));
        }
        pulse.queue(5, 4);
        pulse.sample(7, 2.0);
        let [sample] = &pulse.samples()[..] else { panic!("one sample") };
        let expected = Sample {
            at_micros: 7,
            queued: 5,
            running: 4,
            jobs_per_second: 1.0,
            failures_per_second: 0.0,
            bootstraps_per_second: 8.0,
            wave_fill: Some(0.5),
            wave_width: Some(8.0),
            cuts_per_second: [1.0, 0.0, 0.0, 0.0, 0.0],
            p50_seconds: Some(1.0),
            p99_seconds: Some(3.0),
        };
        assert_eq!(*sample, expected);
    }

    #[test]
    fn an_interval_without_jobs_has_rates_of_zero_and_no_means() {
        let pulse = Pulse::default();
        pulse.ended(JobState::Failed, "JOB_POISON", &LatencyRecord::default());
        pulse.sample(1, 2.0);
        pulse.sample(2, 2.0);
        let [first, second] = &pulse.samples()[..] else { panic!("two samples") };
        assert_eq!((first.failures_per_second, first.wave_fill), (0.5, None));
        assert_eq!(*second, Sample { at_micros: 2, ..Sample::default() });
    }

    #[test]
    fn samples_and_times_are_limited() {
        let pulse = Pulse::default();
        for _ in 0..2 * TIMES_MAX {
            pulse.ended(
                JobState::Succeeded,
                "",
                &LatencyRecord { wall_nanos: u64::MAX, pbs_count: u64::MAX, ..record(8, 1) },
            );
        }
        assert_eq!(pulse.state().now.times.len(), TIMES_MAX);
        for at_micros in 0..2 * PULSE_SAMPLES_MAX as i64 {
            pulse.sample(at_micros, 2.0);
        }
        let samples = pulse.samples();
        assert_eq!((samples.len(), samples[0].at_micros), (PULSE_SAMPLES_MAX, PULSE_SAMPLES_MAX as i64));
    }

    #[test]
    fn reasons_are_sorted_by_their_frequency() {
        let pulse = Pulse::default();
        ["OVERLOADED", "UNAUTHENTICATED", "UNAUTHENTICATED"].iter().for_each(|reason| pulse.refused(reason));
        pulse.ended(JobState::Failed, "JOB_POISON", &LatencyRecord::default());
        let reasons = pulse.reasons();
        assert_eq!(reasons[0], ("UNAUTHENTICATED", ReasonCounts { calls: 2, jobs: 0 }));
        assert_eq!(reasons[1], ("JOB_POISON", ReasonCounts { calls: 0, jobs: 1 }));
    }
}
