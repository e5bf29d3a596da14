//! What the sensors of GPUs say: how busy they are, what they draw, what holds them back, and what has gone wrong.

mod nvml;

pub use nvml::open;

use crate::gpu::Description;

/// What the sensors of one GPU said. What it does not tell is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Share of the last moments in which a kernel ran.
    pub busy: Option<f64>,
    /// Bytes of memory in use, by whomever.
    pub memory_used: Option<u64>,
    /// Watts, the memory's included.
    pub power: Option<f64>,
    /// Joules since the driver was loaded.
    pub energy: Option<f64>,
    /// Clock of the multiprocessors, in hertz.
    pub clock: Option<f64>,
    /// Degrees Celsius.
    pub temperature: Option<u32>,
    /// What keeps the clock below what it could be, of [`LIMITS`].
    pub limited_by: Option<Vec<&'static str>>,
    /// Critical errors (XID) since the sensors were opened; that the GPU is lost counts as one.
    pub errors: Option<u64>,
    /// Number of the last of them that has one.
    pub last_error: Option<u64>,
}

/// What can keep a clock low.
pub const LIMITS: [&str; 8] = [
    "power_cap",
    "hardware",
    "software_thermal",
    "hardware_thermal",
    "power_brake",
    "sync_boost",
    "application_clocks",
    "display_clocks",
];

/// Sensors of this machine's GPUs.
pub trait Sensors: Send + Sync {
    /// What those of a GPU say now. It may take milliseconds.
    fn read(&self, gpu: &Description) -> Reading;
}
