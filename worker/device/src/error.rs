//! Errors of a device.

use std::time::Duration;

use cloakwork_ckks::CkksError;
use cloakwork_tfhe::{ShapeError, format::FormatError};

use crate::WaveError;

/// Why a device did not do the requested work. Each variant says whether the work or the device is
/// at fault.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The work itself is invalid; every device would refuse it.
    #[error("bad work: {0}")]
    BadWork(#[from] WaveError),
    /// Sizes that do not fit the parameter set.
    #[error("bad work: {0}")]
    Shape(#[from] ShapeError),
    /// A handle that the device never gave out, or whose object is already freed.
    #[error("the device holds no {what} of that number")]
    UnknownHandle {
        /// Kind of the object.
        what: &'static str,
    },
    /// A handle whose parameter set differs from that of the rest of the work.
    #[error("{what} is of {got}, the rest of the work of {expected}")]
    WrongSet {
        /// Kind of the object whose set differs.
        what: &'static str,
        /// Parameter set of the arena.
        expected: &'static str,
        /// Parameter set of the given object.
        got: &'static str,
    },
    /// The device does not serve the parameter set.
    #[error("the device does not serve {set}")]
    UnsupportedSet {
        /// The requested set.
        set: &'static str,
    },
    /// The work needs more memory than the device has for one piece of work.
    #[error("the work takes {needed} bytes for {what}, of which there are {most}")]
    TooLarge {
        /// Use of the memory.
        what: &'static str,
        /// Bytes that the work needs.
        needed: u64,
        /// Bytes that the device has.
        most: u64,
    },
    /// A part of a key is corrupt. Its bytes are wrong, so that reading them again would not help.
    #[error("part {part} of the key is corrupt: {problem}")]
    BadKeyPart {
        /// Index among the source's parts.
        part: usize,
        /// Problem that was found.
        problem: FormatError,
    },
    /// A part of a key does not fit its parameter set. Its bytes are what the client uploaded.
    #[error("a part of the key does not fit: {0}")]
    WrongPart(CkksError),
    /// A part of a key could not be read. Another attempt may succeed.
    #[error("part {part} of the key could not be read: {message}")]
    Unreadable {
        /// Index among the source's parts.
        part: usize,
        /// Message of the source's error.
        message: String,
    },
    /// The key lacks a part that the parameter set needs.
    #[error("the key has no {what}; {set} needs one")]
    MissingKeyPart {
        /// Kind of the part.
        what: &'static str,
        /// The parameter set.
        set: &'static str,
    },
    /// Less memory is available than the work needs.
    #[error("out of memory: {needed} bytes needed, {available} available")]
    OutOfMemory {
        /// Bytes needed.
        needed: u64,
        /// Bytes available.
        available: u64,
    },
    /// The work did not end in time. The ticket stays valid.
    #[error("not done within {}", DisplayDuration(*.0))]
    NotDone(Duration),
    /// The work was lost because the device, or the code that drives it, failed.
    #[error("the device failed: {message}")]
    Lost {
        /// Known details of the failure.
        message: String,
    },
    /// A bug in the device's own code: it made an illegal request. Nothing was done, and the device
    /// itself is unchanged.
    #[error("a bug in the device's code: {what}")]
    Misfit {
        /// Condition that did not hold.
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
        /// Phase that the vector expects.
        expected: u64,
        /// Bound on the distance. A distance of `bound` or more fails; for a sum the bound is 0,
        /// and any difference fails.
        bound: u64,
        /// Phase that the device computed.
        got: u64,
    },
}

struct DisplayDuration(Duration);

impl std::fmt::Display for DisplayDuration {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} ms", self.0.as_millis())
    }
}
