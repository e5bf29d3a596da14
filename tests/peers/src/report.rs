//! The results, as a table on the terminal and as a file.

use std::{fs, io, path::Path};

use cloakwork_math::simd::Level;
use cloakwork_peers_measure::{Measurement, Slices, Spread};
use cloakwork_tests_machine::{cores, cpu, date, load};
use serde_json::{Value, json};

use crate::{
    cases::{Case, Kind, Row},
    ours,
    resident::{LIMIT, Resident},
};

/// A measured row.
pub struct Result {
    /// Name of the row, from its case and kind.
    pub name: String,
    /// Name of the parameter set.
    pub set: &'static str,
    /// Kind of the measurement, and the required ratio.
    pub row: Row,
    /// Result of the measurement.
    pub measurement: Measurement,
    /// Versions and builds of both sides, where they differ from the header.
    pub sides: Option<Value>,
}

impl Result {
    /// Computes the result of a row from its slices.
    pub fn new(case: &Case, row: &Row, slices: Slices) -> Self {
        let measurement = Measurement::of(slices);
        Self { name: case.name(row.kind), set: case.set, row: *row, measurement, sides: None }
    }

    /// Marks the result as measured in a program of another build.
    pub fn of_other_build(self, sides: &Value) -> Self {
        Self { sides: Some(sides.clone()), ..self }
    }

    /// Converts a time per operation to the row's unit.
    fn figure(&self, seconds: f64) -> f64 {
        if self.row.kind == Kind::Throughput { 1.0 / seconds } else { 1e3 * seconds }
    }
}

/// Largest allowed share of the bootstrap key that a bootstrap reads at the default tile, and the
/// share that is aimed at.
const KEY_READ: (f64, f64) = (1.0 / 8.0, 1.0 / 16.0);

/// Name of the row that states the share of the bootstrap key that is read.
pub fn key_read_name(case: &Case) -> String {
    format!("{} bootstrap key read, at the tile", case.label)
}

/// Versions and builds of both sides of this program.
pub fn sides_json() -> Value {
    json!({
        "ours": {
            "version": env!("CARGO_PKG_VERSION"),
            "compiled_for": ours::target_features(),
            "kernels": Level::detect().name(),
        },
        "peer": {
            "name": "tfhe-rs",
            "version": peer_tfhe::VERSION,
            "compiled_for": peer_tfhe::target_features(),
            "avx512": cfg!(feature = "avx512"),
        },
    })
}

/// Formats versions and builds of both sides as text.
fn sides_text(sides: &Value) -> String {
    let (ours, peer) = (&sides["ours"], &sides["peer"]);
    let feature = if peer["avx512"] == true { "with" } else { "without" };
    format!(
        "ours: compiled for {}, kernels {}\ntfhe-rs {}: {feature} its avx512 feature, compiled for {}",
        ours["compiled_for"],
        ours["kernels"].as_str().unwrap_or_default(),
        peer["version"].as_str().unwrap_or_default(),
        peer["compiled_for"],
    )
}

/// All results of a run.
pub struct Report {
    header: Value,
    rows: Vec<Value>,
}

impl Report {
    /// Makes an empty report that describes the machine.
    pub fn new() -> Self {
        let mut header = sides_json();
        header["date"] = date().into();
        header["cpu"] = cpu().into();
        header["cores"] = cores().into();
        header["load"] = load().into();
        header["ratio"] = "the peer's time over ours, slice by slice; above 1, ours is faster".into();
        Self { header, rows: Vec::new() }
    }

    /// Prints the machine, both sides and the head of the table.
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
        println!("{}\n", sides_text(&self.header));
        println!("{:<40} {:>9} {:>9}              ratio  middle half    cpu    required  aim", "", "ours", "tfhe-rs");
    }

    /// Prints a row and adds it to the report.
    pub fn add(&mut self, result: Result) {
        let Measurement { pairs, ours, peer, least, ratio, cpu_ratio } = &result.measurement;
        let (ours, peer, least) =
            (result.figure(*ours), result.figure(*peer), (result.figure(least.0), result.figure(least.1)));
        let (unit, Row { required, aim, .. }) = (result.row.kind.unit(), result.row);
        let met = ratio.median >= required;
        let aimed = aim.map_or_else(|| "-".into(), |aim| format!("{aim:.2}"));
        println!(
            "{:<40} {ours:>9.2} {peer:>9.2} {unit:<10}  {:>6.3}  {:.3} - {:.3}  {:.3}  {required:>8.2}  {aimed:<4} {}",
            result.name,
            ratio.median,
            ratio.first_quartile,
            ratio.third_quartile,
            cpu_ratio.median,
            verdict(met, aim.is_none_or(|aim| ratio.median >= aim)),
        );
        if let Some(sides) = &result.sides {
            println!("    {}", sides_text(sides).replace('\n', "; "));
        }
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
            "aim": aim,
            "met": met,
            "sides": result.sides,
            "load": load(),
        }));
    }

    /// Prints and records the share of a bootstrap key of `bytes` that a bootstrap reads when
    /// `tile` bootstraps share one read.
    pub fn add_key_read(&mut self, case: &Case, bytes: usize, tile: usize) {
        let (name, share, (limit, aim)) = (key_read_name(case), 1.0 / tile as f64, KEY_READ);
        let (met, mebibytes) = (share <= limit, |bytes: f64| bytes / f64::from(1 << 20));
        let (key, read) = (mebibytes(bytes as f64), mebibytes(bytes as f64 * share));
        println!(
            "{name:<40} {read:>9.2} {:>9} MiB         {share:>6.3} of the key's {key:.2} MiB, computed: a tile of {tile}; \
             at most {limit}, aim {aim} {}",
            "",
            verdict(met, share <= aim),
        );
        self.rows.push(json!({
            "name": name,
            "set": case.set,
            "unit": "MiB",
            "ours": read,
            "key": key,
            "tile": tile,
            "over_key": share,
            "limit": limit,
            "aim": aim,
            "met": met,
        }));
    }

    /// Prints the memory row and adds it to the report.
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

    /// Writes the report as JSON, and creates the folder if it is missing.
    pub fn write(&self, path: &str) -> io::Result<()> {
        if let Some(folder) = Path::new(path).parent() {
            fs::create_dir_all(folder)?;
        }
        let report = json!({ "header": self.header, "rows": self.rows });
        fs::write(path, format!("{report:#}\n"))
    }
}

fn verdict(met: bool, aimed: bool) -> &'static str {
    match (met, aimed) {
        (true, true) => "",
        (true, false) => "under its aim",
        (false, _) => "MISSED",
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
