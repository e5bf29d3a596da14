//! The command `serve`.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::Args;

use super::{failed, load};
use crate::{logging, open_files};

/// Flags of `serve`.
#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Configuration file [environment: CLOAKWORK_CONFIG]. `config print` lists all settings.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port for gRPC.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Address and port for probes and metrics.
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<SocketAddr>,
    /// Directory for the database and local blobs.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Any setting, such as `limits.lease_ms=5000`. May be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = pair)]
    settings: Vec<(String, String)>,
}

impl Serve {
    pub(super) fn run(self) -> Result<(), ExitCode> {
        let named = [
            ("listen.address", self.listen.map(|address| address.to_string())),
            ("listen.admin_address", self.admin_listen.map(|address| address.to_string())),
            ("storage.directory", self.data.map(|path| path.to_string_lossy().into_owned())),
        ];
        let mut flags = self.settings;
        flags.extend(named.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        let config = load(self.config, &flags)?;
        let _logging = logging::init(&config.log);
        open_files::raise_limit(&config.limits);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads()).enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let ran = runtime.block_on(async {
            let shutdown = shutdown_signal().map_err(failed)?;
            crate::run(config, shutdown).await.map_err(failed)
        });
        // Work that still runs on other threads, such as the self-test of a worker, may take
        // seconds. Its result is not needed any more, and the next server waits for the directory.
        runtime.shutdown_background();
        ran
    }
}

/// Number of threads that handle calls: half the number of cores. The other half is left for
/// bootstraps, hashing and disk I/O. On a small machine, moving a call between threads also takes
/// longer than waiting for its thread.
fn threads() -> usize {
    (std::thread::available_parallelism().map_or(1, usize::from) / 2).max(1)
}

/// Resolves on SIGTERM or Ctrl-C. A second signal then ends the process at once.
fn shutdown_signal() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    // SIGHUP asks for renewed certificates. Without TLS, and without this line, it would end the
    // server.
    let hangup = signal(SignalKind::hangup())?;
    let mut next = async move || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    Ok(async move {
        let _hangup = hangup;
        next().await;
        tokio::spawn(async move {
            next().await;
            tracing::warn!("stopped by a second signal");
            std::process::exit(1);
        });
    })
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be of the form NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
