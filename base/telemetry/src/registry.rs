//! The registry that collects the values of metrics, and exports them.

use std::{sync::Arc, time::Duration};

use crate::{
    Collector, Service,
    exemplars::Exemplars,
    text::{self, Format},
};
use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry_otlp::MetricExporter;
use opentelemetry_sdk::{
    Resource,
    metrics::{PeriodicReader, SdkMeterProvider},
};

/// Collects the values of all handles that were created with it.
#[derive(Debug)]
pub struct Registry {
    registry: prometheus::Registry,
    meter: Meter,
    exemplars: Arc<Exemplars>,
    // Dropping the provider would end the collection.
    provider: SdkMeterProvider,
}

/// Longest time for the last export of metrics.
const LAST_EXPORT_TIMEOUT: Duration = Duration::from_secs(2);

impl Registry {
    /// Creates an empty registry. Registries of one process are independent of each other.
    pub fn new() -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Self::build(None)
    }

    /// Creates an empty registry that also sends all metrics to a collector, each `interval`. Must
    /// be called in a runtime.
    pub fn exporting(
        collector: &Collector,
        service: &Service,
        interval: Duration,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Self::build(Some((collector.metrics(interval)?, service.resource())))
    }

    fn build(
        push: Option<(PeriodicReader<MetricExporter>, Resource)>,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let registry = prometheus::Registry::new();
        // The names in the tables are complete, and scope labels would only make every line longer.
        let exporter = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .without_units()
            .without_counter_suffixes()
            .without_target_info()
            .scope_info_enabled(false)
            .build()?;
        let mut provider = SdkMeterProvider::builder().with_reader(exporter);
        if let Some((reader, resource)) = push {
            provider = provider.with_reader(reader).with_resource(resource);
        }
        let provider = provider.build();
        let meter = provider.meter("cloakwork");
        Ok(Self { registry, meter, exemplars: Arc::default(), provider })
    }

    /// All recorded values.
    pub fn scrape(&self, format: Format) -> String {
        text::encode(&self.registry.gather(), format, &self.exemplars)
    }

    /// Ends the export to a collector, after a last one. Blocks for at most two seconds.
    pub fn close(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(LAST_EXPORT_TIMEOUT) {
            tracing::debug!(%error, "the export of metrics did not end");
        }
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    pub(crate) fn exemplars(&self) -> Arc<Exemplars> {
        self.exemplars.clone()
    }
}
