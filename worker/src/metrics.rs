//! Metrics of a worker, and the port that exports them.

mod energy;
mod gpus;
mod port;
mod table;

use std::{io, net::SocketAddr, sync::Arc};

use cloakwork_device::WorkStats;
use cloakwork_params::ParameterSet;
use cloakwork_proto::v1::WaveCut;
use cloakwork_telemetry::{Format, Registry};

use energy::Energy;
pub(crate) use gpus::Gpus;
pub use table::{METRICS, Metrics};

/// The metrics of a worker process.
pub(crate) struct Exporter {
    registry: Arc<Registry>,
    metrics: Arc<Metrics>,
    gpus: Gpus,
    energy: Energy,
}

impl Exporter {
    /// Metrics of a worker with these GPUs.
    pub(crate) fn new(registry: Arc<Registry>, gpus: Gpus) -> Self {
        let metrics = Arc::new(Metrics::new(&registry));
        Self { registry, metrics, gpus, energy: Energy::open() }
    }

    /// The handles, for the worker that records its values.
    pub(crate) fn metrics(&self) -> Arc<Metrics> {
        self.metrics.clone()
    }

    /// Serves scrapes at an address until the process ends. Returns the bound address, where port 0
    /// is replaced by the port in use.
    pub(crate) fn serve(self, address: SocketAddr) -> io::Result<SocketAddr> {
        port::serve(address, move || self.page())
    }

    /// All values, in the text format of Prometheus.
    fn page(&self) -> String {
        self.energy.record(&self.metrics);
        self.registry.scrape(Format::Prometheus) + &self.gpus.page()
    }
}

/// A wave that has ended.
#[derive(Clone, Copy)]
pub(crate) struct EndedWave {
    pub(crate) set: &'static ParameterSet,
    /// Number of bootstraps.
    pub(crate) width: usize,
    /// Width that the engine would have preferred.
    pub(crate) preferred: usize,
    pub(crate) cut: WaveCut,
    pub(crate) stats: WorkStats,
}

impl Metrics {
    pub(crate) fn wave(&self, wave: &EndedWave) {
        let EndedWave { set, width, preferred, cut, stats } = wave;
        self.waves.add(1, [set.name, cut_name(*cut)]);
        self.bootstraps.add(*width as u64, [set.name]);
        self.wave_width.record(*width as f64, [set.name]);
        self.wave_fill.record(*width as f64 / (*preferred).max(1) as f64, [set.name]);
        self.wave_time.record((stats.ended - stats.began).as_secs_f64(), [set.name]);
        let stages = [("key_switch", stats.key_switch), ("blind_rotate", stats.blind_rotate), ("other", stats.other)];
        stages.into_iter().for_each(|(stage, time)| self.stages.add_f64(time.as_secs_f64(), [stage]));
    }
}

/// The name of a cut in labels.
pub fn cut_name(cut: WaveCut) -> &'static str {
    match cut {
        WaveCut::Full => "full",
        WaveCut::Deadline => "deadline",
        WaveCut::Idle => "idle",
        WaveCut::OtherKey => "other_key",
        WaveCut::Drain => "drain",
        WaveCut::Unspecified => "unknown",
    }
}

#[cfg(test)]
mod tests;
