//! What came out.

use serde::Serialize;

/// Everything that one run measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What computed.
    pub device: String,
    /// Each set.
    pub sets: Vec<SetReport>,
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
    /// As a table in Markdown.
    pub fn table(&self) -> String {
        let mut table = format!("{}\n", self.device);
        for set in &self.sets {
            table += &format!(
                "\n{}: key of {:.1} MiB ready after {:.1} ms; {} of {} results wrong\n\n\
                 | width | waves | us, median | us, p99 | key switch | blind rotation | with transfers | a second |\n\
                 |---|---|---|---|---|---|---|---|\n",
                set.set,
                set.key_bytes as f64 / f64::from(1 << 20),
                set.key_load_ms,
                set.wrong,
                set.checked
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
        table
    }
}
