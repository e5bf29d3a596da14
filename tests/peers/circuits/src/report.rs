//! The results, as a table on the terminal and as a file.

use std::{fs, io, path::Path};

use cloakwork_peers_measure::Measurement;
use cloakwork_tests_machine::{cores, cpu, date, load};
use serde_json::{Value, json};

use crate::{cases::Case, ours::Cost};

/// A measured row.
pub struct Row {
    pub case: Case,
    /// Cost of our program.
    pub cost: Cost,
    /// Number of tfhe-rs's bootstraps.
    pub peer_pbs_count: u64,
    pub measurement: Measurement,
}

impl Row {
    fn is_met(&self) -> bool {
        self.case.required.is_none_or(|required| self.measurement.ratio.median >= required)
    }
}

/// All results of a run.
pub struct Report {
    header: Value,
    pub rows: Vec<Row>,
}

impl Report {
    /// Prints the machine, the compared versions and the head of the table.
    pub fn begin(set: &str) -> Self {
        println!("{}, {} cores, load {}, {}", cpu(), cores(), load().unwrap_or(f64::NAN), date());
        println!("{set}; ours: a job of the service; tfhe-rs {}: in this process\n", peer_tfhe::VERSION);
        println!(
            "{:<30} {:>10} {:>6} {:>10} {:>6} {:>7}  {:<13} required",
            "", "ours ms", "PBS", "tfhe-rs ms", "PBS", "ratio", "middle half"
        );
        let header = json!({ "date": date(), "cpu": cpu(), "cores": cores(), "load": load(), "set": set });
        Self { header, rows: Vec::new() }
    }

    /// Machine and date of the measurement.
    pub fn machine(&self) -> String {
        let text = |name: &str| self.header[name].as_str().unwrap_or_default().to_owned();
        format!("{}, {} cores, {}.", text("cpu"), self.header["cores"], text("date"))
    }

    /// Prints a row and adds it to the report.
    pub fn add(&mut self, row: Row) {
        let Measurement { ours, peer, ratio, .. } = &row.measurement;
        println!(
            "{:<30} {:>10.1} {:>6} {:>10.1} {:>6} {:>7.2}  ({:.2}-{:.2}) {:>10} {}",
            row.case.name,
            1e3 * ours,
            row.cost.pbs_count,
            1e3 * peer,
            row.peer_pbs_count,
            ratio.median,
            ratio.first_quartile,
            ratio.third_quartile,
            row.case.required.map(|required| format!(">= {required}")).unwrap_or_default(),
            if row.is_met() { "" } else { "MISSED" },
        );
        self.rows.push(row);
    }

    /// Writes the report as JSON, and creates the folder if it is missing.
    pub fn write(&self, path: &str) -> io::Result<()> {
        if let Some(folder) = Path::new(path).parent() {
            fs::create_dir_all(folder)?;
        }
        let row = |row: &Row| {
            let Measurement { pairs, ours, peer, ratio, .. } = &row.measurement;
            json!({
                "name": row.case.name,
                "jobs": row.case.jobs,
                "pairs": pairs,
                "ours": { "seconds": ours, "pbs": row.cost.pbs_count, "depth": row.cost.depth },
                "tfhe-rs": { "seconds": peer, "pbs": row.peer_pbs_count },
                "ratio": {
                    "median": ratio.median,
                    "quartiles": [ratio.first_quartile, ratio.third_quartile],
                    "least": ratio.least,
                    "most": ratio.most,
                },
                "required": row.case.required,
                "met": row.is_met(),
            })
        };
        let rows: Vec<Value> = self.rows.iter().map(row).collect();
        fs::write(path, format!("{:#}\n", json!({ "header": self.header, "rows": rows })))
    }
}
