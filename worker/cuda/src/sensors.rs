//! Sensors of GPUs: load, power, limits of the clock, and errors.

mod nvml;

pub use nvml::open;

use crate::gpu::Description;

/// Readings of one GPU's sensors. A value that the GPU does not report is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Share of the last sampling period in which a kernel ran.
    pub busy: Option<f64>,
    /// Bytes of memory in use by all processes.
    pub memory_used: Option<u64>,
    /// Power in watts, including that of the memory.
    pub power: Option<f64>,
    /// Energy in joules since the driver was loaded.
    pub energy: Option<f64>,
    /// Clock of the multiprocessors, in hertz.
    pub clock: Option<f64>,
    /// Temperature in degrees Celsius.
    pub temperature: Option<u32>,
    /// Reasons, of [`LIMITS`], that keep the clock below its maximum.
    pub limited_by: Option<Vec<&'static str>>,
    /// Critical errors (XID) since the sensors were opened. The loss of the GPU counts as one
    /// error.
    pub errors: Option<u64>,
    /// Number of the last error that has one.
    pub last_error: Option<u64>,
}

/// Reasons that can keep a clock low.
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
    /// Reads the sensors of a GPU. The call may take milliseconds.
    fn read(&self, gpu: &Description) -> Reading;
}
