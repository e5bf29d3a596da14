//! Records of waves and jobs: metrics, and spans for traced jobs.

use std::{sync::Arc, time::Instant};

use cloakwork_clock::Clock;
use cloakwork_trace::{Span, TraceContext, Tracer};

use crate::metrics::{EndedWave, Metrics, cut_name};

/// Where waves and jobs are recorded. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Observer {
    pub(crate) metrics: Option<Arc<Metrics>>,
    pub(crate) tracer: Tracer,
    pub(crate) clock: Clock,
}

impl Default for Observer {
    /// Records nothing.
    fn default() -> Self {
        Self { metrics: None, tracer: Tracer::off(), clock: Clock::system() }
    }
}

/// Maximum number of links from a wave to its jobs, and from a job to its waves.
pub(crate) const LINKS_MAX: usize = 64;

impl Observer {
    /// Records a wave. `jobs` are the traced jobs in it. The span of a wave has a trace of its own,
    /// because jobs of several traces share the wave. Returns the wave's context, for links from
    /// its jobs.
    pub(crate) fn wave(&self, wave: &EndedWave, device: &str, jobs: Vec<TraceContext>) -> Option<TraceContext> {
        if let Some(metrics) = &self.metrics {
            metrics.wave(wave);
        }
        let context = (!jobs.is_empty()).then(|| self.tracer.root()).flatten()?;
        let EndedWave { set, width, preferred, cut, stats } = wave;
        let [start_nanos, end_nanos] = [stats.began, stats.ended].map(|at| self.nanos_at(at));
        let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let span = Span::internal("wave", context, None, start_nanos, end_nanos)
            .with("cloakwork.parameter_set", set.name)
            .with("cloakwork.width", *width as u64)
            .with("cloakwork.preferred_width", *preferred as u64)
            .with("cloakwork.cut", cut_name(*cut))
            .with("cloakwork.device", device.to_owned())
            .with("cloakwork.key_switch_nanos", nanos(stats.key_switch))
            .with("cloakwork.blind_rotate_nanos", nanos(stats.blind_rotate))
            .with("cloakwork.other_nanos", nanos(stats.other));
        self.tracer.record(Span { links: jobs, ..span });
        Some(context)
    }

    /// The time of day of a moment in nanoseconds of Unix time.
    pub(crate) fn nanos_at(&self, at: Instant) -> u64 {
        let ago = u64::try_from(at.elapsed().as_nanos()).unwrap_or(u64::MAX);
        u64::try_from(self.clock.unix_micros()).unwrap_or_default().saturating_mul(1000).saturating_sub(ago)
    }
}
