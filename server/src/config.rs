//! The configuration: one TOML file, overridden by the environment, overridden by flags. Unknown
//! names are refused, and all errors are reported at once.

mod check;
mod nearest;
mod pools;
mod print;
mod settings;
mod source;
mod value;

use std::{
    collections::BTreeMap,
    fmt,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

pub(crate) use check::wrong_issuer;
use cloakwork_attestation::Anchor;
use cloakwork_proto::is_loopback;
pub(crate) use pools::POOLS_MAX;
pub use pools::{Pool, REFERENCE_SET, Sets};
pub use print::print;
pub use value::{BlobStore, LogFormat, OtlpProtocol};

use crate::{address::TrustedProxies, hosts::Hosts, limits::Limits};

/// The whole configuration. [`print()`] documents each setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Accept keys and jobs of parameter sets below the project's security and failure
    /// requirements.
    pub allow_weak_sets: bool,
    /// Percentage of rows that are computed a second time on another worker.
    pub verify_percent: u64,
    /// Addresses and transport security.
    pub listen: Listen,
    /// Location of stored data.
    pub storage: Storage,
    /// The database, if it is on a server.
    pub database: Database,
    /// This server, among several servers of one database.
    pub replica: Replica,
    /// Authentication of callers.
    pub auth: Auth,
    /// Signatures under results.
    pub attestation: Attestation,
    /// The worker inside this process.
    pub worker: Worker,
    /// Pools of workers that an autoscaler sizes, by name.
    pub pools: BTreeMap<String, Pool>,
    /// The web console on the admin port.
    pub console: Console,
    /// Logging.
    pub log: Log,
    /// Export of traces and metrics.
    pub telemetry: Telemetry,
    /// All limits.
    pub limits: Limits,
}

/// Addresses and transport security.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Address of the gRPC port.
    pub address: SocketAddr,
    /// Address of the port of operators. Without it, there is no such port.
    pub operator_address: Option<SocketAddr>,
    /// Address of the port for probes and metrics.
    pub admin_address: SocketAddr,
    /// Certificate chain in PEM. TLS is on if it is set.
    pub tls_certificate: Option<PathBuf>,
    /// The certificate's private key in PEM.
    pub tls_key: Option<PathBuf>,
    /// Authority whose client certificates are accepted.
    pub client_ca: Option<PathBuf>,
    /// Use the certificate on the admin port as well.
    pub admin_tls: bool,
    /// Proxies that are trusted to report the caller's address.
    pub trusted_proxies: TrustedProxies,
}

/// Location of stored data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Directory of the database, of staged uploads, and of local blobs.
    pub directory: PathBuf,
    /// Where blobs are stored.
    pub blobs: BlobStore,
    /// Address of the S3-compatible store; empty for Amazon S3.
    pub s3_endpoint: String,
    /// The store's bucket.
    pub s3_bucket: String,
    /// The bucket's region.
    pub s3_region: String,
    /// File with the credentials of the store.
    pub s3_credentials_file: Option<PathBuf>,
}

/// The database, if it is on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// Where the server is. If this is empty, the database is a file in the data directory.
    pub url: String,
    /// File with the password.
    pub password_file: Option<PathBuf>,
    /// Authority whose certificates the database server may present, in PEM.
    pub ca_file: Option<PathBuf>,
    /// Refuse a database server that could lose committed changes when it fails.
    pub require_sync_standby: bool,
}

/// This server, among several servers of one database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// URL at which other servers and workers reach this server; empty for `listen.address`.
    pub url: String,
    /// Authority whose certificates the other servers may present, in PEM.
    pub ca_file: Option<PathBuf>,
}

/// Authentication of callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// Callers without a token act as the tenant `local`. Allowed only on a loopback address.
    pub anonymous: bool,
    /// Workers on the network must present a client certificate.
    pub worker_mtls: bool,
    /// Issuer whose tokens are accepted; empty for none.
    pub oidc_issuer: String,
    /// Name of this service in those tokens.
    pub oidc_audience: String,
    /// Address of the issuer's keys; empty for the one that the issuer states.
    pub oidc_keys_url: String,
    /// Claim with the tenant.
    pub oidc_tenant_claim: String,
    /// Claim with the scopes.
    pub oidc_scopes_claim: String,
    /// Authority whose certificate the issuer may present, in PEM.
    pub oidc_ca_file: Option<PathBuf>,
}

impl Auth {
    /// The issuer whose tokens are accepted, if there is one.
    pub fn issuer(&self) -> Option<cloakwork_oidc::Options> {
        let Self { oidc_issuer, oidc_audience, oidc_keys_url, oidc_tenant_claim, oidc_scopes_claim, .. } = self.clone();
        (!oidc_issuer.is_empty()).then(|| cloakwork_oidc::Options {
            issuer: oidc_issuer,
            audience: oidc_audience,
            jwks_url: (!oidc_keys_url.is_empty()).then_some(oidc_keys_url),
            tenant_claim: oidc_tenant_claim,
            scopes_claim: oidc_scopes_claim,
            ca_file: self.oidc_ca_file.clone(),
        })
    }
}

/// The web console on the admin port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Console {
    /// Serve the console.
    pub enabled: bool,
    /// Operators may change things in the console.
    pub writes: bool,
    /// Host names under which browsers reach the console.
    pub hosts: Hosts,
    /// Networks from which operators may log in without TLS.
    pub trusted_networks: TrustedProxies,
}

/// Signatures under results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attestation {
    /// Program that signs with the installation's key. Without it, the key is in the data
    /// directory.
    pub sign_command: Option<PathBuf>,
    /// The installation's public keys, if a program signs. The program signs under the first.
    pub anchor: Option<Anchor>,
    /// Life of a worker's certificate in hours.
    pub certificate_hours: u64,
}

