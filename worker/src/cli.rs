//! The command line.

mod process;
mod servers;

use std::{fs, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use clap::Parser;
use cloakwork_proto::is_loopback;
use cloakwork_telemetry::{Collector, Protocol};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
use tracing_subscriber::EnvFilter;

use self::servers::Connect;
use crate::{Devices, Options};

/// Computes encrypted jobs for a Cloakwork server.
///
/// The worker connects to the server and takes the jobs that the server leases to it. Their keys,
/// inputs and results use the same connection. The worker opens no port except that of --metrics
/// and stores nothing on disk. Several workers may share a server. The server knows the keys that
/// each worker holds and assigns jobs accordingly.
///
/// The worker stops on SIGTERM or an interrupt. The worker then takes no new jobs, gives its jobs
/// the time of --grace to end, and hands the rest back. If the server goes away, the worker keeps
/// its jobs and connects again.
#[derive(Debug, Parser)]
#[command(name = "cloakwork-worker", version)]
pub struct Cli {
    /// URL of the server: http://host:port, or https://host:port for TLS. Several servers of one
    /// database are separated by commas. The worker finds the one that owns the database
    #[arg(long, value_name = "URL", env = "CLOAKWORK_WORKER_SERVER", value_delimiter = ',', required = true)]
    server: Vec<String>,
    /// Name in logs and records; by default the name of the host
    #[arg(long, env = "CLOAKWORK_WORKER_NAME")]
    name: Option<String>,
    /// Devices to compute on
    #[arg(long, value_enum, default_value = "auto")]
    devices: Devices,
    /// Pool that the worker joins; by default cpu, or gpu if the worker computes on GPUs
    #[arg(long)]
    pool: Option<String>,
    /// File with the worker's token, in one line. Only the worker should be able to read it. The
    /// token is sent over https, or to this machine only
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Certificate authority of the server's certificate (PEM). Required for https
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The worker's own certificate (PEM), if the server asks for one
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of --cert (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// URL of the server's S3 store: https://HOST:PORT, or http to this machine. The worker then
    /// reads keys and large inputs from the store itself, so these bytes do not pass through the
    /// server. The server hands out the URLs, and the worker follows no URL to another host
    #[arg(long, value_name = "URL", env = "CLOAKWORK_WORKER_BLOB_STORE")]
    blob_store: Option<String>,
    /// Number of compute threads; by default one for each processor (hardware thread) that the
    /// worker may use
    #[arg(long)]
    threads: Option<usize>,
    /// Pin each thread to a processor of its own, from the first that the worker may use. For
    /// machines that do nothing else
    #[arg(long)]
    pin_threads: bool,
    /// Memory for the worker, in MiB: half for evaluation keys, a quarter for ciphertexts in
    /// computation, and a quarter for inputs and outputs; 8192 by default. A key of the default
    /// parameter set takes about 120 MiB. With GPUs, this is memory of each GPU, by default most of
    /// it. Only inputs and outputs then take the machine's memory, up to 2048 MiB
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(64..=1 << 24))]
    memory: Option<u64>,
    /// Additional memory for jobs on vectors (CKKS), in MiB: five eighths for evaluation keys, a
    /// quarter for the matrices of bootstraps, and the rest for values in computation. Allocated
    /// when such jobs come. With 0, the worker takes no such jobs
    #[arg(long, value_name = "MIB", default_value_t = 8192, value_parser = clap::value_parser!(u64).range(0..=1 << 24))]
    vector_memory: u64,
    /// Host memory, in MiB, for evaluation keys that were evicted from GPUs. A later job then
    /// reloads such a key immediately. The memory is pinned, and allocated as keys come. A key
    /// takes at most half of its size on a GPU. With 0, no evicted key is kept
    #[arg(long, value_name = "MIB", default_value_t = 4096, value_parser = clap::value_parser!(u64).range(0..=1 << 24))]
    warm_memory: u64,
    /// Seconds that jobs may go on after the worker is asked to stop
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    grace: u64,
    /// Address of an HTTP port that serves the worker's metrics and the sensor readings of its GPUs
    /// under /metrics, for example 127.0.0.1:7273. The port is open to everyone who can reach it
    #[arg(long, value_name = "ADDRESS", env = "CLOAKWORK_WORKER_METRICS")]
    metrics: Option<SocketAddr>,
    /// Address of a collector of OpenTelemetry, such as http://127.0.0.1:4317. The worker sends it
    /// the spans of traced jobs, and its metrics once a minute. The server decides which jobs are
    /// traced
    #[arg(long, value_name = "URL", env = "CLOAKWORK_WORKER_OTLP_ENDPOINT")]
    otlp_endpoint: Option<String>,
    /// Protocol of the collector, usually grpc on port 4317 and http on port 4318
    #[arg(long, value_enum, default_value = "grpc", requires = "otlp_endpoint")]
    otlp_protocol: OtlpProtocol,
    /// Certificate authority of the collector's certificate (PEM); by default those of the system
    #[arg(long, value_name = "FILE", requires = "otlp_endpoint")]
    otlp_ca: Option<PathBuf>,
    /// File with headers of the requests to the collector, such as a token: a line for each, as in
    /// 'authorization: Bearer ...'
    #[arg(long, value_name = "FILE", requires = "otlp_endpoint")]
    otlp_headers_file: Option<PathBuf>,
    /// Log filter, for example 'info' or 'cloakwork_worker=debug'
    #[arg(long, value_name = "FILTER", default_value = "info", env = "CLOAKWORK_LOG")]
    log: String,
}

