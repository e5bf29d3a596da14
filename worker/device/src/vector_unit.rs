//! The contract between the engine for vectors and the part of a device that computes them.

use std::{collections::BTreeMap, time::Duration};

use cloakwork_circuit::ckks::Program;
use cloakwork_ckks::{Ciphertext, CkksError, KeyPart};
use cloakwork_params::ckks::CkksSet;

use crate::{DeviceError, KeySlot};

/// The part of a device that computes programs on vectors of approximate numbers. One row is
/// computed by one call, so that the unit alone decides where values are and what runs together.
pub trait VectorUnit: Send + Sync {
    /// Parameter sets that the unit serves. The toy sets are among them, because the self-test
    /// computes these.
    fn sets(&self) -> Vec<&'static CkksSet>;

    /// Computes the masks of a part of a key, and keeps the part for rows. Blocks until the part is
    /// ready.
    fn load_part(&self, set: &'static CkksSet, part: KeyPart) -> Result<KeySlot, DeviceError>;

    /// Evicts a part. A row that uses the part ends first, or keeps it to its end.
    fn evict_part(&self, part: KeySlot);

    /// Refuses a program whose rows need more memory than the unit has for one row. Keys do not
    /// count.
    fn check(&self, program: &Program) -> Result<(), DeviceError>;

    /// Computes a row. Blocks until the row has ended.
    fn compute(&self, row: Row<'_>) -> Result<RowResult, RowError>;
}

/// A row of a program.
pub struct Row<'a> {
    /// The program.
    pub program: &'a Program,
    /// A ciphertext for each input of the program.
    pub inputs: Vec<Ciphertext>,
    /// The parts of keys that the program names, each once.
    pub parts: &'a [KeySlot],
    /// Called before each step and within long steps. The unit gives the row up when the result is
    /// false.
    pub goes_on: &'a (dyn Fn() -> bool + Sync),
}

/// Result of a row.
pub struct RowResult {
    /// Outputs of the program.
    pub outputs: Vec<Ciphertext>,
    /// Times of the steps.
    pub times: Times,
}

/// Count and total duration of each kind of step, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times(pub BTreeMap<&'static str, (u64, Duration)>);

/// Why a row has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// A step failed.
    #[error("operation {operation}: {problem}")]
    Step {
        /// Operation of the program that the step belongs to.
        operation: usize,
        /// Cause of the failure.
        problem: CkksError,
    },
    /// A ciphertext differs from the plan.
    #[error("{what}: level {got_level} and scale {got_scale:e}, where the plan has {level} and {scale:e}")]
    OffPlan {
        /// Name of the ciphertext.
        what: String,
        /// Level in the plan.
        level: usize,
        /// Scale in the plan.
        scale: f64,
        /// Level of the ciphertext.
        got_level: usize,
        /// Scale of the ciphertext.
        got_scale: f64,
    },
    /// The number of inputs differs from the program's.
    #[error("{got} inputs: the program takes {expected}")]
    Inputs {
        /// Number of inputs that the program takes.
        expected: usize,
        /// Number of inputs given.
        got: usize,
    },
    /// The parts do not make up a key.
    #[error("{0}")]
    Keys(CkksError),
    /// The computation panicked: a bug of ours.
    #[error("the computation panicked: a bug of the worker")]
    Panicked,
    /// The row was cancelled.
    #[error("given up")]
    GivenUp,
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
