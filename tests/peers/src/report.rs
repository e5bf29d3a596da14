//! The table on the terminal and the file beside it.

use std::{fs, io, path::Path, process::Command};

use serde_json::{Value, json};

use crate::{measure::Measurement, ours};

/// A measured row.
pub struct Result {
    pub name: String,
    pub set: &'static str,
    pub unit: &'static str,
    /// Milliseconds in a second, or operations in a slice: a figure is `scale * seconds` or `scale / seconds`.
    pub scale: f64,
    pub required: f64,
    pub measurement: Measurement,
}

impl Result {
    fn figure(&self, seconds: f64) -> f64 {
        if self.unit == "ms" { self.scale * seconds } else { self.scale / seconds }
    }
}

/// Everything that one run found out.
pub struct Report {
    header: Value,
    rows: Vec<Value>,
}

impl Report {
    /// An empty report that knows the machine.
    pub fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let header = json!({
            "date": date(),
            "cpu": cpu(),
            "cores": cores,
            "load": load(),
            "ours": {
                "version": env!("CARGO_PKG_VERSION"),
                "compiled_for": ours::target_features(),
                "kernels": format!("{:?}", cloakwork_math::simd::Level::detect()),
            },
            "peer": {
                "name": "tfhe-rs",
                "version": peer_tfhe::VERSION,
                "compiled_for": peer_tfhe::target_features(),
            },
            "ratio": "the peer's time over ours, slice by slice; above 1, ours is faster",
        });
        Self { header, rows: Vec::new() }
    }

    /// What was compared on what, and the table's head.
    pub fn print_header(&self) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        println!(
            "{}, {} cores, load {}, {}",
            text(&self.header["cpu"]),
            self.header["cores"],
            self.header["load"][0],
            text(&self.header["date"])
        );
        println!(
            "ours: compiled for {}, kernels {}; tfhe-rs {}: compiled for {}",
            self.header["ours"]["compiled_for"],
            text(&self.header["ours"]["kernels"]),
            peer_tfhe::VERSION,
            self.header["peer"]["compiled_for"],
        );
        println!();
        println!(
            "{:<40} {:>10} {:>10}  {:<10}  {:>6}  {:<13}  {:>8}",
            "", "ours", "tfhe-rs", "", "ratio", "middle half", "required"
        );
    }

    /// Prints a row and keeps it.
    pub fn add(&mut self, result: Result) {
        let Measurement { pairs, ours, peer, ratio } = &result.measurement;
        let (ours, peer) = (result.figure(*ours), result.figure(*peer));
        let met = ratio.median >= result.required;
        println!(
            "{:<40} {ours:>10.2} {peer:>10.2}  {:<10}  {:>6.3}  {:.3} - {:.3}  {:>8} {}",
            result.name,
            result.unit,
            ratio.median,
            ratio.first_quartile,
            ratio.third_quartile,
            result.required,
            if met { "" } else { "MISSED" },
        );
        self.rows.push(json!({
            "name": result.name,
            "set": result.set,
            "unit": result.unit,
            "ours": ours,
            "peer": peer,
            "ratio": ratio.median,
            "ratio_spread": {
                "least": ratio.least,
                "first_quartile": ratio.first_quartile,
                "third_quartile": ratio.third_quartile,
                "most": ratio.most,
            },
            "pairs": pairs,
            "required": result.required,
            "met": met,
            "load": load()[0],
        }));
    }

    /// Writes the report as JSON, making the folder if it is missing.
    pub fn write(&self, path: &str) -> io::Result<()> {
        if let Some(folder) = Path::new(path).parent() {
            fs::create_dir_all(folder)?;
        }
        let report = json!({ "header": self.header, "rows": self.rows });
        fs::write(path, format!("{report:#}\n"))
    }
}

/// Load averages over 1, 5 and 15 minutes: how far to trust the figures.
fn load() -> Vec<f64> {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).filter_map(|word| word.parse().ok()).collect()
}

fn cpu() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split_once(": ").map(|(_, value)| value.trim().to_owned())
    };
    let part = |name| field(name).unwrap_or_default();
    // Virtual machines hide the name; family and model still tell the generation.
    format!("{} (family {} model {})", part("model name"), part("cpu family"), part("model\t"))
}

fn date() -> String {
    let output = Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]).output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
