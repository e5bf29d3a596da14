//! Companions: sets that bootstrap equal ciphertexts by another method, which takes less time for a
//! few ciphertexts.

use super::find;
use crate::set::{ParameterSet, SetId};

/// The companion of a set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Companion {
    /// The companion. Its ciphertexts between operations are those of the first set: one big key,
    /// one encoding.
    pub set: &'static ParameterSet,
    /// Weight of a companion result's variance in a sum, in tenths of the variance of the first
    /// set's results. The weight covers the largest loss that a device's transforms may have. Sums
    /// with these weights keep the failure bound of the first set, with either of the two keys.
    pub noise_tenths: u64,
}

/// A set, its companion, and [`Companion::noise_tenths`].
struct Row(SetId, SetId, u64);

/// Classical sets, each with a multi-bit set for which GPUs have a kernel for few ciphertexts. If
/// there is a margin, as in 1_1, the results of both sets have equal weight.
static COMPANIONS: &[Row] = &[
    Row(SetId(0x0002), SetId(0x0027), 16),
    Row(SetId(0x0006), SetId(0x0030), 16),
    Row(SetId(0x0009), SetId(0x0027), 16),
    Row(SetId(0x000a), SetId(0x0026), 10),
    Row(SetId(0xff07), SetId(0xff09), 16),
];

/// The companion of a set, if it has one.
pub fn companion_of(set: &ParameterSet) -> Option<Companion> {
    let Row(_, companion, noise_tenths) = COMPANIONS.iter().find(|Row(of, ..)| *of == set.id)?;
    Some(Companion { set: find(*companion)?, noise_tenths: *noise_tenths })
}

/// Weight of an input's variance in a sum, in tenths of the variance of a bootstrap's result. An
/// input may come from a bootstrap with the companion's key.
pub fn input_noise_tenths(set: &ParameterSet) -> u64 {
    companion_of(set).map_or(10, |companion| companion.noise_tenths)
}
