//! The sets that are measured.

use cloakwork_params::ckks::{self, CkksSet};

/// The default set.
pub(crate) const DEFAULT: &str = "CKKS_45_60_50_H4096";

/// The served sets.
pub(crate) const SETS: [&str; 2] = [DEFAULT, "CKKS_54_60_H4096"];

/// The set with this name or, for quick measurements, the toy set with the same chain.
pub(crate) fn set(name: &str, is_quick: bool) -> &'static CkksSet {
    let set = ckks::by_name(name).expect("a set of the table");
    match is_quick {
        false => set,
        true => ckks::CKKS_SETS.iter().find(|toy| toy.size() < set.size() && toy.chain == set.chain).expect("a toy"),
    }
}
