//! The registry that collects the values of metrics, and exports them.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

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
        let (provider, (report, ended)) = (self.provider.clone(), mpsc::channel());
        // A thread of its own, because the SDK's shutdown ignores the time limit it is given. A
        // collector that does not answer would delay the stop of the process.
        let last = thread::Builder::new().name("last-metrics".into()).spawn(move || {
            // Fails where the time limit has passed.
            let _ = report.send(provider.shutdown());
        });
        match last.map(|_| ended.recv_timeout(LAST_EXPORT_TIMEOUT)) {
            Ok(Ok(Ok(()))) => {}
            outcome => tracing::debug!(?outcome, "the last export of metrics failed"),
        }
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    pub(crate) fn exemplars(&self) -> Arc<Exemplars> {
        self.exemplars.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Protocol;
    use std::{net::TcpListener, time::Instant};

    #[test]
    fn close_does_not_wait_for_a_silent_collector() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let _entered = runtime.enter();
        // The system accepts connections for this socket, and nothing answers.
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}", silent.local_addr().expect("an address"));
        for protocol in [Protocol::Grpc, Protocol::Http] {
            let collector = Collector { endpoint: endpoint.clone(), protocol, ca_file: None, headers_file: None };
            let service = Service { name: "test", version: "0", instance: "a".into() };
            let registry = Registry::exporting(&collector, &service, Duration::from_secs(3600)).expect("a registry");
            registry.meter().u64_counter("events").build().add(1, &[]);
            let begin = Instant::now();
            registry.close();
            let time = begin.elapsed();
            // At least the limit: the last export was under way. The SDK's own limit is 5 s.
            assert!(time >= LAST_EXPORT_TIMEOUT, "{protocol:?}: {time:?}");
            assert!(time < Duration::from_secs(4), "{protocol:?}: {time:?}");
        }
    }
}