/// The worker inside this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Run a worker inside this process.
    pub embedded: bool,
    /// Compute threads; 0 for one for each hardware thread.
    pub threads: u64,
    /// Memory for expanded keys in bytes; 0 for the worker's default.
    pub memory_bytes: u64,
    /// Memory for vector (CKKS) jobs in bytes; 0 for the worker's default.
    pub vector_memory_bytes: u64,
}

/// Logging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Log format: text for people, JSON for machines.
    pub format: LogFormat,
    /// `error`, `warn`, `info`, `debug`, `trace`, or a filter such as
    /// `info,cloakwork_server=debug`.
    pub level: String,
}

/// Export of traces and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Telemetry {
    /// Address of a collector of OpenTelemetry; empty for no export.
    pub otlp_endpoint: String,
    /// The protocol at this address.
    pub otlp_protocol: OtlpProtocol,
    /// Authority whose certificates the collector may present, in PEM.
    pub otlp_ca_file: Option<PathBuf>,
    /// File with headers of the requests to the collector.
    pub otlp_headers_file: Option<PathBuf>,
    /// Percentage of the calls without a trace that begin one.
    pub trace_percent: u64,
    /// Maximum number of traces in a second.
    pub traces_per_second: u64,
    /// Interval between two exports of all metrics; 0 for none.
    pub metrics_seconds: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            allow_weak_sets: false,
            verify_percent: 0,
            listen: Listen {
                address: SocketAddr::from((Ipv4Addr::LOCALHOST, 7270)),
                operator_address: None,
                admin_address: SocketAddr::from((Ipv4Addr::LOCALHOST, 7271)),
                tls_certificate: None,
                tls_key: None,
                client_ca: None,
                admin_tls: false,
                trusted_proxies: TrustedProxies::default(),
            },
            storage: Storage {
                directory: PathBuf::from("cloakwork-data"),
                blobs: BlobStore::Local,
                s3_endpoint: String::new(),
                s3_bucket: String::new(),
                s3_region: "us-east-1".to_owned(),
                s3_credentials_file: None,
            },
            database: Database { url: String::new(), password_file: None, ca_file: None, require_sync_standby: false },
            replica: Replica { url: String::new(), ca_file: None },
            auth: Auth {
                anonymous: true,
                worker_mtls: false,
                oidc_issuer: String::new(),
                oidc_audience: "cloakwork".to_owned(),
                oidc_keys_url: String::new(),
                oidc_tenant_claim: "cloakwork_tenant".to_owned(),
                oidc_scopes_claim: "cloakwork_scopes".to_owned(),
                oidc_ca_file: None,
            },
            attestation: Attestation { sign_command: None, anchor: None, certificate_hours: 24 },
            worker: Worker { embedded: true, threads: 0, memory_bytes: 0, vector_memory_bytes: 0 },
            pools: BTreeMap::new(),
            console: Console {
                enabled: true,
                writes: false,
                hosts: Hosts::default(),
                trusted_networks: TrustedProxies::default(),
            },
            log: Log { format: LogFormat::Text, level: "info".to_owned() },
            telemetry: Telemetry {
                otlp_endpoint: String::new(),
                otlp_protocol: OtlpProtocol::Grpc,
                otlp_ca_file: None,
                otlp_headers_file: None,
                trace_percent: 1,
                traces_per_second: 100,
                metrics_seconds: 60,
            },
            limits: Limits::default(),
        }
    }
}

impl Config {
    /// Reads the file, then the environment, then the flags, where each source overrides the
    /// sources before it. Then checks the result.
    ///
    /// `environment` may be the whole environment; variables without the prefix `CLOAKWORK_` are
    /// ignored. Flags are pairs of a setting's full name (`listen.address`) and its value.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &[(String, String)],
    ) -> Result<Self, ConfigError> {
        let mut problems = Vec::new();
        let mut config = Self::default();
        if let Some(path) = file {
            match std::fs::read_to_string(path) {
                Ok(text) => source::apply_file(&mut config, &path.display().to_string(), &text, &mut problems),
                Err(error) => problems
                    .push(Problem { place: path.display().to_string(), text: format!("cannot be read: {error}") }),
            }
        }
        source::apply_environment(&mut config, environment, &mut problems);
        source::apply_flags(&mut config, flags, &mut problems);
        if problems.is_empty() {
            problems = check::problems(&config);
        }
        if problems.is_empty() { Ok(config) } else { Err(ConfigError { problems }) }
    }

    /// Reads a configuration from text alone. `name` stands for the file in errors.
    pub fn parse(name: &str, text: &str) -> Result<Self, ConfigError> {
        let mut problems = Vec::new();
        let mut config = Self::default();
        source::apply_file(&mut config, name, text, &mut problems);
        if problems.is_empty() {
            problems = check::problems(&config);
        }
        if problems.is_empty() { Ok(config) } else { Err(ConfigError { problems }) }
    }

    /// Whether TLS is on.
    pub fn tls(&self) -> bool {
        self.listen.tls_certificate.is_some()
    }

    /// Whether the API is reachable from other machines without TLS.
    pub fn is_open_in_the_clear(&self) -> bool {
        !self.tls() && !is_loopback(&self.listen.address.ip().to_string())
    }
}

/// All errors in a configuration. Displayed as one line for each error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The errors in the order in which they were found; never empty.
    pub problems: Vec<Problem>,
}

/// An error in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Origin of the error: `cloakwork.toml:12`, the name of a variable, or a flag.
    pub place: String,
    /// The expected and the actual value.
    pub text: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Problem { place, text }) in self.problems.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            write!(f, "{newline}{place}: {text}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
