//! The table on the terminal and the file beside it.

use std::{fs, io, path::Path};

use cloakwork_tests_machine::{cores, cpu, date, load};
use serde_json::{Value, json};

use crate::{
    cases::{Kind, Row},
    measure::{Measurement, Spread},
    ours,
    resident::{LIMIT, Resident},
};

/// A measured row.
pub struct Result {
    /// Case and kind.
    pub name: String,
    /// Parameter set.
    pub set: &'static str,
    /// What was measured, and the ratio it should reach.
    pub row: Row,
    /// What came out.
    pub measurement: Measurement,
}

impl Result {
    /// A time per operation in the row's unit.
    fn figure(&self, seconds: f64) -> f64 {
        if self.row.kind == Kind::Throughput { 1.0 / seconds } else { 1e3 * seconds }
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
        let header = json!({
            "date": date(),
            "cpu": cpu(),
            "cores": cores(),
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
        let Value::Object(header) = &self.header else { return };
        println!(
            "{}, {} cores, load {}, {}",
            text(&header["cpu"]),
            header["cores"],
            header["load"],
            text(&header["date"])
        );
        println!("ours: compiled for {}, kernels {}", header["ours"]["compiled_for"], text(&header["ours"]["kernels"]));
        println!("tfhe-rs {}: compiled for {}", peer_tfhe::VERSION, header["peer"]["compiled_for"]);
        println!();
        println!("{:<40} {:>9} {:>9}              ratio  middle half    cpu    required", "", "ours", "tfhe-rs");
    }

    /// Prints a row and keeps it.
    pub fn add(&mut self, result: Result) {
        let Measurement { pairs, ours, peer, least, ratio, cpu_ratio } = &result.measurement;
        let (ours, peer, least) =
            (result.figure(*ours), result.figure(*peer), (result.figure(least.0), result.figure(least.1)));
        let (unit, required) = (result.row.kind.unit(), result.row.required);
        let met = ratio.median >= required;
        println!(
            "{:<40} {ours:>9.2} {peer:>9.2} {unit:<10}  {:>6.3}  {:.3} - {:.3}  {:.3}  {required:.2} {}",
            result.name,
            ratio.median,
            ratio.first_quartile,
            ratio.third_quartile,
            cpu_ratio.median,
            if met { "" } else { "MISSED" },
        );
        self.rows.push(json!({
            "name": result.name,
            "set": result.set,
            "unit": unit,
            "ours": ours,
            "peer": peer,
            "best": { "ours": least.0, "peer": least.1 },
            "ratio": ratio.median,
            "ratio_spread": spread(ratio),
            "cpu_ratio": cpu_ratio.median,
            "cpu_ratio_spread": spread(cpu_ratio),
            "pairs": pairs,
            "required": required,
            "met": met,
            "load": load(),
        }));
    }

    /// Prints the memory row and keeps it.
    pub fn add_memory(&mut self, name: &str, memory: Resident) {
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let ratio = memory.loaded as f64 / memory.key as f64;
        let met = ratio <= LIMIT;
        println!(
            "{name:<40} {:>9.2} {:>9} MiB         {ratio:>6.3} of the key's {:.2} MiB (peak {:.2} MiB); at most {LIMIT} {}",
            mebibytes(memory.loaded),
            "",
            mebibytes(memory.key),
            mebibytes(memory.peak),
            if met { "" } else { "MISSED" },
        );
        self.rows.push(json!({
            "name": name,
            "unit": "MiB",
            "ours": mebibytes(memory.loaded),
            "peak": mebibytes(memory.peak),
            "key": mebibytes(memory.key),
            "over_key": ratio,
            "limit": LIMIT,
            "met": met,
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

fn spread(spread: &Spread) -> Value {
    json!({
        "least": spread.least,
        "first_quartile": spread.first_quartile,
        "third_quartile": spread.third_quartile,
        "most": spread.most,
    })
}
