//! Companions: sets that bootstrap the same ciphertexts another way, in less time where few are to be bootstrapped at once.

use super::find;
use crate::set::{ParameterSet, SetId};

/// What a set has beside itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Companion {
    /// The other set. Its ciphertexts between operations are those of the first: one big key, one encoding.
    pub set: &'static ParameterSet,
    /// What the variance of its results counts for in a sum, in halves of that of the first set's results. Sums that are counted so keep
    /// the first set's claim, whichever of the two keys bootstraps them.
    pub noise_halves: u64,
}

/// A set, its companion, and [`Companion::noise_halves`].
struct Row(SetId, SetId, u64);

/// Classical sets, each with a multi-bit one that GPUs have a kernel of few ciphertexts for. Where there is room to spare, as in 1_1,
/// results of both count alike.
static COMPANIONS: &[Row] = &[
    Row(SetId(0x0002), SetId(0x0027), 3),
    Row(SetId(0x0006), SetId(0x0030), 3),
    Row(SetId(0x0009), SetId(0x0027), 3),
    Row(SetId(0x000a), SetId(0x0026), 2),
    Row(SetId(0xff07), SetId(0xff09), 3),
];

/// The companion of a set, if it has one.
pub fn companion_of(set: &ParameterSet) -> Option<Companion> {
    let Row(_, companion, noise_halves) = COMPANIONS.iter().find(|Row(of, ..)| *of == set.id)?;
    Some(Companion { set: find(*companion)?, noise_halves: *noise_halves })
}

/// What the variance of an input counts for in a sum, in halves of that of a bootstrap's result: whoever made it may have had the
/// companion's key.
pub fn input_noise_halves(set: &ParameterSet) -> u64 {
    companion_of(set).map_or(2, |companion| companion.noise_halves)
}
