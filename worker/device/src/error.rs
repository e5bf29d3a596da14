//! Why a device did not do what it was asked.

use std::time::Duration;

use cloakwork_tfhe::{ShapeError, format::FormatError};

use crate::WaveError;

/// Why a device did not do what it was asked, and whether that says something of the work or of the device.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The work itself is wrong; no device would do it.
    #[error("bad work: {0}")]
    BadWork(#[from] WaveError),
    /// Sizes that do not fit the parameter set.
    #[error("bad work: {0}")]
    Shape(#[from] ShapeError),
    /// A handle that the device never gave out, or has taken back.
    #[error("the device holds no {what} of that number")]
    UnknownHandle {
        /// What was asked for.
        what: &'static str,
    },
    /// A handle of another parameter set than the rest of the work.
    #[error("{what} is of {got}, the rest of the work of {expected}")]
    WrongSet {
        /// What differs.
        what: &'static str,
        /// The set of the arena.
        expected: &'static str,
        /// The set of what was handed in.
        got: &'static str,
    },
    /// The device does not serve the parameter set.
    #[error("the device does not serve {set}")]
    UnsupportedSet {
        /// The set asked for.
        set: &'static str,
    },
    /// A part of a key is not what it should be. Its bytes are wrong; reading them again would not help.
    #[error("part {part} of the key is corrupt: {problem}")]
    BadKeyPart {
        /// Place among the source's parts.
        part: usize,
        /// What is wrong.
        problem: FormatError,
    },
    /// A part of a key could not be read. Another attempt may succeed.
    #[error("part {part} of the key could not be read: {message}")]
    Unreadable {
        /// Place among the source's parts.
        part: usize,
        /// What the source said.
        message: String,
    },
    /// A part that the parameter set needs is not there.
    #[error("the key has no {what}; {set} needs one")]
    MissingKeyPart {
        /// Kind of the part.
        what: &'static str,
        /// The parameter set.
        set: &'static str,
    },
    /// Less memory than the work needs.
    #[error("out of memory: {needed} bytes needed, {available} available")]
    OutOfMemory {
        /// Bytes asked for.
        needed: u64,
        /// Bytes that could be had.
        available: u64,
    },
    /// The work did not end in time. The ticket stays valid.
    #[error("not done within {}", DisplayDuration(*.0))]
    NotDone(Duration),
    /// The work was lost: the device, or the code that drove it, failed.
    #[error("the device failed: {message}")]
    Lost {
        /// What is known.
        message: String,
    },
    /// The device's own code asked for what it may not. Nothing was done; the device itself is as it was.
    #[error("a mistake in the device's code: {what}")]
    Misfit {
        /// What did not hold.
        what: &'static str,
    },
    /// A known answer came out wrong. The device must not be used.
    #[error(
        "self-test failed on {set}, lane {lane}: expected a phase of {expected:#x}, off by at most {bound:#x}, got {got:#x}"
    )]
    SelfTest {
        /// The parameter set of the vector.
        set: &'static str,
        /// The lane.
        lane: usize,
        /// What the vector says.
        expected: u64,
        /// Largest distance allowed.
        bound: u64,
        /// What the device made.
        got: u64,
    },
}

struct DisplayDuration(Duration);

impl std::fmt::Display for DisplayDuration {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} ms", self.0.as_millis())
    }
}
