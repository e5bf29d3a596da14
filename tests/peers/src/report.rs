//! The table on the terminal and the file beside it.

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
    /// Case and kind.
    pub name: String,
    /// Parameter set.
    pub set: &'static str,
    /// What was measured, and the ratio it should reach.
    pub row: Row,
    /// What came out.
    pub measurement: Measurement,
    /// What both sides were, where they were not what the header says.
    pub sides: Option<Value>,
}

impl Result {
    /// What `slices` say of a row.
    pub fn new(case: &Case, row: &Row, slices: Slices) -> Self {
        let measurement = Measurement::of(slices);
        Self { name: case.name(row.kind), set: case.set, row: *row, measurement, sides: None }
    }

    /// Measured in a program of another build.
    pub fn of_other_build(self, sides: &Value) -> Self {
        Self { sides: Some(sides.clone()), ..self }
    }

    /// A time per operation in the row's unit.
    fn figure(&self, seconds: f64) -> f64 {
        if self.row.kind == Kind::Throughput { 1.0 / seconds } else { 1e3 * seconds }
    }
}

/// How much of the bootstrap key a bootstrap may read at the default tile, and how much it should.
const KEY_READ: (f64, f64) = (1.0 / 8.0, 1.0 / 16.0);

/// Name of the row that says how much it reads.
pub fn key_read_name(case: &Case) -> String {
    format!("{} bootstrap key read, at the tile", case.label)
}

/// What both sides of this program are.
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

/// The same in words.
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

/// Everything that one run found out.
pub struct Report {
    header: Value,
    rows: Vec<Value>,
}

impl Report {
    /// An empty report that knows the machine.
    pub fn new() -> Self {
        let mut header = sides_json();
        header["date"] = date().into();
        header["cpu"] = cpu().into();
        header["cores"] = cores().into();
        header["load"] = load().into();
        header["ratio"] = "the peer's time over ours, slice by slice; above 1, ours is faster".into();
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
        println!("{}\n", sides_text(&self.header));
        println!("{:<40} {:>9} {:>9}              ratio  middle half    cpu    required  aim", "", "ours", "tfhe-rs");
    }

    /// Prints a row and keeps it.
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

    /// Prints how much of a bootstrap key of `bytes` a bootstrap reads when `tile` share one read, and keeps it.
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
