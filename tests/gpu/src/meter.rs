//! Energy that GPUs draw while they compute.

use std::sync::Arc;

use cloakwork_cuda::{gpu::Description, sensors::Sensors};

/// Sensors for the energy of some GPUs.
pub struct Meter {
    /// Reader of the sensors.
    pub sensors: Arc<dyn Sensors>,
    /// The GPUs.
    pub gpus: Vec<Description>,
}

impl Meter {
    /// Joules that all GPUs have drawn so far, or `None` if a sensor is missing.
    pub fn joules(&self) -> Option<f64> {
        self.gpus.iter().map(|gpu| self.sensors.read(gpu).energy).sum()
    }
}
