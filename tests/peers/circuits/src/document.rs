//! The table of operations in a document, between two marks.

use std::fs;

use crate::{cases::CLEAR, report::Report};

const BEGIN: &str = "<!-- written by make bench-circuits -->\n";
const END: &str = "<!-- end -->\n";

/// Replaces the table in the document.
pub fn update(path: &str, report: &Report) -> Result<(), String> {
    let problem = |error: std::io::Error| format!("{path}: {error}");
    let text = fs::read_to_string(path).map_err(problem)?;
    let (before, rest) = text.split_once(BEGIN).ok_or_else(|| format!("{path} has no line {BEGIN}"))?;
    let (_, after) = rest.split_once(END).ok_or_else(|| format!("{path} has no line {END}"))?;
    fs::write(path, format!("{before}{BEGIN}{}{END}{after}", table(report))).map_err(problem)
}

fn table(report: &Report) -> String {
    let mut table = format!(
        "{} `clear` is {} cut to its highest bits, of a shift the number of half of the bits and one more.\n\n\
         | | bootstraps | depth | ms | tfhe-rs: bootstraps | ms | ratio |\n|---|---|---|---|---|---|---|\n",
        report.machine(),
        format_args!("{CLEAR:#x}"),
    );
    for row in &report.rows {
        let measurement = &row.measurement;
        let ratio = &measurement.ratio;
        let digits = |seconds: f64| {
            if seconds < 1.0 { format!("{:.1}", 1e3 * seconds) } else { format!("{:.0}", 1e3 * seconds) }
        };
        let jobs = row.case.jobs as u64;
        table += &format!(
            "| `{}` | {}{} | {} | {} | {} | {} | **{:.2}** ({:.2}-{:.2}) |\n",
            row.case.name,
            // A job among many takes fewer bootstraps than a job alone.
            if jobs > 1 { "at most " } else { "" },
            row.cost.pbs_count * jobs,
            row.cost.depth,
            digits(measurement.ours),
            row.peer_pbs_count * jobs,
            digits(measurement.peer),
            ratio.median,
            ratio.first_quartile,
            ratio.third_quartile,
        );
    }
    table
}
