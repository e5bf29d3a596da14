//! The stored figures, and differences from them.

use std::{collections::BTreeMap, path::Path};

use cloakwork_tests_speed::disassembly::Counts;
use serde::{Deserialize, Serialize};

/// Largest relative difference from a stored count, in either direction. An improvement that is not
/// stored could be lost again unnoticed.
const TOLERANCE: f64 = 0.03;

const HEAD: &str = "\
# Counted instructions: see README.md. `CLOAKWORK_UPDATE_SPEED=1 make speed` writes this file.
# Written by hand: `patterns`, parts of the names of the functions that count as kernels.

";

/// Counts, and the compiler that they belong to.
#[derive(Serialize, Deserialize)]
pub(crate) struct Figures {
    /// Full version of the compiler.
    pub(crate) compiler: String,
    /// Parts of names. A function with one of these in its name is a kernel.
    pub(crate) patterns: Vec<String>,
    /// Instructions executed, by level and case.
    pub(crate) callgrind: BTreeMap<String, BTreeMap<String, u64>>,
    /// Instructions of each kernel's AVX-512 form.
    pub(crate) avx512: BTreeMap<String, Kernel>,
}

/// [`Counts`] in their stored form.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Kernel {
    instructions: u64,
    wide: u64,
    spills: u64,
    inner_loops: u64,
}

impl From<Counts> for Kernel {
    fn from(Counts { instructions, wide, spills, inner_loops }: Counts) -> Self {
        Self { instructions, wide, spills, inner_loops }
    }
}

impl Figures {
    /// Reads the figures from `path`.
    pub(crate) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Writes the figures to `path`.
    pub(crate) fn write(&self, path: &Path) {
        let text = toml::to_string(self).expect("figures are words and numbers");
        std::fs::write(path, format!("{HEAD}{text}")).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Describes each figure of `found` that differs from the stored figures.
    pub(crate) fn differences(&self, found: &Self) -> Vec<String> {
        let (stored, found) = (self.flat(), found.flat());
        let names = stored.keys().chain(found.keys().filter(|name| !stored.contains_key(*name)));
        names.filter_map(|name| difference(name, stored.get(name), found.get(name))).collect()
    }

    /// All figures, each with a unique name.
    fn flat(&self) -> BTreeMap<String, u64> {
        let run = self.callgrind.iter().flat_map(|(level, cases)| {
            cases.iter().map(move |(case, count)| (format!("{case} on {level}, instructions run"), *count))
        });
        let made = self.avx512.iter().flat_map(|(name, kernel)| {
            let Kernel { instructions, wide, spills, inner_loops } = *kernel;
            [
                (format!("{name}, instructions"), instructions),
                (format!("{name}, of them wide"), wide),
                (format!("{name}, of them with an operand on the stack"), spills),
                (format!("{name}, instructions of inner loops"), inner_loops),
            ]
        });
        run.chain(made).collect()
    }
}

fn difference(name: &str, stored: Option<&u64>, found: Option<&u64>) -> Option<String> {
    match (stored, found) {
        (Some(&stored), Some(&found)) => {
            let apart = found.abs_diff(stored) as f64 > TOLERANCE * stored as f64;
            let percent = 100.0 * (found as f64 / stored as f64 - 1.0);
            apart.then(|| format!("{name}: stored {stored}, found {found} ({percent:+.1} %)"))
        }
        (Some(stored), None) => Some(format!("{name}: stored {stored}, not found")),
        (None, Some(found)) => Some(format!("{name}: not stored, found {found}")),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(run: u64, kernels: &[(&str, u64)]) -> Figures {
        let kernel = |spills| Kernel { instructions: 1000, wide: 800, spills, inner_loops: 400 };
        Figures {
            compiler: "rustc".into(),
            patterns: vec!["run_avx512".into()],
            callgrind: [("avx2".into(), [("case".into(), run)].into())].into(),
            avx512: kernels.iter().map(|(name, spills)| (name.to_string(), kernel(*spills))).collect(),
        }
    }

    #[test]
    fn differences_of_up_to_three_percent_pass() {
        let stored = figures(1000, &[("a", 0)]);
        for near in [970, 1000, 1030] {
            assert_eq!(stored.differences(&figures(near, &[("a", 0)])), Vec::<String>::new());
        }
        for far in [969, 1031] {
            assert_eq!(stored.differences(&figures(far, &[("a", 0)])).len(), 1, "{far}");
        }
    }

    #[test]
    fn a_first_spill_is_a_difference() {
        let differences = figures(1, &[("a", 0)]).differences(&figures(1, &[("a", 1)]));
        assert_eq!(differences, ["a, of them with an operand on the stack: stored 0, found 1 (+inf %)"]);
    }

    #[test]
    fn new_and_missing_kernels_are_differences() {
        let differences = figures(1, &[("a", 0)]).differences(&figures(1, &[("b", 0)]));
        assert_eq!(differences.len(), 8);
        assert!(differences[0].contains("not found"), "{}", differences[0]);
        assert!(differences[7].contains("not stored"), "{}", differences[7]);
    }

    #[test]
    fn figures_survive_a_round_trip_through_a_file() {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("figures.toml");
        let stored = figures(12, &[("ours::run_avx512::<ours::Multiply<u64>>", 3)]);
        stored.write(&path);
        assert_eq!(Figures::read(&path).differences(&stored), Vec::<String>::new());
    }
}
