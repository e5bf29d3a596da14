//! The worker process, from its command line to its exit code.

use std::{io, net::SocketAddr, process::ExitCode};

use cloakwork_proto::is_loopback;
use tracing::Instrument as _;

use super::{Cli, servers::Servers};
use crate::{CancellationToken, Options, Uplink, devices::Opened, logging, metrics::Metrics, run_on, warn_if_exposed};

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
    let options = cli.options(pool, memory)?;
    if let Some(address) = cli.metrics {
        serve(Metrics::open(gpus), address).map_err(|error| format!("--metrics {address}: {error}"))?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        let shutdown = CancellationToken::new();
        let asked = shutdown.clone();
        tokio::spawn(async move {
            asked_to_stop().await;
            tracing::info!("asked to stop: taking no new jobs, waiting for running jobs to end");
            asked.cancel();
        });
        // Channels connect on first use, and reconnect as necessary.
        let server = tracing::info_span!("worker", server = cli.server.join(","));
        run_on(device, options, Uplink::new(Servers::new(&endpoints, connect)), shutdown).instrument(server).await
    });
    // Tasks that wait for a lost device may never end, so the runtime does not join them.
    runtime.shutdown_background();
    Ok(result?)
}

/// Opens the port for metrics, and warns if other machines may reach the port.
fn serve(metrics: Metrics, address: SocketAddr) -> io::Result<()> {
    let address = metrics.serve(address)?;
    tracing::info!(%address, "metrics of GPUs under /metrics");
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
        log_of(|| serve(Metrics::open(Vec::new()), address.parse().expect("an address")).expect("a port"))
    }

    #[test]
    fn a_metrics_port_that_other_machines_can_reach_is_warned_of() {
        let warning = "anyone who reaches the metrics port can read it";
        assert!(log_of_serving("0.0.0.0:0").contains(warning));
        let log = log_of_serving("127.0.0.1:0");
        assert!(log.contains("metrics of GPUs under /metrics") && !log.contains(warning), "{log}");
    }
}
