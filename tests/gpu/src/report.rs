//! What came out.

use serde::Serialize;

/// Everything that one run measured.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// What computed.
    pub device: String,
    /// Programs of integers, and the set that they ran under.
    pub programs: Vec<ProgramReport>,
    /// Its name; empty where no set of the plan takes integers.
    pub programs_set: String,
    /// Each set.
    pub sets: Vec<SetReport>,
    /// What there was no time left for.
    pub left_out: Vec<String>,
}

/// One program, as jobs of one row, one at a time.
#[derive(Clone, Debug, Serialize)]
pub struct ProgramReport {
    /// What it computes.
    pub program: String,
    /// Bootstraps of a job.
    pub bootstraps: u64,
    /// Waves of a job, one after the other.
    pub waves: u64,
    /// Jobs that were timed.
    pub rounds: usize,
    /// Milliseconds from a job's arrival at the worker to its results: half of the jobs took at most so long.
    pub median_ms: f64,
    /// And 99 of 100 so long; absent where there are fewer than a hundred.
    pub p99_ms: Option<f64>,
    /// And all of them so long.
    pub max_ms: f64,
    /// Of it, the median of key switches.
    pub key_switch_ms: f64,
    /// And of blind rotations.
    pub blind_rotate_ms: f64,
    /// Jobs whose results came out wrong. All were decrypted, also the one before those that were timed.
    pub wrong: u64,
}

/// What one parameter set showed.
#[derive(Clone, Debug, Serialize)]
pub struct SetReport {
    /// Its name.
    pub set: String,
    /// Milliseconds from a key's stored bytes to a key that is ready, the bytes in memory.
    pub key_load_ms: f64,
    /// Bytes of the key on each GPU.
    pub key_bytes: u64,
    /// Each width of wave.
    pub widths: Vec<WidthReport>,
    /// Bootstraps for each joule that the GPUs draw, in waves of the largest width that follow one another; absent where
    /// they do not tell.
    pub per_joule: Option<f64>,
    /// Bootstraps whose results were decrypted.
    pub checked: u64,
    /// Those that came out wrong.
    pub wrong: u64,
}

/// Waves of one width.
#[derive(Clone, Debug, Serialize)]
pub struct WidthReport {
    /// Bootstraps in a wave, each with its key switch.
    pub width: usize,
    /// Waves that were timed.
    pub waves: usize,
    /// Microseconds of a wave, by the device: half of the waves took at most so long.
    pub median_us: f64,
    /// And 99 of 100 so long; absent where there are fewer than a hundred.
    pub p99_us: Option<f64>,
    /// And all of them so long.
    pub max_us: f64,
    /// Of it, the median of key switches.
    pub key_switch_us: f64,
    /// And of blind rotations.
    pub blind_rotate_us: f64,
    /// Median with ciphertexts written before and read after.
    pub with_transfers_us: f64,
    /// Bootstraps a second, from the median.
    pub per_second: f64,
}

impl Report {
    /// Results that came out wrong, of bootstraps and of programs.
    pub fn wrong(&self) -> u64 {
        let bootstraps = self.sets.iter().map(|set| set.wrong);
        bootstraps.chain(self.programs.iter().map(|program| program.wrong)).sum()
    }

    /// As tables in Markdown.
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
             | program | bootstraps | waves | jobs | ms, median | ms, p99 | ms, max | key switch | blind rotation | wrong |\n\
             |---|---|---|---|---|---|---|---|---|---|\n",
            self.programs_set
        );
        for row in &self.programs {
            table += &format!(
                "| {} | {} | {} | {} | {:.2} | {} | {:.2} | {:.2} | {:.2} | {} |\n",
                row.program,
                row.bootstraps,
                row.waves,
                row.rounds,
                row.median_ms,
                row.p99_ms.map_or("-".to_owned(), |p99| format!("{p99:.2}")),
                row.max_ms,
                row.key_switch_ms,
                row.blind_rotate_ms,
                row.wrong
            );
        }
        table
    }
}

/// What values are at most: half of them, 99 of 100, and all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    /// Of a hundred at least: of fewer, it would be the greatest by another name.
    pub(crate) p99: Option<f64>,
    pub(crate) max: f64,
}

impl Spread {
    /// Of one value at least.
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
    fn a_hundredth_is_told_of_a_hundred_values_at_least() {
        let up_to = |count: u32| Spread::of((1..=count).rev().map(f64::from).collect());
        assert_eq!(up_to(1), Spread { median: 1.0, p99: None, max: 1.0 });
        assert_eq!(up_to(99), Spread { median: 50.0, p99: None, max: 99.0 });
        assert_eq!(up_to(100), Spread { median: 50.0, p99: Some(99.0), max: 100.0 });
        assert_eq!(up_to(1000), Spread { median: 500.0, p99: Some(990.0), max: 1000.0 });
    }
}
