//! What GPUs draw while they compute.

use std::sync::Arc;

use cloakwork_cuda::{gpu::Description, sensors::Sensors};

/// The energy that some GPUs have drawn.
pub struct Meter {
    /// What reads their sensors.
    pub sensors: Arc<dyn Sensors>,
    /// The GPUs.
    pub gpus: Vec<Description>,
}

impl Meter {
    /// Joules of all of them so far, if every one tells.
    pub fn joules(&self) -> Option<f64> {
        self.gpus.iter().map(|gpu| self.sensors.read(gpu).energy).sum()
    }
}
