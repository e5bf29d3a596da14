//! Results of a measurement.

use serde::Serialize;

/// All results of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Name of the device.
    pub device: String,
    /// Programs of integers.
    pub programs: Vec<ProgramReport>,
    /// Name of the set that the programs ran under. Empty where no set of the plan takes integers.
    pub programs_set: String,
    /// Results of each set.
    pub sets: Vec<SetReport>,
    /// Measurements that there was no time left for.
    pub left_out: Vec<String>,
}

/// Results of one program, run as jobs of one row, one at a time.
#[derive(Clone, Debug, Serialize)]
pub struct ProgramReport {
    /// Name of the program.
    pub program: String,
    /// Number of bootstraps of a job.
    pub bootstraps: u64,
    /// Number of successive waves of a job.
    pub waves: u64,
    /// Number of these waves under the key of the set's companion.
    pub companion_waves: u64,
    /// Number of timed jobs.
    pub rounds: usize,
    /// Milliseconds from a job's arrival at the worker to its results: the median.
    pub median_ms: f64,
    /// The 99th percentile. Absent with fewer than a hundred jobs.
    pub p99_ms: Option<f64>,
    /// The maximum.
    pub max_ms: f64,
    /// Milliseconds of a job's key switches: the median.
    pub key_switch_ms: f64,
    /// Milliseconds of a job's blind rotations: the median.
    pub blind_rotate_ms: f64,
    /// Milliseconds of a job's waves in everything else, such as launches: the median.
    pub other_compute_ms: f64,
    /// Milliseconds in which none of a job's waves was on the device, between its inputs and its
    /// last wave: the median.
    pub wave_wait_ms: f64,
    /// Milliseconds in which a job fetched its inputs: the median.
    pub fetch_ms: f64,
    /// Milliseconds from a job's last wave to its encoded results: the median.
    pub store_ms: f64,
    /// Jobs with wrong results. All jobs were decrypted, including the one before the timed jobs.
    pub wrong: u64,
}

/// Results of one parameter set.
#[derive(Clone, Debug, Serialize)]
pub struct SetReport {
    /// Name of the set.
    pub set: String,
    /// Milliseconds from a key's stored bytes, in memory, to a key that is ready.
    pub key_load_ms: f64,
    /// Size of the key on each GPU in bytes.
    pub key_bytes: u64,
    /// Results of each width of waves.
    pub widths: Vec<WidthReport>,
    /// Bootstraps for each joule that the GPUs draw, in successive waves of the largest width.
    /// Absent where the GPUs have no sensor.
    pub per_joule: Option<f64>,
    /// Number of bootstraps whose results were decrypted.
    pub checked: u64,
    /// Number of bootstraps whose results were wrong.
    pub wrong: u64,
}

/// Results of waves of one width.
#[derive(Clone, Debug, Serialize)]
pub struct WidthReport {
    /// Number of bootstraps in a wave, each with its key switch.
    pub width: usize,
    /// Number of timed waves.
    pub waves: usize,
    /// Microseconds of a wave, measured by the device: the median.
    pub median_us: f64,
    /// The 99th percentile. Absent with fewer than a hundred waves.
    pub p99_us: Option<f64>,
    /// The maximum.
    pub max_us: f64,
    /// Microseconds of a wave's key switches: the median.
    pub key_switch_us: f64,
    /// Microseconds of a wave's blind rotations: the median.
    pub blind_rotate_us: f64,
    /// Median that includes writing the inputs and reading the outputs.
    pub with_transfers_us: f64,
    /// Bootstraps per second, from the median.
    pub per_second: f64,
}

impl Report {
    /// Number of wrong results, of bootstraps and of programs.
    pub fn wrong(&self) -> u64 {
        let bootstraps = self.sets.iter().map(|set| set.wrong);
        bootstraps.chain(self.programs.iter().map(|program| program.wrong)).sum()
    }

    /// The results as tables in Markdown.
    pub fn table(&self) -> String {
        let mut table = format!("{}\n", self.device);
        if !self.programs.is_empty() {
            table += &self.programs_table();
        }
        for set in &self.sets {
            table += &format!(
                "\n{}: key of {:.1} MiB ready after {:.1} ms; {} of {} results wrong{}\n\n\
                 | width | waves | us, median | us, p99 | us, max | key switch | blind rotation | with transfers | a second |\n\
                 |---|---|---|---|---|---|---|---|---|\n",
                set.set,
                set.key_bytes as f64 / f64::from(1 << 20),
                set.key_load_ms,
                set.wrong,
                set.checked,
                set.per_joule.map(|rate| format!("; {rate:.1} bootstraps a joule")).unwrap_or_default()
            );
            for row in &set.widths {
                table += &format!(
                    "| {} | {} | {:.0} | {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} |\n",
                    row.width,
                    row.waves,
                    row.median_us,
                    row.p99_us.map_or("-".to_owned(), |p99| format!("{p99:.0}")),
                    row.max_us,
                    row.key_switch_us,
                    row.blind_rotate_us,
                    row.with_transfers_us,
                    row.per_second
                );
            }
        }
        for part in &self.left_out {
            table += &format!("\nleft out for want of time: {part}\n");
        }
        table
    }

    fn programs_table(&self) -> String {
        let mut table = format!(
            "\n{}: programs, one job at a time\n\n\
             | program | bootstraps | waves | of them under the companion | jobs | ms, median | ms, p99 | ms, max | key switch | blind rotation | other | waiting | fetch | store | wrong |\n\
             |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
            self.programs_set
        );
        for row in &self.programs {
            table += &format!(
                "| {} | {} | {} | {} | {} | {:.2} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {} |\n",
                row.program,
                row.bootstraps,
                row.waves,
                row.companion_waves,
                row.rounds,
                row.median_ms,
                row.p99_ms.map_or("-".to_owned(), |p99| format!("{p99:.2}")),
                row.max_ms,
                row.key_switch_ms,
                row.blind_rotate_ms,
                row.other_compute_ms,
                row.wave_wait_ms,
                row.fetch_ms,
                row.store_ms,
                row.wrong
            );
        }
        table
    }
}

/// Median, 99th percentile and maximum of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    /// Absent with fewer than a hundred values, where it would equal the maximum.
    pub(crate) p99: Option<f64>,
    pub(crate) max: f64,
}

impl Spread {
    /// Computes the spread of at least one value.
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let at_most = |percent: usize| values[(values.len() * percent).div_ceil(100) - 1];
        Self { median: at_most(50), p99: (values.len() >= 100).then(|| at_most(99)), max: at_most(100) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_99th_percentile_needs_at_least_a_hundred_values() {
        let up_to = |count: u32| Spread::of((1..=count).rev().map(f64::from).collect());
        assert_eq!(up_to(1), Spread { median: 1.0, p99: None, max: 1.0 });
        assert_eq!(up_to(99), Spread { median: 50.0, p99: None, max: 99.0 });
        assert_eq!(up_to(100), Spread { median: 50.0, p99: Some(99.0), max: 100.0 });
        assert_eq!(up_to(1000), Spread { median: 500.0, p99: Some(990.0), max: 1000.0 });
    }
}
