//! The named sets. No other parameters exist.

mod companions;
mod compression;
mod row;
mod rows;

pub use companions::{Companion, companion_of, input_noise_tenths};
pub use compression::{COMPRESSION_SETS, compression_for, find_compression};
pub use rows::SETS;

use crate::set::{ParameterSet, SetId};

/// The set with this number.
pub fn find(id: SetId) -> Option<&'static ParameterSet> {
    SETS.iter().find(|set| set.id == id)
}

/// The set with this name.
pub fn by_name(name: &str) -> Option<&'static ParameterSet> {
    SETS.iter().find(|set| set.name == name)
}

#[cfg(test)]
mod tests;
