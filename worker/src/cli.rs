//! The command line.

mod process;

use std::{fs, net::SocketAddr, path::PathBuf, time::Duration};

use clap::Parser;
use cloakwork_proto::is_loopback;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
use tracing_subscriber::EnvFilter;

use crate::{Devices, Options};

/// Computes encrypted jobs for a Cloakwork server.
///
/// The worker connects to the server, takes the jobs that the server leases to it, reads their keys and inputs through
/// the same connection, and hands the results in. It opens no port but that of --metrics and keeps nothing on disk. Several workers may share
/// a server; each is told which keys the others hold, by being sent other jobs.
///
/// It stops on SIGTERM or an interrupt: it takes no new jobs, lets those it has end for as long as --grace says, and
/// hands the rest back. If the server goes away, it keeps what it has and connects again.
#[derive(Debug, Parser)]
#[command(name = "cloakwork-worker", version)]
pub struct Cli {
    /// Where the server is: http://host:port, or https://host:port for TLS
    #[arg(long, value_name = "URL", env = "CLOAKWORK_WORKER_SERVER")]
    server: String,
    /// Name that people see in logs and records; the host's own by default
    #[arg(long, env = "CLOAKWORK_WORKER_NAME")]
    name: Option<String>,
    /// What to compute on
    #[arg(long, value_enum, default_value = "auto")]
    devices: Devices,
    /// Pool that the worker joins; by default cpu, or gpu where it computes on GPUs
    #[arg(long)]
    pool: Option<String>,
    /// File that holds the worker's token, in one line. Keep it readable by the worker alone. Goes over https, or to
    /// this machine
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Certificate authority that the server's certificate must come from (PEM). Needed for https
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The worker's own certificate (PEM), where the server asks for one
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of --cert (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Threads that compute; by default one for each processor (hardware thread) that the worker may use
    #[arg(long)]
    threads: Option<usize>,
    /// Keep each thread on a processor of its own, the first ones that the worker may use. For machines that do nothing
    /// else
    #[arg(long)]
    pin_threads: bool,
    /// Memory that the worker may use, in MiB: half for evaluation keys, a quarter each for ciphertexts under way and
    /// for inputs and outputs; 8192 by default. A key of the usual set takes 120. With GPUs, memory of each of them, and
    /// most of it by default; only inputs and outputs lie in the machine's memory then, up to 2048 MiB
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(64..=1 << 24))]
    memory: Option<u64>,
    /// Memory for jobs on vectors (CKKS) beside that, in MiB: five eighths for evaluation keys, a quarter for the matrices of
    /// bootstraps, the rest for what is computed on. Taken when such jobs come. 0, and the worker takes none
    #[arg(long, value_name = "MIB", default_value_t = 8192, value_parser = clap::value_parser!(u64).range(0..=1 << 24))]
    vector_memory: u64,
    /// Memory of the machine, in MiB, for evaluation keys that had to make room for others on GPUs, so that they are back at once
    /// when they are asked for again. It is pinned, and taken as keys come. A key takes half of what it takes on a GPU or
    /// less. 0, and none is kept
    #[arg(long, value_name = "MIB", default_value_t = 4096, value_parser = clap::value_parser!(u64).range(0..=1 << 24))]
    warm_memory: u64,
    /// Seconds that jobs may go on when the worker is asked to stop
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    grace: u64,
    /// Address at which /metrics shows what the sensors of GPUs say, as in 127.0.0.1:7272. Whoever reaches it may read it
    #[arg(long, value_name = "ADDRESS", env = "CLOAKWORK_WORKER_METRICS")]
    metrics: Option<SocketAddr>,
    /// What to log, as in 'info' or 'cloakwork_worker=debug'
    #[arg(long, value_name = "FILTER", default_value = "info", env = "CLOAKWORK_LOG")]
    log: String,
}

impl Cli {
    fn log_filter(&self) -> EnvFilter {
        EnvFilter::new(&self.log)
    }

