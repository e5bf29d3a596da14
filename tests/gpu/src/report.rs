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
    /// And 99 of 100 so long.
    pub p99_ms: f64,
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
    /// And 99 of 100 so long.
    pub p99_us: f64,
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
                 | width | waves | us, median | us, p99 | key switch | blind rotation | with transfers | a second |\n\
                 |---|---|---|---|---|---|---|---|\n",
                set.set,
                set.key_bytes as f64 / f64::from(1 << 20),
                set.key_load_ms,
                set.wrong,
                set.checked,
                set.per_joule.map(|rate| format!("; {rate:.1} bootstraps a joule")).unwrap_or_default()
            );
            for row in &set.widths {
                table += &format!(
                    "| {} | {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} |\n",
                    row.width,
                    row.waves,
                    row.median_us,
                    row.p99_us,
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
             | program | bootstraps | waves | jobs | ms, median | ms, p99 | key switch | blind rotation | wrong |\n\
             |---|---|---|---|---|---|---|---|---|\n",
            self.programs_set
        );
        for row in &self.programs {
            table += &format!(
                "| {} | {} | {} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {} |\n",
                row.program,
                row.bootstraps,
                row.waves,
                row.rounds,
                row.median_ms,
                row.p99_ms,
                row.key_switch_ms,
                row.blind_rotate_ms,
                row.wrong
            );
        }
        table
    }
}

/// What a share of the values is at most.
pub(crate) fn share_of(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let index = ((values.len() as f64 * share).ceil() as usize).clamp(1, values.len()) - 1;
    values[index]
}
