//! Options of every command.

use std::path::PathBuf;

use clap::Args as Group;
use cloakwork_client::Anchor;

/// Options that every command takes.
#[derive(Clone, Debug, Group)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Address of the server; https:// for TLS.
    #[arg(long, global = true, env = "CLOAKWORK_SERVER", value_name = "URL", default_value = DEFAULT_SERVER)]
    pub(crate) server: String,
    /// API token. Prefer the environment variable, because other users of the machine can read
    /// arguments. The token is sent only over https or to this machine, and refused otherwise.
    #[arg(long, global = true, env = "CLOAKWORK_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// PEM certificate to trust instead of the system's.
    #[arg(long, global = true, env = "CLOAKWORK_CA", value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Your own certificate (PEM), for a server or proxy that asks for a client certificate.
    #[arg(long, global = true, env = "CLOAKWORK_CERT", value_name = "FILE", requires = "cert_key")]
    pub(crate) cert: Option<PathBuf>,
    /// Private key of --cert (PEM).
    #[arg(long, global = true, env = "CLOAKWORK_CERT_KEY", value_name = "FILE", requires = "cert")]
    pub(crate) cert_key: Option<PathBuf>,
    /// Anchor of the server: the public key of its installation. Without it, the anchor is taken
    /// that `cloakwork anchor pin` has pinned. On this machine, the first use of a server pins its
    /// anchor.
    #[arg(long, global = true, env = "CLOAKWORK_ANCHOR", value_name = "ANCHOR", conflicts_with = "unverified")]
    pub(crate) anchor: Option<Anchor>,
    /// Take results of any origin, without verification.
    #[arg(long, global = true)]
    pub(crate) unverified: bool,
    /// Directory of the keys.
    #[arg(long, global = true, env = "CLOAKWORK_KEYS", value_name = "DIR", default_value = DEFAULT_KEYS)]
    pub(crate) keys: PathBuf,
    /// File whose first line is the passphrase of the client key.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// Context of the trace that the calls belong to, as in the header of W3C Trace Context. The
    /// server records their spans if it exports traces.
    #[arg(long, global = true, env = "TRACEPARENT", value_name = "CONTEXT")]
    pub(crate) traceparent: Option<String>,
    /// Print JSON: one document, or one document per line from commands that report changes.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

pub(crate) const DEFAULT_SERVER: &str = "http://127.0.0.1:7270";
/// The address of operators' calls: the variable that names it, and its default.
pub(crate) const OPERATOR_SERVER_VARIABLE: &str = "CLOAKWORK_OPERATOR_SERVER";
pub(crate) const DEFAULT_OPERATOR_SERVER: &str = "http://127.0.0.1:7272";
pub(crate) const DEFAULT_KEYS: &str = "cloakwork-keys";