    /// What the options mean on a device of that pool, with so much memory of its own.
    fn options(&self, pool: &str, own_memory: Option<u64>) -> Result<Options, std::io::Error> {
        let token = self.token_file.as_ref().map(read).transpose()?;
        let defaults = Options::default();
        let memory = self.memory.map(|mebibytes| mebibytes << 20).or(own_memory).unwrap_or(MEMORY);
        let job_memory = if own_memory.is_some() { (memory / 4).min(defaults.job_memory) } else { memory / 4 };
        Ok(Options {
            name: self.name.clone().unwrap_or_else(host_name),
            pool: self.pool.clone().unwrap_or_else(|| pool.to_owned()),
            token: token.map(|token| String::from_utf8_lossy(&token).trim().to_owned()),
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

    /// The server, with windows wide enough for keys and a keep-alive that notices a dead connection.
    fn endpoint(&self) -> Result<Endpoint, Box<dyn std::error::Error>> {
        let mut endpoint = Endpoint::from_shared(self.server.clone())?
            .connect_timeout(Duration::from_secs(10))
            .tcp_nodelay(true)
            .initial_stream_window_size(16 << 20)
            .initial_connection_window_size(32 << 20)
            .http2_keep_alive_interval(Duration::from_secs(10))
            .keep_alive_timeout(Duration::from_secs(10))
            .keep_alive_while_idle(true);
        if !["http://", "https://"].iter().any(|scheme| self.server.starts_with(scheme)) {
            return Err(format!("--server {}: expected http://HOST:PORT or https://HOST:PORT", self.server).into());
        }
        if self.server.starts_with("https:") {
            let mut tls = ClientTlsConfig::new();
            if let Some(ca) = &self.ca {
                tls = tls.ca_certificate(Certificate::from_pem(read(ca)?));
            }
            if let (Some(cert), Some(key)) = (&self.cert, &self.key) {
                tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
            }
            endpoint = endpoint.tls_config(tls)?;
        } else if self.ca.is_some() || self.cert.is_some() {
            return Err(format!("{}: --ca and --cert are for https", self.server).into());
        } else if self.token_file.is_some() && !is_loopback(endpoint.uri().host().unwrap_or_default()) {
            return Err(format!(
                "{}: a token over http can be read and used by everybody on the way: use https with --ca, or a tunnel \
                 that ends on this machine",
                self.server
            )
            .into());
        }
        Ok(endpoint)
    }
}

/// Memory of a worker that is not told how much it may use.
const MEMORY: u64 = 8 << 30;

/// A file that an option names; the error says which.
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
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
        let cli = Cli::parse_from(["cloakwork-worker", "--server", "http://[::1]:1", "--memory", "400"]);
        let options = cli.options("cpu", None).expect("options");
        assert_eq!((options.key_memory, options.arena_memory, options.job_memory), (200 << 20, 100 << 20, 100 << 20));
        assert!(cli.endpoint().is_ok());
        assert!(Cli::try_parse_from(["cloakwork-worker", "--server", "x", "--cert", "y"]).is_err(), "no key");
    }

    #[test]
    fn memory_and_pool_follow_the_device_unless_they_are_said() {
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
        assert!(cli.endpoint().is_err());
    }

    #[test]
    fn a_token_does_not_leave_the_machine_in_the_clear() {
        let endpoint = |server: &str, more: &[&str]| {
            let arguments = [&["cloakwork-worker", "--server", server], more].concat();
            Cli::parse_from(arguments).endpoint().map(|_| ()).map_err(|error| error.to_string())
        };
        let token = ["--token-file", "/nowhere"];
        for beyond in ["http://example.org:1", "http://192.0.2.1:1", "http://[2001:db8::1]:1", "http://localhost.org:1"]
        {
            let error = endpoint(beyond, &token).expect_err("refused");
            assert!(error.contains("use https"), "{error}");
            assert_eq!(endpoint(beyond, &[]), Ok(()));
        }
        for within in ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", "https://example.org:1"] {
            assert_eq!(endpoint(within, &token), Ok(()), "{within}");
        }
    }
}
