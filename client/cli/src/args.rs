//! The arguments, and the manual that `--help` prints.

use std::path::PathBuf;

use clap::{Args as Group, Parser, Subcommand};

use crate::commands::{bench, ckks, completions, demo, eval, gate, jobs, keygen, keys, pbs, top, uploads};

/// Compute on encrypted data with a Cloakwork server.
///
/// Keys are made here and the secret one stays here: the server gets evaluation keys and ciphertexts, computes on what
/// it cannot read, and returns ciphertexts that only this key opens.
#[derive(Debug, Parser)]
#[command(name = "cloakwork", version, max_term_width = 100, after_help = AFTER_HELP, subcommand_required = true)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, Group)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Address of the server; https:// for TLS.
    #[arg(long, global = true, env = "CLOAKWORK_SERVER", value_name = "URL", default_value = DEFAULT_SERVER)]
    pub(crate) server: String,
    /// API token. Better given by the environment: arguments can be read by other users of the machine. It is sent over
    /// https, or to this machine, and else refused.
    #[arg(long, global = true, env = "CLOAKWORK_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// PEM certificate to trust instead of the system's.
    #[arg(long, global = true, env = "CLOAKWORK_CA", value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Your own certificate (PEM), where a server, or what stands before it, asks for one.
    #[arg(long, global = true, env = "CLOAKWORK_CERT", value_name = "FILE", requires = "cert_key")]
    pub(crate) cert: Option<PathBuf>,
    /// Private key of --cert (PEM).
    #[arg(long, global = true, env = "CLOAKWORK_CERT_KEY", value_name = "FILE", requires = "cert")]
    pub(crate) cert_key: Option<PathBuf>,
    /// Directory of the keys.
    #[arg(long, global = true, env = "CLOAKWORK_KEYS", value_name = "DIR", default_value = DEFAULT_KEYS)]
    pub(crate) keys: PathBuf,
    /// File whose first line is the passphrase of the client key.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// Print JSON: one document, or one a line where a command goes on for a while.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Where a command has arguments, they say what it does: a line here would hide that.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Keygen(keygen::Args),
    /// Put evaluation keys on the server, list them, show them, delete them.
    #[command(subcommand)]
    Keys(keys::Command),
    /// Keys, ciphertexts and results of CKKS, arithmetic on encrypted approximate numbers.
    #[command(subcommand)]
    Ckks(ckks::Command),
    Eval(eval::Args),
    Pbs(pbs::Args),
    Gate(gate::Args),
    /// List, show, follow and cancel jobs.
    #[command(subcommand)]
    Jobs(jobs::Command),
    /// List uploads that have begun and not ended, and abort them.
    #[command(subcommand)]
    Uploads(uploads::Command),
    /// The parameter sets that the server serves, with their security and failure figures.
    Sets,
    Bench(bench::Args),
    Top(top::Args),
    Demo(demo::Args),
    Completions(completions::Args),
}

pub(crate) const DEFAULT_SERVER: &str = "http://127.0.0.1:7270";
pub(crate) const DEFAULT_KEYS: &str = "cloakwork-keys";

const AFTER_HELP: &str = "\
Examples:
  cloakwork keygen                                  make keys in ./cloakwork-keys
  cloakwork keys push                               upload the evaluation key
  cloakwork eval 'max(x, y) * 3' x=u64:7 y=u64:9    computed under encryption
  cloakwork pbs --fn square --values 1,2,3          the squares, by one bootstrap each
  cloakwork pbs --expr 'x*y % 4' --values 1,2 --values2 3,2
  cloakwork ckks keygen --out numbers               keys for approximate numbers
  cloakwork jobs show JOB                           where its time went
  cloakwork --json jobs ls | jq .jobs

Exit codes:
  0  done
  1  something that has no code of its own
  2  wrong arguments: a computation that they cannot mean, a file that is not there
  3  not found on the server: a key, job or ciphertext
  4  refused by the server, or not valid: a file that is damaged, or is no ciphertext or public key
  5  the server cannot be reached, or did not answer in time
  6  overloaded, or over a quota
  7  the job failed or was cancelled, or a result was wrong, or too large to decrypt
  8  trouble with the keys in the directory, or a ciphertext of another key
130  interrupted while a job goes on, or its results are fetched; what is printed names it";

#[cfg(test)]
mod tests;