/// A protocol of collectors.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum OtlpProtocol {
    Grpc,
    Http,
}

impl Cli {
    /// The collector that spans and metrics go to.
    fn collector(&self) -> Option<Collector> {
        self.otlp_endpoint.as_ref().map(|endpoint| Collector {
            endpoint: endpoint.clone(),
            protocol: match self.otlp_protocol {
                OtlpProtocol::Grpc => Protocol::Grpc,
                OtlpProtocol::Http => Protocol::Http,
            },
            ca_file: self.otlp_ca.clone(),
            headers_file: self.otlp_headers_file.clone(),
        })
    }

    fn log_filter(&self) -> EnvFilter {
        EnvFilter::new(&self.log)
    }

    /// Builds the options for a device of the given pool. `own_memory` is the device's own memory,
    /// if it has any.
    fn options(&self, pool: &str, own_memory: Option<u64>) -> Result<Options, std::io::Error> {
        let token = self.token_file.as_ref().map(read).transpose()?;
        let defaults = Options::default();
        let memory = self.memory.map(|mebibytes| mebibytes << 20).or(own_memory).unwrap_or(DEFAULT_MEMORY_BYTES);
        let job_memory = if own_memory.is_some() { (memory / 4).min(defaults.job_memory) } else { memory / 4 };
        Ok(Options {
            name: self.name.clone().unwrap_or_else(host_name),
            pool: self.pool.clone().unwrap_or_else(|| pool.to_owned()),
            token: token.map(|token| String::from_utf8_lossy(&token).trim().to_owned()),
            blob_store: self.blob_store.clone(),
            threads: self.threads.unwrap_or(defaults.threads),
            pin_threads: self.pin_threads,
            key_memory: memory / 2,
            arena_memory: memory / 4,
            vector_memory: self.vector_memory << 20,
            job_memory,
            grace: Duration::from_secs(self.grace),
            ..defaults
        })
    }

    /// The servers' endpoints, and the check of further URLs that the servers name.
    fn endpoints(&self) -> Result<(Vec<Endpoint>, Arc<Connect>), Box<dyn std::error::Error>> {
        let (tls, has_token) = (self.tls()?, self.token_file.is_some());
        let connect = Arc::new(move |url: &str| endpoint(url, tls.as_ref(), has_token));
        let endpoints = self.server.iter().map(|url| connect(url)).collect::<Result<_, _>>()?;
        Ok((endpoints, connect))
    }

    /// The transport security of --ca, --cert and --key.
    fn tls(&self) -> Result<Option<ClientTlsConfig>, std::io::Error> {
        let Some(ca) = &self.ca else { return Ok(None) };
        let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(ca)?));
        if let (Some(cert), Some(key)) = (&self.cert, &self.key) {
            tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
        }
        Ok(Some(tls))
    }
}

