//! Pools of workers that the settings declare, each in a section of its own: `[pools.gpu]`.

use std::fmt::Write as _;

use cloakwork_params::AnySet;

use super::{
    Config,
    value::{Raw, Value},
};

/// Section of all pools.
pub(super) const SECTION: &str = "pools";

/// The set whose bootstraps state how fast a worker is.
pub const REFERENCE_SET: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";

/// Maximum number of pools. Each has metrics of its own.
pub(crate) const POOLS_MAX: usize = 64;

/// Maximum length of a pool's name.
const POOL_NAME_BYTES_MAX: usize = 63;

/// A pool of workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Bootstraps of [`REFERENCE_SET`] that one worker computes in a second.
    pub bootstraps_per_second: u64,
    /// Parameter sets that the workers compute.
    pub sets: Sets,
}

/// Names of parameter sets; none of them for all sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sets(pub Vec<&'static str>);

impl Value for Sets {
    fn read(raw: &Raw) -> Result<Self, String> {
        let text = String::read(raw)?;
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        let known = |name: &str| {
            let set = AnySet::by_name(name).ok_or_else(|| format!("has no parameter set '{name}'"))?;
            Ok(set.name())
        };
        names.map(known).collect::<Result<_, _>>().map(Self)
    }

    fn show(&self) -> Option<String> {
        self.0.join(", ").show()
    }
}

/// A setting of a pool.
pub(super) struct PoolSetting {
    pub(super) name: &'static str,
    doc: &'static str,
    set: fn(&mut Pool, &Raw) -> Result<(), String>,
    show: fn(&Pool) -> Option<String>,
}

pub(super) const SETTINGS: &[PoolSetting] = &[
    PoolSetting {
        name: "bootstraps_per_second",
        doc: "Bootstraps of V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128 that one worker computes in a second under load: see docs/performance.md and docs/gpu.md, or cloakwork_pbs_total.",
        set: |pool, raw| {
            pool.bootstraps_per_second = u64::read(raw)?;
            Ok(())
        },
        show: |pool| pool.bootstraps_per_second.show(),
    },
    PoolSetting {
        name: "sets",
        doc: "Parameter sets that the workers compute, separated by commas; empty for all.",
        set: |pool, raw| {
            pool.sets = Sets::read(raw)?;
            Ok(())
        },
        show: |pool| pool.sets.show(),
    },
];

impl PoolSetting {
    /// The pool and the setting that a full name refers to, for example `pools.gpu.sets`.
    pub(super) fn named(key: &str) -> Option<(&str, &'static Self)> {
        let (pool, name) = key.strip_prefix(SECTION)?.strip_prefix('.')?.rsplit_once('.')?;
        SETTINGS.iter().find(|row| row.name == name).map(|row| (pool, row))
    }

    pub(super) fn set(&self, config: &mut Config, pool: &str, raw: &Raw) -> Result<(), String> {
        let is_known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if pool.is_empty() || pool.len() > POOL_NAME_BYTES_MAX || !pool.chars().all(is_known) {
            return Err(format!(
                "is no setting: the name of a pool has 1 to {POOL_NAME_BYTES_MAX} characters of a-z, 0-9 and '-'"
            ));
        }
        (self.set)(config.pools.entry(pool.to_owned()).or_default(), raw)
    }
}

/// The full names of the settings of a pool that is called `name`.
pub(super) fn keys() -> impl Iterator<Item = String> {
    SETTINGS.iter().map(|setting| format!("{SECTION}.name.{}", setting.name))
}

/// The errors of declared pools.
pub(super) fn problems(config: &Config) -> Vec<String> {
    let mut problems = Vec::new();
    if config.pools.len() > POOLS_MAX {
        problems.push(format!("at most {POOLS_MAX} pools can be declared, not {}", config.pools.len()));
    }
    for (name, pool) in &config.pools {
        if pool.bootstraps_per_second == 0 {
            problems.push(format!("{SECTION}.{name}.bootstraps_per_second is missing: it must be 1 or more"));
        }
    }
    problems
}

/// Appends the pools to a printed configuration.
pub(super) fn print(config: &Config, text: &mut String, comment: impl Fn(&mut String, &str)) {
    text.push('\n');
    comment(
        text,
        "Pools of workers, by the names that workers give with --pool. The metric \
         cloakwork_pool_backlog_worker_seconds has a series for each, also while the pool has no worker, so an \
         autoscaler can size the pool.",
    );
    let example = [("gpu".to_owned(), Pool { bootstraps_per_second: 9000, sets: Sets::default() })].into();
    let (pools, sign) = if config.pools.is_empty() { (&example, "# ") } else { (&config.pools, "") };
    for (name, pool) in pools {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{sign}[{SECTION}.{name}]");
        for setting in SETTINGS {
            comment(text, setting.doc);
            let _ = writeln!(text, "{sign}{} = {}", setting.name, (setting.show)(pool).unwrap_or_default());
        }
    }
}
