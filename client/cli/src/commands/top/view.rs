//! Screen layout of `top`.

use std::collections::BTreeMap;

use cloakwork_client::proto::Pool;
use ratatui::{
    Frame,
    layout::{Constraint, Layout},
    text::Line,
    widgets::{Block, Paragraph},
};

use super::Snapshot;
use crate::{
    metrics::Reading,
    output::{Table, duration},
};

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, snapshot: &Snapshot) {
    let pools = pools(&snapshot.pools).render();
    let height = pools.lines().count() as u16 + 2;
    let rows = [Constraint::Length(1), Constraint::Length(height), Constraint::Min(0)];
    let [title, top, bottom] = Layout::vertical(rows).areas(frame.area());
    let line = format!("cloakwork top   {} {}   q quits", snapshot.server, snapshot.version);
    frame.render_widget(Line::from(line), title);
    frame.render_widget(Paragraph::new(pools).block(Block::bordered().title(" pools ")), top);
    let readings = match &snapshot.problem {
        Some(problem) => problem.clone(),
        None => readings(&snapshot.readings).render(),
    };
    frame.render_widget(Paragraph::new(readings).block(Block::bordered().title(" queues and rates ")), bottom);
}

/// Makes a row for each pool and each parameter set that was measured there.
pub(super) fn pools(pools: &[Pool]) -> Table {
    let mut table = Table::new(["pool", "workers", "verified", "wave", "time", "bootstraps/s", "parameter set"]);
    for pool in pools {
        let (kind, workers, verified) = (pool.kind.clone(), pool.workers.to_string(), verified(pool));
        if pool.waves.is_empty() {
            let blank = || "-".to_owned();
            let [kind, workers, verified] = [&kind, &workers, &verified].map(Clone::clone);
            table.row([kind, workers, verified, blank(), blank(), blank(), "not measured".into()]);
        }
        for wave in &pool.waves {
            let rate = 1e6 * f64::from(wave.width) / wave.micros.max(1) as f64;
            table.row([
                kind.clone(),
                workers.clone(),
                verified.clone(),
                wave.width.to_string(),
                duration(1000 * wave.micros),
                format!("{rate:.0}"),
                wave.parameter_set.clone(),
            ]);
        }
    }
    table
}

/// The share of rows that a second worker computes too.
fn verified(pool: &Pool) -> String {
    match (pool.verify_percent, pool.verifiable) {
        (0, _) => "off".into(),
        (_, false) => "not on all".into(),
        (percent, true) => format!("{percent} %"),
    }
}

/// Prefixes of the names of series, in the order of display. Other series come last.
const SUBJECTS: [&str; 9] = ["workers", "jobs_", "job_oldest", "pbs_", "wave_", "job_", "keys_", "key_", "upload"];

/// Makes a row for each series.
pub(super) fn readings(readings: &BTreeMap<String, Reading>) -> Table {
    let mut table = Table::new(["now", "", "series"]);
    let readings = readings.iter().map(|(series, reading)| (series.trim_start_matches("cloakwork_"), reading));
    let mut readings: Vec<_> = readings.collect();
    let subject = |series: &str| SUBJECTS.iter().position(|begin| series.starts_with(begin)).unwrap_or(SUBJECTS.len());
    readings.sort_by_key(|(series, _)| subject(series));
    for (series, reading) in readings {
        let (value, unit) = match reading {
            Reading::Value(value) => (value, ""),
            Reading::Rate(value) => (value, "/s"),
            Reading::Mean(value) => (value, "mean"),
        };
        table.row([number(*value), unit.into(), series.to_owned()]);
    }
    table
}

/// Formats a number with about three figures, whatever its size.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        ..0.01 => format!("{value:.1e}"),
        ..10.0 => format!("{value:.2}"),
        ..1e6 => format!("{value:.0}"),
        _ => format!("{:.1}M", value / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_client::proto::PreferredWave;
    use ratatui::{Terminal, backend::TestBackend};

    use super::*;

    #[test]
    fn the_screen_shows_pools_and_readings() {
        let wave = PreferredWave { parameter_set: "SET".into(), width: 64, micros: 320_000 };
        let snapshot = Snapshot {
            server: "http://host".into(),
            pools: vec![Pool {
                kind: "cpu".into(),
                workers: 2,
                waves: vec![wave],
                verify_percent: 5,
                verifiable: true,
            }],
            readings: [("grpc_calls", 1.0), ("pbs_total", 201.7)]
                .map(|(name, rate)| (format!("cloakwork_{name}"), Reading::Rate(rate)))
                .into(),
            ..Snapshot::default()
        };
        let mut terminal = Terminal::new(TestBackend::new(80, 12)).expect("a screen");
        terminal.draw(|frame| draw(frame, &snapshot)).expect("a frame");
        let screen = terminal.backend().to_string();
        for part in ["http://host", "cpu", "5 %", "320.00 ms", "200", "202  /s", "pbs_total"] {
            assert!(screen.contains(part), "{part} is not in\n{screen}");
        }
        assert!(screen.find("pbs_total") < screen.find("grpc_calls"), "work comes before calls:\n{screen}");
    }
}
