//! The forms in which usage is printed.

use std::fmt::Write as _;

use cloakwork_client::proto::DayUsage;
use serde_json::{Value, json};

use crate::{
    output::{Table, bytes, duration},
    visible::one_line,
};

/// A table with a row of totals.
pub(super) fn table(days: &[DayUsage]) -> String {
    let mut table = Table::new([
        "tenant",
        "day",
        "jobs",
        "unsuccessful",
        "bootstraps",
        "device time",
        "received",
        "stored",
        "keys stored",
    ]);
    for day in days.iter().chain([&total(days)]) {
        table.row([
            day.tenant.clone(),
            day.day.clone(),
            day.jobs.to_string(),
            day.unsuccessful_jobs.to_string(),
            day.bootstraps.to_string(),
            duration(day.device_micros.saturating_mul(1000)),
            bytes(day.received_bytes),
            format!("{} h", bytes((day.stored_byte_seconds / 3600.0) as u64)),
            format!("{:.1} h", day.key_seconds / 3600.0),
        ]);
    }
    table.render()
}

fn total(days: &[DayUsage]) -> DayUsage {
    let mut total = DayUsage { tenant: "total".into(), day: "-".into(), ..DayUsage::default() };
    for day in days {
        total.jobs = total.jobs.saturating_add(day.jobs);
        total.unsuccessful_jobs = total.unsuccessful_jobs.saturating_add(day.unsuccessful_jobs);
        total.bootstraps = total.bootstraps.saturating_add(day.bootstraps);
        total.device_micros = total.device_micros.saturating_add(day.device_micros);
        total.received_bytes = total.received_bytes.saturating_add(day.received_bytes);
        total.stored_byte_seconds += day.stored_byte_seconds;
        total.key_seconds += day.key_seconds;
    }
    total
}

/// A measure of usage in the forms for programs.
struct Measure {
    /// Column and field. The metric is `cloakwork_usage_{name}_total`.
    name: &'static str,
    /// Unit of the metric, with which the name ends.
    unit: Option<&'static str>,
    help: &'static str,
    value: fn(&DayUsage) -> String,
}

const MEASURES: [Measure; 7] = [
    Measure { name: "jobs", unit: None, help: "Jobs that ended on the day.", value: |day| day.jobs.to_string() },
    Measure {
        name: "unsuccessful_jobs",
        unit: None,
        help: "Jobs that ended on the day and did not succeed.",
        value: |day| day.unsuccessful_jobs.to_string(),
    },
    Measure {
        name: "bootstraps",
        unit: None,
        help: "Bootstraps of the jobs.",
        value: |day| day.bootstraps.to_string(),
    },
    Measure {
        name: "device_seconds",
        unit: Some("seconds"),
        help: "Time of devices for the jobs.",
        value: |day| format!("{}.{:06}", day.device_micros / 1_000_000, day.device_micros % 1_000_000),
    },
    Measure {
        name: "received_bytes",
        unit: Some("bytes"),
        help: "Bytes received from the tenant.",
        value: |day| day.received_bytes.to_string(),
    },
    Measure {
        name: "stored_byte_seconds",
        unit: Some("byte_seconds"),
        help: "Bytes times the seconds for which they were stored.",
        value: |day| day.stored_byte_seconds.to_string(),
    },
    Measure {
        name: "key_seconds",
        unit: Some("key_seconds"),
        help: "Keys times the seconds for which they were stored.",
        value: |day| day.key_seconds.to_string(),
    },
];

/// Comma-separated values under a header, as RFC 4180 has them.
pub(super) fn csv(days: &[DayUsage]) -> String {
    let line = |cells: Vec<String>| cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\r\n";
    let names = ["tenant", "day"].into_iter().chain(MEASURES.iter().map(|measure| measure.name));
    let mut text = line(names.map(str::to_owned).collect());
    for day in days {
        let names = [&day.tenant, &day.day].map(|name| one_line(name));
        text += &line(names.into_iter().chain(MEASURES.iter().map(|measure| (measure.value)(day))).collect());
    }
    text
}