/// A server's endpoint. Its windows are wide enough for keys, and its keep-alive detects a dead
/// connection.
fn endpoint(url: &str, tls: Option<&ClientTlsConfig>, has_token: bool) -> Result<Endpoint, Box<dyn std::error::Error>> {
    let endpoint = Endpoint::from_shared(url.to_owned())?
        .connect_timeout(Duration::from_secs(10))
        .tcp_nodelay(true)
        .initial_stream_window_size(16 << 20)
        .initial_connection_window_size(32 << 20)
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(10))
        .keep_alive_while_idle(true);
    if !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(format!("--server {url}: expected http://HOST:PORT or https://HOST:PORT").into());
    }
    match (url.starts_with("https:"), tls) {
        (true, Some(tls)) => Ok(endpoint.tls_config(tls.clone())?),
        (true, None) => Err(format!("{url}: https needs --ca, the authority of the server's certificate").into()),
        (false, Some(_)) => Err(format!("{url}: --ca and --cert are for https").into()),
        (false, None) if has_token && !is_loopback(endpoint.uri().host().unwrap_or_default()) => Err(format!(
            "{url}: anyone on the path can read and use a token sent over http: use https with --ca, or a tunnel that \
             ends on this machine"
        )
        .into()),
        (false, None) => Ok(endpoint),
    }
}

/// Memory of a worker without --memory and without GPUs.
const DEFAULT_MEMORY_BYTES: u64 = 8 << 30;

/// Reads a file that an option names. The error contains the path.
fn read(path: &PathBuf) -> Result<Vec<u8>, std::io::Error> {
    fs::read(path).map_err(|error| std::io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "worker".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_parses_and_splits_the_memory() {
        Cli::command().debug_assert();
        let cli = Cli::parse_from(["cloakwork-worker", "--server", "http://[::1]:1", "--memory", "400"]);
        let options = cli.options("cpu", None).expect("options");
        assert_eq!((options.key_memory, options.arena_memory, options.job_memory), (200 << 20, 100 << 20, 100 << 20));
        assert!(cli.endpoints().is_ok());
        assert!(Cli::try_parse_from(["cloakwork-worker", "--server", "x", "--cert", "y"]).is_err(), "no key");
    }

    #[test]
    fn memory_and_pool_follow_the_device_unless_given() {
        let options = |arguments: &[&str], pool: &str, own: Option<u64>| {
            let arguments = [&["cloakwork-worker", "--server", "http://[::1]:1"], arguments].concat();
            let options = Cli::parse_from(arguments).options(pool, own).expect("options");
            (options.pool, options.key_memory, options.job_memory)
        };
        assert_eq!(options(&[], "cpu", None), ("cpu".to_owned(), 4 << 30, 2 << 30));
        assert_eq!(options(&[], "gpu", Some(64 << 30)), ("gpu".to_owned(), 32 << 30, 2 << 30));
        let said = ["--memory", "400", "--pool", "night"];
        assert_eq!(options(&said, "gpu", Some(64 << 30)), ("night".to_owned(), 200 << 20, 100 << 20));
    }

    #[test]
    fn certificates_without_tls_are_refused() {
        let cli = Cli::parse_from(["cloakwork-worker", "--server", "http://[::1]:1", "--ca", "/nowhere"]);
        assert!(cli.endpoints().is_err());
    }

    #[test]
    fn a_token_does_not_leave_the_machine_in_the_clear() {
        let endpoint = |server: &str, more: &[&str]| {
            let arguments = [&["cloakwork-worker", "--server", server], more].concat();
            Cli::parse_from(arguments).endpoints().map(|_| ()).map_err(|error| error.to_string())
        };
        let token = ["--token-file", "/nowhere"];
        for beyond in ["http://example.org:1", "http://192.0.2.1:1", "http://[2001:db8::1]:1", "http://localhost.org:1"]
        {
            let error = endpoint(beyond, &token).expect_err("refused");
            assert!(error.contains("use https"), "{error}");
            assert_eq!(endpoint(beyond, &[]), Ok(()));
        }
        for within in ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"] {
            assert_eq!(endpoint(within, &token), Ok(()), "{within}");
        }
    }

    #[test]
    fn https_without_an_authority_is_refused_at_the_start() {
        let cli = Cli::parse_from(["cloakwork-worker", "--server", "https://example.org:1"]);
        let error = cli.endpoints().map(drop).expect_err("refused").to_string();
        assert!(error.contains("https needs --ca"), "{error}");
    }
}
