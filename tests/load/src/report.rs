//! The results, as a table on the terminal and as a file.

use std::{fs, io, path::Path};

use cloakwork_tests_machine::{cores, cpu, date, load};
use serde_json::{Value, json};

/// Bound that a result must keep.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    Least(f64),
    Most(f64),
}

/// A quantity, measured in every round.
pub(crate) struct Row {
    name: String,
    unit: &'static str,
    rounds: Vec<f64>,
    required: Option<Bound>,
}

impl Row {
    pub(crate) fn of(name: &str, unit: &'static str, rounds: &[f64]) -> Self {
        Self { name: name.to_owned(), unit, rounds: rounds.to_vec(), required: None }
    }

    pub(crate) fn required(self, bound: Bound) -> Self {
        Self { required: Some(bound), ..self }
    }
}

/// All results of a run.
pub(crate) struct Report {
    header: Value,
    rows: Vec<Value>,
    histograms: Vec<Value>,
}

impl Report {
    /// Prints the machine, the set and the head of the table.
    pub(crate) fn begin(set: &str) -> Self {
        println!("{}, {} cores, load {}, {}", cpu(), cores(), load().unwrap_or(f64::NAN), date());
        println!("{set}\n");
        println!("{:<48} {:>12} {:<9} {:>25}   required", "", "median", "", "least - most");
        let header = json!({ "date": date(), "cpu": cpu(), "cores": cores(), "load": load(), "set": set });
        Self { header, rows: Vec::new(), histograms: Vec::new() }
    }

    /// Prints a row and adds it to the report.
    pub(crate) fn add(&mut self, row: Row) {
        let mut sorted = row.rounds.clone();
        let median = percentile(&mut sorted, 0.5);
        let (least, most) = (sorted[0], sorted[sorted.len() - 1]);
        let (required, met) = match row.required {
            None => (String::new(), true),
            Some(Bound::Least(bound)) => (format!(">= {bound}"), median >= bound),
            Some(Bound::Most(bound)) => (format!("<= {bound}"), median <= bound),
        };
        let digits = if median >= 1000.0 { 0 } else { 3 };
        let spread = format!("{least:.digits$} - {most:.digits$}");
        let missed = if met { "" } else { "MISSED" };
        println!("{:<48} {median:>12.digits$} {:<9} {spread:>25}   {required} {missed}", row.name, row.unit);
        self.rows.push(json!({
            "name": row.name.trim(),
            "unit": row.unit,
            "median": median,
            "least": least,
            "most": most,
            "rounds": row.rounds,
            "required": required,
            "met": met,
            "load": load(),
        }));
    }

    /// Prints the count of each bucket, and adds the histogram to the report.
    pub(crate) fn histogram(&mut self, name: &str, buckets: &[(String, f64)]) {
        let total: f64 = buckets.iter().map(|(_, count)| count).sum();
        println!("{name}:");
        for (bucket, count) in buckets {
            let share = count / total;
            println!("  {bucket:>10} {count:>8.0}  {}", "#".repeat((share * 50.0).round() as usize));
        }
        let buckets: Vec<Value> =
            buckets.iter().map(|(bucket, count)| json!({ "bucket": bucket, "count": count.round() })).collect();
        self.histograms.push(json!({ "name": name, "buckets": buckets }));
    }

    /// Writes the report as JSON, and creates the folder if it is missing.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let report = json!({ "header": self.header, "rows": self.rows, "histograms": self.histograms });
        fs::write(path, format!("{report:#}\n"))
    }
}

/// The value that `share` of the values do not exceed. Sorts the values.
pub(crate) fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = (share * values.len() as f64).ceil() as usize;
    values[rank.clamp(1, values.len()) - 1]
}