/// A cell of CSV, in quotes where it needs them.
fn quoted(cell: &str) -> String {
    match cell.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

/// A JSON array.
pub(super) fn document(days: &[DayUsage]) -> Value {
    let document = |day: &DayUsage| {
        json!({
            "tenant": day.tenant,
            "day": day.day,
            "jobs": day.jobs,
            "unsuccessful_jobs": day.unsuccessful_jobs,
            "bootstraps": day.bootstraps,
            "device_seconds": day.device_micros as f64 / 1e6,
            "received_bytes": day.received_bytes,
            "stored_byte_seconds": day.stored_byte_seconds,
            "key_seconds": day.key_seconds,
        })
    };
    days.iter().map(document).collect()
}

/// OpenMetrics text. The usage of a day only grows, so each measure is a counter.
pub(super) fn openmetrics(days: &[DayUsage]) -> String {
    let mut text = String::new();
    for Measure { name, unit, help, value } in &MEASURES {
        let family = format!("cloakwork_usage_{name}");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# TYPE {family} counter");
        if let Some(unit) = unit {
            let _ = writeln!(text, "# UNIT {family} {unit}");
        }
        let _ = writeln!(text, "# HELP {family} {help}");
        for day in days {
            let (tenant, date) = (label(&day.tenant), label(&day.day));
            let _ = writeln!(text, "{family}_total{{tenant=\"{tenant}\",day=\"{date}\"}} {}", value(day));
        }
    }
    text + "# EOF\n"
}

/// The value of a label, with its quotation marks and backslashes escaped.
fn label(text: &str) -> String {
    one_line(text).replace('\\', r"\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days() -> [DayUsage; 2] {
        let first = DayUsage {
            tenant: "acme".into(),
            day: "2026-01-30".into(),
            jobs: 3,
            unsuccessful_jobs: 1,
            bootstraps: 1200,
            device_micros: 4_000_007,
            received_bytes: 360_000_000,
            stored_byte_seconds: 8.64e13,
            key_seconds: 86_400.0,
        };
        let hostile = DayUsage {
            tenant: "a\",\nb\\\u{1b}".into(),
            day: "2026-01-31".into(),
            jobs: u64::MAX,
            ..DayUsage::default()
        };
        [first, hostile]
    }

    #[test]
    fn the_table_ends_with_totals() {
        let [first, second] = days();
        let second = DayUsage { tenant: "b".into(), jobs: 4, ..second };
        let text = "\
tenant         day  jobs  unsuccessful  bootstraps  device time  received     stored  keys stored
acme    2026-01-30     3             1        1200       4.00 s  360.0 MB  24.00 GB h       24.0 h
b       2026-01-31     4             0           0         0 ns       0 B        0 B h        0.0 h
total            -     7             1        1200       4.00 s  360.0 MB  24.00 GB h       24.0 h
";
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeezed(&table(&[first, second])), squeezed(text));
        // Sums stay at the largest number.
        let [_, huge] = days();
        assert_eq!(total(&[huge.clone(), huge]).jobs, u64::MAX);
        assert!(table(&[]).lines().nth(1).is_some_and(|line| line.starts_with("total")));
    }

    #[test]
    fn csv_quotes_what_would_break_a_row() {
        let text = "tenant,day,jobs,unsuccessful_jobs,bootstraps,device_seconds,received_bytes,stored_byte_seconds,key_seconds\r\n\
                    acme,2026-01-30,3,1,1200,4.000007,360000000,86400000000000,86400\r\n\
                    \"a\"\",\\nb\\\\u{1b}\",2026-01-31,18446744073709551615,0,0,0.000000,0,0,0\r\n";
        assert_eq!(csv(&days()), text);
        assert_eq!(["a", "a,b", "a\"b", "a\r\nb"].map(quoted), ["a", "\"a,b\"", "\"a\"\"b\"", "\"a\r\nb\""]);
    }

    #[test]
    fn json_is_an_array_with_the_columns_of_csv() {
        let shown = document(&days());
        assert_eq!(shown.as_array().map(Vec::len), Some(2));
        assert_eq!(
            (&shown[0]["device_seconds"], &shown[0]["stored_byte_seconds"]),
            (&json!(4.000_007), &json!(8.64e13))
        );
        // Programs get the name as it is, and every number in full.
        assert_eq!((&shown[1]["tenant"], &shown[1]["jobs"]), (&json!("a\",\nb\\\u{1b}"), &json!(u64::MAX)));
        let text = csv(&days());
        for name in text.lines().next().expect("a header").split(',') {
            assert!(!shown[0][name].is_null(), "{name}");
        }
    }

    #[test]
    fn openmetrics_has_families_with_their_samples_and_an_end() {
        let text = openmetrics(&days());
        let begin = "\
# TYPE cloakwork_usage_jobs counter
# HELP cloakwork_usage_jobs Jobs that ended on the day.
cloakwork_usage_jobs_total{tenant=\"acme\",day=\"2026-01-30\"} 3
cloakwork_usage_jobs_total{tenant=\"a\\\",\\\\nb\\\\\\\\u{1b}\",day=\"2026-01-31\"} 18446744073709551615
# TYPE cloakwork_usage_unsuccessful_jobs counter
";
        assert!(text.starts_with(begin), "{text}");
        assert!(text.contains("\n# UNIT cloakwork_usage_device_seconds seconds\n"), "{text}");
        assert!(text.contains("cloakwork_usage_device_seconds_total{tenant=\"acme\",day=\"2026-01-30\"} 4.000007\n"));
        assert!(text.ends_with("\n# EOF\n") && text.lines().count() == 7 * 4 + 4 + 1, "{text}");
        assert_eq!(openmetrics(&[]).lines().count(), 7 * 2 + 4 + 1);
        for measure in MEASURES {
            assert!(measure.unit.is_none_or(|unit| measure.name.ends_with(unit)), "{}", measure.name);
        }
    }
}
