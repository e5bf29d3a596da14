//! The command line of the server.

mod access;
mod serve;

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use cloakwork_proto::printable;

use crate::{
    config::{self, Config},
    dev_certs,
    tls::{Port, Tls},
};

/// The Cloakwork server: computes on encrypted data that it cannot read.
#[derive(Debug, Parser)]
#[command(name = "cloakwork-server", version, about, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server.
    ///
    /// Without any configuration it listens on loopback, keeps its data in ./cloakwork-data and runs a worker of its
    /// own. It stops on SIGTERM or Ctrl-C, after running calls have ended.
    Serve(serve::Serve),
    /// Check or print the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Make certificates to try TLS with: an authority, a server and a worker.
    DevCerts {
        /// Directory to write them to. Nothing in it is overwritten.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// A further name or address of the server. May be repeated.
        #[arg(long = "name", value_name = "NAME")]
        names: Vec<String>,
    },
    /// Make, list and revoke tenants.
    #[command(subcommand)]
    Tenant(access::TenantCommand),
    /// Make, list and revoke tokens.
    #[command(subcommand)]
    Token(access::TokenCommand),
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Say everything that is wrong with a file. Exits with 2 if something is.
    Check {
        /// The file.
        file: PathBuf,
    },
    /// Print the whole configuration with its documentation: the defaults, or what a file and the environment make of
    /// them.
    Print {
        /// The file.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

/// Exit code for a configuration or command line that is wrong, as clap has it.
const WRONG_USE: u8 = 2;

impl Cli {
    /// Does what the command line says. Errors go to standard error.
    pub fn run(self) -> ExitCode {
        let done = match self.command {
            Command::Serve(serve) => serve.run(),
            Command::Config(ConfigCommand::Check { file }) => check(&file),
            Command::Config(ConfigCommand::Print { config }) => {
                load(config, &[]).and_then(|config| print(&config::print(&config)))
            }
            Command::DevCerts { out, names } => dev_certs::write(&out, &names)
                .map_err(failed)
                .and_then(|files| print(&files.iter().map(|file| format!("{}\n", file.display())).collect::<String>())),
            Command::Tenant(command) => command.run(),
            Command::Token(command) => command.run(),
        };
        done.err().unwrap_or(ExitCode::SUCCESS)
    }
}

fn check(file: &std::path::Path) -> Result<(), ExitCode> {
    // The environment is another matter: a file is right or wrong by itself, and with the certificates that it names.
    let config = Config::load(Some(file), [], &[]).map_err(wrong_use)?;
    let tls = Tls::load(&config.listen).map_err(wrong_use)?;
    for port in [Port::Api, Port::Admin] {
        tls.iter().try_for_each(|tls| tls.server_config(port).map(drop)).map_err(wrong_use)?;
    }
    print(&format!("{}: fine\n", file.display()))
}

/// Writes to standard output, which may be a full disk, or a pipe whose reader has gone.
fn print(text: &str) -> Result<(), ExitCode> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| failed(format!("nothing can be printed: {error}"))),
    }
}

/// The configuration from file, environment and flags.
fn load(file: Option<PathBuf>, flags: &[(String, String)]) -> Result<Config, ExitCode> {
    // A variable that is no text cannot be one of ours.
    let environment =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let file = file.or_else(|| std::env::var_os("CLOAKWORK_CONFIG").map(PathBuf::from));
    Config::load(file.as_deref(), environment, flags).map_err(wrong_use)
}

fn wrong_use(error: impl std::fmt::Display) -> ExitCode {
    eprintln!("{error}");
    ExitCode::from(WRONG_USE)
}

/// An error that ends the program. It may have paths and other text that somebody else chose: escaped, it stays one line.
fn failed(error: impl std::fmt::Display) -> ExitCode {
    eprintln!("cloakwork-server: {}", printable(&error.to_string()));
    ExitCode::FAILURE
}
