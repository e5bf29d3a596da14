//! Every limit of the server, in one table. The table defines the `[limits]` section of the
//! configuration, the values that GetCapabilities reports, and `docs/limits.md`.

mod fixed;
mod table;

use std::{fmt::Write as _, ops::RangeInclusive};

pub use fixed::{Fixed, fixed};
pub use table::{LIMITS, Limits};

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Name in the configuration. The name ends in the unit if the value is not a plain number.
    pub name: &'static str,
    /// The default value.
    pub default: u64,
    /// The smallest allowed value.
    pub least: u64,
    /// The largest allowed value.
    pub most: u64,
    /// `count`, `bytes`, `ms` or `seconds`.
    pub unit: &'static str,
    /// Description of the limited quantity.
    pub meaning: &'static str,
    /// Reason for the default.
    pub why: &'static str,
    pub(crate) field: fn(&mut Limits) -> &mut u64,
}

impl Limit {
    /// Returns the row with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        LIMITS.iter().find(|limit| limit.name == name)
    }

    /// The range of allowed values.
    pub fn range(&self) -> RangeInclusive<u64> {
        self.least..=self.most
    }
}

impl Limits {
    /// Each row with its current value.
    pub fn values(&self) -> impl Iterator<Item = (&'static Limit, u64)> {
        let mut copy = self.clone();
        LIMITS.iter().map(move |limit| (limit, *(limit.field)(&mut copy)))
    }

    /// Sets a limit by its name, within its range.
    pub fn set(&mut self, limit: &Limit, value: u64) -> Result<(), String> {
        if !limit.range().contains(&value) {
            return Err(format!("must be between {} and {}, not {value}", limit.least, limit.most));
        }
        *(limit.field)(self) = value;
        Ok(())
    }

    /// Limits that contradict each other, as one sentence for each pair.
    pub fn contradictions(&self) -> Vec<String> {
        let above = self.relations().into_iter().filter(|relation| relation.small > relation.large);
        above
            .map(|relation| {
                let Relation { name, small, large, .. } = relation;
                format!("limits.{name} = {small} must not be more than {} ({large})", relation.bound("limits."))
            })
            .collect()
    }

    /// Every limit that must not be more than another limit, or than a part of it.
    fn relations(&self) -> [Relation; 16] {
        let relation =
            |name, small, divisor, other, large: u64| Relation { name, small, divisor, other, large: large / divisor };
        [
            relation("inline_bytes", self.inline_bytes, 1, "message_bytes", self.message_bytes),
            relation("chunk_bytes", self.chunk_bytes, 1, "message_bytes", self.message_bytes),
            relation(
                "stream_window_bytes",
                self.stream_window_bytes,
                1,
                "connection_window_bytes",
                self.connection_window_bytes,
            ),
            relation("tenant_connections", self.tenant_connections, 1, "connections", self.connections),
            relation("tenant_requests", self.tenant_requests, 1, "requests", self.requests),
            relation("tenant_watchers", self.tenant_watchers, 1, "watchers", self.watchers),
            relation("tenant_held_bytes", self.tenant_held_bytes, 1, "held_bytes", self.held_bytes),
            relation("message_bytes", self.message_bytes, 4, "tenant_held_bytes", self.tenant_held_bytes),
            relation("tenant_uploads", self.tenant_uploads, 1, "uploads", self.uploads),
            relation("tenant_receiving", self.tenant_receiving, 1, "receiving", self.receiving),
            relation("tenant_queued_jobs", self.tenant_queued_jobs, 1, "queued_jobs", self.queued_jobs),
            relation("job_seconds", self.job_seconds, 1, "job_seconds_max", self.job_seconds_max),
            relation(
                "output_keep_seconds",
                self.output_keep_seconds,
                1,
                "output_keep_seconds_max",
                self.output_keep_seconds_max,
            ),
            relation("inline_bytes", self.inline_bytes, 1, "tenant_inline_bytes", self.tenant_inline_bytes),
            relation("blob_bytes", self.blob_bytes, 1, "tenant_bytes", self.tenant_bytes),
            relation("report_ms", self.report_ms, 2, "lease_ms", self.lease_ms),
        ]
    }
}

/// A limit that must not be more than another limit, or than a part of it.
struct Relation {
    name: &'static str,
    small: u64,
    /// The bound is the other limit divided by this.
    divisor: u64,
    other: &'static str,
    /// The bound.
    large: u64,
}

