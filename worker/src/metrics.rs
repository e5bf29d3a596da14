//! Metrics of a worker, and the port that exports them.

mod energy;
mod gpus;
mod port;
mod table;

use std::{io, net::SocketAddr, sync::Arc};

use cloakwork_cuda::gpu::Description;
use cloakwork_device::WorkStats;
use cloakwork_params::ParameterSet;
use cloakwork_proto::v1::WaveCut;
use cloakwork_telemetry::{Format, Metric, Registry};

pub use table::{METRICS, Metrics};

/// The metrics that are read from the sensors of the machine, in the order of the documentation.
pub const SENSED: [&[Metric]; 2] = [&[energy::METRIC], &gpus::METRICS];

/// The handles of a worker's metrics. Their values are exported through `registry`, and so are the
/// readings of the sensors of the machine and of the worker's GPUs.
pub fn register(registry: &Registry, gpus: Vec<Description>) -> Arc<Metrics> {
    energy::observe(registry);
    gpus::observe(registry, gpus);
    Arc::new(Metrics::new(registry))
}

/// Serves scrapes at an address until the process ends. Returns the bound address, where port 0 is
/// replaced by the port in use.
pub(crate) fn serve(registry: Arc<Registry>, address: SocketAddr) -> io::Result<SocketAddr> {
    port::serve(address, move || registry.scrape(Format::Prometheus))
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
