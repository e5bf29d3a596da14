//! The latency record as a table and as a JSON document.

use cloakwork_client::{
    STAGES,
    proto::{LatencyRecord, WaveCut},
    stage_nanos,
};
use serde_json::{Map, Value, json};

use crate::output::{Table, duration};

/// Table of the stages that took time, with figures on the waves or the operations.
pub(crate) fn table(record: &LatencyRecord) -> String {
    let nanos = stage_nanos(record);
    let total = nanos.iter().sum::<u64>();
    let mut table = Table::new(["stage", "time", "share"]);
    for (stage, nanos) in STAGES.iter().zip(nanos).filter(|(_, nanos)| *nanos > 0) {
        let share = 100.0 * nanos as f64 / total.max(1) as f64;
        table.row([stage.to_string(), duration(nanos), format!("{share:.1} %")]);
    }
    table.row(["all".into(), duration(total), "100.0 %".into()]);
    let LatencyRecord { pbs_count, wave_count, companion_waves, mean_wave_fill, worker, device, attempts, .. } = record;
    let again = if *attempts > 1 { format!(", attempt {attempts}") } else { String::new() };
    let fill = 100.0 * mean_wave_fill;
    let mut text = table.render();
    let bootstraps = counted(*pbs_count, "bootstrap");
    if record.operations.is_empty() {
        let waves = match companion_waves {
            0 => counted(*wave_count, "wave"),
            some => format!("{} ({some} under the companion)", counted(*wave_count, "wave")),
        };
        text += &format!("{bootstraps} in {waves}, filled to {fill:.0} %{again}\n");
    } else {
        text += &format!("{bootstraps}{again}\n\n{}", operations(record));
    }
    if !(worker.is_empty() && device.is_empty()) {
        text += &format!("worker {worker}, device {device}\n");
    }
    text
}

/// Table of the operations of a program on vectors.
fn operations(record: &LatencyRecord) -> String {
    let mut table = Table::new(["operation", "count", "time"]);
    for operation in &record.operations {
        table.row([operation.name.clone(), operation.count.to_string(), duration(operation.nanos)]);
    }
    table.render()
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// All fields of the record; stages in nanoseconds.
pub(crate) fn document(record: &LatencyRecord) -> Value {
    let mut stages = Map::new();
    for (stage, nanos) in STAGES.iter().zip(stage_nanos(record)) {
        stages.insert(format!("{stage}_nanos"), nanos.into());
    }
    let cut = |cut: WaveCut| cut.as_str_name().trim_start_matches("WAVE_CUT_").to_lowercase();
    let cuts: Map<_, _> = record.cuts.iter().map(|count| (cut(count.cut()), count.waves.into())).collect();
    let operations: Map<_, _> = record
        .operations
        .iter()
        .map(|operation| (operation.name.clone(), json!({ "count": operation.count, "nanos": operation.nanos })))
        .collect();
    json!({
        "stages": stages,
        "wall_nanos": record.wall_nanos,
        "pbs_count": record.pbs_count,
        "wave_count": record.wave_count,
        "companion_waves": record.companion_waves,
        "mean_wave_fill": record.mean_wave_fill,
        "cuts": cuts,
        "operations": operations,
        "worker": record.worker,
        "device": record.device,
        "attempts": record.attempts,
    })
}
