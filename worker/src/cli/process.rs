//! The worker process, from its command line to its exit code.

use std::{io, net::SocketAddr, process::ExitCode, sync::Arc, time::Duration};

use cloakwork_cuda::gpu::Description;
use cloakwork_proto::is_loopback;
use cloakwork_telemetry::{Registry, Service};
use cloakwork_trace::Sampling;
use tokio::task::JoinHandle;
use tracing::Instrument as _;

use super::{Cli, servers::Servers};
use crate::{CancellationToken, Options, Uplink, devices::Opened, logging, metrics, run_on, warn_if_exposed};

impl Cli {
    /// Runs the worker until it is asked to stop.
    pub fn run(&self) -> ExitCode {
        let _logging = logging::start(self.log_filter(), logging::Format::Text);
        match work(self) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("cloakwork-worker: {error}");
                ExitCode::FAILURE
            }
        }
    }
}

fn work(cli: &Cli) -> Result<(), Box<dyn std::error::Error>> {
    let (endpoints, connect) = cli.endpoints()?;
    for (option, file) in [("--token-file", &cli.token_file), ("--key", &cli.key)] {
        if let Some(file) = file {
            warn_if_exposed(option, file);
        }
    }
    let threads = cli.threads.unwrap_or(Options::default().threads);
    let Opened { device, gpus, pool, memory } = cli.devices.open(threads, cli.pin_threads, cli.warm_memory << 20)?;
    let mut options = cli.options(pool, memory)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        let telemetry = Telemetry::start(cli, gpus, &mut options)?;
        let shutdown = CancellationToken::new();
        let asked = shutdown.clone();
        tokio::spawn(async move {
            asked_to_stop().await;
            tracing::info!("asked to stop: taking no new jobs, waiting for running jobs to end");
            asked.cancel();
        });
        // Channels connect on first use, and reconnect as necessary.
        let server = tracing::info_span!("worker", server = cli.server.join(","));
        let worker = run_on(device, options, Uplink::new(Servers::new(&endpoints, connect)), shutdown);
        let result = worker.instrument(server).await;
        telemetry.end().await;
        Ok::<_, Box<dyn std::error::Error>>(result?)
    });
    // Tasks that wait for a lost device may never end, so the runtime does not join them.
    runtime.shutdown_background();
    result
}

/// The export of metrics and spans.
struct Telemetry {
    registry: Option<Arc<Registry>>,
    export: Option<JoinHandle<()>>,
    stop: CancellationToken,
}

impl Telemetry {
    /// Opens the port for metrics, and begins the export to a collector. The worker's `options` get
    /// the handles.
    fn start(cli: &Cli, gpus: Vec<Description>, options: &mut Options) -> Result<Self, Box<dyn std::error::Error>> {
        let collector = cli.collector();
        let instance = options.name.clone();
        let service = Service { name: "cloakwork-worker", version: env!("CARGO_PKG_VERSION"), instance };
        let mut telemetry = Self { registry: None, export: None, stop: CancellationToken::new() };
        if collector.is_some() || cli.metrics.is_some() {
            let registry = match &collector {
                Some(collector) => Registry::exporting(collector, &service, METRICS_INTERVAL),
                None => Registry::new(),
            };
            let registry = Arc::new(registry.map_err(|error| format!("--otlp-endpoint: {error}"))?);
            options.metrics = Some(metrics::register(&registry, gpus));
            if let Some(address) = cli.metrics {
                serve(registry.clone(), address).map_err(|error| format!("--metrics {address}: {error}"))?;
            }
            telemetry.registry = Some(registry);
        }
        if let Some(collector) = collector {
            let export = collector.spans(&service).map_err(|error| format!("--otlp-endpoint: {error}"))?;
            options.tracer = export.tracer(Sampling { ratio: 0.0, traces_per_second: u32::MAX });
            telemetry.export = Some(tokio::spawn(export.run(telemetry.stop.clone().cancelled_owned())));
        }
        Ok(telemetry)
    }

    /// Sends what waits. The time for it is limited.
    async fn end(self) {
        self.stop.cancel();
        if let Some(export) = self.export {
            let _ = export.await;
        }
        if let Some(registry) = self.registry {
            let _ = tokio::task::spawn_blocking(move || registry.close()).await;
        }
    }
}

/// Time between two exports of all metrics to a collector.
const METRICS_INTERVAL: Duration = Duration::from_secs(60);

/// Opens the port for metrics, and warns if other machines may reach the port.
fn serve(registry: Arc<Registry>, address: SocketAddr) -> io::Result<()> {
    let address = metrics::serve(registry, address)?;
    tracing::info!(%address, "metrics under /metrics");
    if !is_loopback(&address.ip().to_string()) {
        tracing::warn!(%address, "anyone who reaches the metrics port can read it: use a private network or loopback");
    }
    Ok(())
}

/// Waits for an interrupt or SIGTERM.
async fn asked_to_stop() {
    let mut terminate = match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        Ok(terminate) => terminate,
        Err(error) => {
            tracing::warn!(%error, "cannot listen for SIGTERM");
            return std::future::pending().await;
        }
    };
    tokio::select! {
        result = tokio::signal::ctrl_c() => {
            if let Err(error) = result {
                tracing::warn!(%error, "cannot listen for an interrupt");
                terminate.recv().await;
            }
        }
        _ = terminate.recv() => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logging::test_log::log_of;

    fn log_of_serving(address: &str) -> String {
        let registry = Arc::new(Registry::new().expect("a registry"));
        log_of(|| serve(registry, address.parse().expect("an address")).expect("a port"))
    }

    #[test]
    fn a_metrics_port_that_other_machines_can_reach_is_warned_of() {
        let warning = "anyone who reaches the metrics port can read it";
        assert!(log_of_serving("0.0.0.0:0").contains(warning));
        let log = log_of_serving("127.0.0.1:0");
        assert!(log.contains("metrics under /metrics") && !log.contains(warning), "{log}");
    }
}