impl Relation {
    /// The bound in words, with the other limit's name after `prefix`.
    fn bound(&self, prefix: &str) -> String {
        let part = match self.divisor {
            1 => "",
            2 => "half of ",
            4 => "a quarter of ",
            other => unreachable!("no limit is related to a part of 1/{other}"),
        };
        format!("{part}{prefix}{}", self.other)
    }
}

/// Generates the text of `docs/limits.md`.
pub fn document() -> String {
    let mut text = String::from(
        "# Limits\n\n\
         Every resource that can grow has a limit. A test generates this page from the tables in\n\
         `server/src/limits/`.\n\n\
         ## Configurable limits\n\n\
         Set these limits in the section `[limits]` of the configuration, or as\n\
         `CLOAKWORK_LIMITS__NAME`. Sizes are in bytes. Times are in the unit at the end of the name.\n\n\
         | limit | default | range | unit | meaning | reason for the default |\n\
         |---|---:|---|---|---|---|\n",
    );
    for Limit { name, default, least, most, unit, meaning, why, .. } in LIMITS {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| `{name}` | {default} | {least} to {most} | {unit} | {meaning} | {why} |");
    }
    text.push_str(
        "\n## Compilation of programs\n\n\
         `tenant_compile_bootstraps` limits the programs of a tenant that compile or wait. A tenant's only\n\
         program is always admitted. At most one expensive and one cheap program (`CHEAP_BOOTSTRAPS`) of a\n\
         tenant compile at a time. While a tenant's expensive program compiles, cheap programs of all other\n\
         tenants go before its cheap ones. So a tenant can use two processors if it is alone, and one while\n\
         others wait.\n",
    );
    text.push_str(
        "\n## Relations between limits\n\n\
         The server does not start if a limit of the first column is more than its bound.\n\n\
         | limit | bound |\n\
         |---|---|\n",
    );
    for relation in Limits::default().relations() {
        let _ = writeln!(text, "| `{}` | {}` |", relation.name, relation.bound("`"));
    }
    text.push_str(
        "\n## Fixed limits\n\n\
         These limits are constants in the code and need no tuning. The memory of a worker follows from\n\
         its options; see docs/operations.md.\n\n\
         | constant | value | file | meaning |\n\
         |---|---:|---|---|\n",
    );
    for Fixed { name, file, value, meaning } in fixed() {
        let _ = writeln!(text, "| `{name}` | {value} | `{file}` | {meaning} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_page_is_up_to_date_with_the_tables() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/limits.md");
        if std::env::var_os("CLOAKWORK_UPDATE_DOCS").is_some() {
            std::fs::write(path, document()).unwrap();
        }
        assert!(
            std::fs::read_to_string(path).unwrap_or_default() == document(),
            "docs/limits.md is stale: run this test with CLOAKWORK_UPDATE_DOCS=1"
        );
    }

    #[test]
    fn names_are_unique_and_defaults_are_in_range() {
        let names: HashSet<_> = LIMITS.iter().map(|limit| limit.name).collect();
        assert_eq!(names.len(), LIMITS.len());
        for (limit, value) in Limits::default().values() {
            assert_eq!(value, limit.default, "{}", limit.name);
            assert!(limit.range().contains(&value), "{}", limit.name);
            if limit.unit != "count" {
                assert!(limit.name.contains(limit.unit), "{} has no unit in its name", limit.name);
            }
        }
        assert_eq!(Limits::default().contradictions(), Vec::<String>::new());
    }

    #[test]
    fn each_limit_sets_its_own_field_within_its_range() {
        for limit in LIMITS {
            let mut limits = Limits::default();
            assert!(limits.set(limit, limit.least).is_ok());
            for (other, value) in limits.values() {
                let expected = if other.name == limit.name { limit.least } else { other.default };
                assert_eq!(value, expected, "{} changed {}", limit.name, other.name);
            }
            assert!(limits.set(limit, limit.most + 1).is_err());
            assert!(limit.least == 0 || limits.set(limit, limit.least - 1).is_err());
        }
    }

    #[test]
    fn contradictions_name_both_sides() {
        let limits = Limits { inline_bytes: 9 << 20, message_bytes: 8 << 20, ..Limits::default() };
        let found = limits.contradictions();
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("inline_bytes") && found[0].contains("message_bytes"), "{found:?}");
        let limits = Limits { lease_ms: 3000, report_ms: 2000, ..Limits::default() };
        assert!(limits.contradictions()[0].contains("half of limits.lease_ms"));
    }
}
