//! Results of a benchmark.

use std::{collections::BTreeMap, time::Duration};

use cloakwork_client::{STAGES, proto::LatencyRecord, stage_nanos};
use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use super::Outcome;
use crate::output::{Table, counted, duration};

/// Counts, latencies and stages. Each client keeps a report, and the reports are merged at the end.
pub(super) struct Report {
    mode: String,
    rows: usize,
    elapsed: Duration,
    /// Latencies of the jobs that succeeded, in microseconds.
    latencies: Histogram<u64>,
    failures: BTreeMap<String, u64>,
    wrong: u64,
    stages: [u64; STAGES.len()],
    waves: BTreeMap<u32, f64>,
    fill: f64,
}

/// Maximum latency in microseconds: an hour. Longer latencies count as this value.
const LATENCY_MICROS_MAX: u64 = 3_600_000_000;
const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

impl Report {
    pub(super) fn new(rows: usize) -> Self {
        Self {
            mode: String::new(),
            rows,
            elapsed: Duration::ZERO,
            latencies: Histogram::new_with_max(LATENCY_MICROS_MAX, 3).expect("three digits up to an hour"),
            failures: BTreeMap::new(),
            wrong: 0,
            stages: [0; STAGES.len()],
            waves: BTreeMap::new(),
            fill: 0.0,
        }
    }

    pub(super) fn add(&mut self, latency: Duration, outcome: Outcome) {
        match outcome {
            Outcome::Done(record) => {
                let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
                self.latencies.saturating_record(micros);
                self.add_record(&record);
            }
            Outcome::Refused(reason) => *self.failures.entry(reason).or_default() += 1,
            Outcome::Wrong => self.wrong += 1,
        }
    }

    fn add_record(&mut self, record: &LatencyRecord) {
        for (sum, nanos) in self.stages.iter_mut().zip(stage_nanos(record)) {
            *sum += nanos;
        }
        self.fill += record.mean_wave_fill;
        for wave in record.waves.iter().filter(|wave| wave.width > 0) {
            // A wave appears in the record of every job in it, and the shares of these jobs add up
            // to one wave.
            let share = f64::from(wave.own_width) / f64::from(wave.width);
            *self.waves.entry(wave.width.next_power_of_two()).or_default() += share;
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.latencies.add(&other.latencies).expect("histograms of one size");
        for (reason, count) in other.failures {
            *self.failures.entry(reason).or_default() += count;
        }
        for (sum, nanos) in self.stages.iter_mut().zip(other.stages) {
            *sum += nanos;
        }
        for (width, waves) in other.waves {
            *self.waves.entry(width).or_default() += waves;
        }
        self.wrong += other.wrong;
        self.fill += other.fill;
    }

    pub(super) fn finish(&mut self, mode: String, elapsed: Duration) {
        self.mode = mode;
        self.elapsed = elapsed;
    }

    pub(super) fn wrong(&self) -> u64 {
        self.wrong
    }

    fn jobs(&self) -> u64 {
        self.latencies.len()
    }

    fn rate(&self) -> f64 {
        self.jobs() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Mean time of each stage in nanoseconds.
    fn mean_stages(&self) -> impl Iterator<Item = (&'static str, u64)> {
        STAGES.into_iter().zip(self.stages.iter().map(|sum| sum / self.jobs().max(1)))
    }

    pub(super) fn text(&self) -> String {
        let (jobs, rate) = (self.jobs(), self.rate());
        let mut text =
            format!("{}, {} a job, {:.1} s\n", self.mode, counted(self.rows as u64, "row"), self.elapsed.as_secs_f64());
        text += &format!(
            "{}, {rate:.1} a second: {:.1} bootstraps a second\n",
            counted(jobs, "job"),
            rate * self.rows as f64
        );
        for (reason, count) in &self.failures {
            text += &format!("{count} refused: {reason}\n");
        }
        let mut latencies = Table::new(["latency", "of a job"]);
        for (name, quantile) in QUANTILES {
            latencies.row([name.into(), duration(1000 * self.latencies.value_at_quantile(quantile))]);
        }
        latencies.row(["mean".into(), duration((1000.0 * self.latencies.mean()) as u64)]);
        let mut stages = Table::new(["stage", "mean"]);
        for (stage, nanos) in self.mean_stages() {
            stages.row([stage.into(), duration(nanos)]);
        }
        text += &format!("\n{}\n{}", latencies.render(), stages.render());
        let fill = 100.0 * self.fill / jobs.max(1) as f64;
        text += &format!("\nwaves filled to {fill:.0} % in the mean");
        if !self.waves.is_empty() {
            let mut waves = Table::new(["up to", "waves"]);
            for (width, count) in &self.waves {
                waves.row([width.to_string(), format!("{count:.0}")]);
            }
            text += &format!("; by width:\n{}", waves.render());
        } else {
            text.push('\n');
        }
        text
    }

    pub(super) fn document(&self) -> Value {
        let quantiles: Map<_, _> = QUANTILES
            .iter()
            .map(|(name, quantile)| ((*name).to_owned(), self.latencies.value_at_quantile(*quantile).into()))
            .collect();
        let stages: Map<_, _> =
            self.mean_stages().map(|(stage, nanos)| (format!("{stage}_nanos"), nanos.into())).collect();
        let waves: Map<_, _> = self.waves.iter().map(|(width, count)| (width.to_string(), (*count).into())).collect();
        json!({
            "mode": self.mode,
            "rows": self.rows,
            "seconds": self.elapsed.as_secs_f64(),
            "jobs": self.jobs(),
            "jobs_per_second": self.rate(),
            "bootstraps_per_second": self.rate() * self.rows as f64,
            "refused": self.failures,
            "wrong": self.wrong,
            "latency_micros": quantiles,
            "latency_mean_micros": self.latencies.mean(),
            "mean_stages": stages,
            "mean_wave_fill": self.fill / self.jobs().max(1) as f64,
            "waves_by_width": waves,
        })
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_client::proto::WaveRecord;

    use super::*;

    #[test]
    fn reports_of_clients_add_up() {
        let waves = vec![WaveRecord { width: 48, own_width: 12, ..Default::default() }; 2];
        let record = LatencyRecord { queue_nanos: 500, mean_wave_fill: 0.5, waves, ..Default::default() };
        let mut whole = Report::new(4);
        for millis in 1..=100 {
            let mut one = Report::new(4);
            one.add(Duration::from_millis(millis), Outcome::Done(Box::new(record.clone())));
            whole.merge(one);
        }
        let mut bad = Report::new(4);
        bad.add(Duration::ZERO, Outcome::Refused("QUEUE_FULL".into()));
        bad.add(Duration::ZERO, Outcome::Wrong);
        whole.merge(bad);
        whole.finish("closed loop, 2 clients".into(), Duration::from_secs(10));
        let document = whole.document();
        assert_eq!((&document["jobs"], &document["bootstraps_per_second"]), (&json!(100), &json!(40.0)));
        assert_eq!((&document["wrong"], &document["refused"]["QUEUE_FULL"]), (&json!(1), &json!(1)));
        assert_eq!(document["mean_stages"]["queue_nanos"], 500);
        assert_eq!((&document["mean_wave_fill"], &document["waves_by_width"]["64"]), (&json!(0.5), &json!(50.0)));
        let p50 = document["latency_micros"]["p50"].as_u64().expect("a number");
        assert!((50_000..=50_100).contains(&p50), "{p50}");
        assert!(whole.text().contains("100 jobs, 10.0 a second: 40.0 bootstraps a second\n1 refused: QUEUE_FULL\n"));
    }
}
