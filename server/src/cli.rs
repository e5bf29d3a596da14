//! The command line of the server.

mod access;
mod anchor;
mod backup;
mod console;
mod copy;
mod migrate;
mod place;
mod reconcile;
mod serve;
mod shards;

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use cloakwork_clock::Clock;
use cloakwork_proto::printable;

use crate::{
    config::{self, Config},
    data, dev_certs,
    installation::Installation,
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
    /// Without any configuration, the server listens on loopback, keeps its data in
    /// ./cloakwork-data and runs a worker in its own process. The server stops on SIGTERM or
    /// Ctrl-C, after running calls have ended.
    Serve(serve::Serve),
    Anchor(anchor::Anchor),
    Backup(backup::Backup),
    /// Check or print the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    Console(console::Console),
    /// Create certificates to try TLS: an authority, a server and a worker.
    DevCerts {
        /// Directory to write the files to. Existing files are not overwritten.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// An additional name or address of the server. May be repeated.
        #[arg(long = "name", value_name = "NAME")]
        names: Vec<String>,
    },
    Copy(copy::Copy),
    Migrate(migrate::Migrate),
    Reconcile(reconcile::Reconcile),
    Shards(shards::Shards),
    /// Create, list, move, revoke and delete tenants.
    #[command(subcommand)]
    Tenant(access::TenantCommand),
    /// Create, list and revoke tokens.
    #[command(subcommand)]
    Token(access::TokenCommand),
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Report all errors in a configuration file. Exits with status 2 if there is an error.
    Check {
        /// The configuration file.
        file: PathBuf,
    },
    /// Print the whole configuration with its documentation: the defaults, or the values set by a
    /// file and the environment.
    Print {
        /// The configuration file.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

/// Exit status for an invalid configuration or command line, the same as clap's.
const WRONG_USE: u8 = 2;

impl Cli {
    /// Runs the command. Errors go to standard error.
    pub fn run(self) -> ExitCode {
        let done = match self.command {
            Command::Serve(serve) => serve.run(),
            Command::Anchor(anchor) => anchor.run(),
            Command::Backup(backup) => backup.run(),
            Command::Config(ConfigCommand::Check { file }) => check(&file),
            Command::Config(ConfigCommand::Print { config }) => {
                load(config, &[]).and_then(|config| print(&config::print(&config)))
            }
            Command::Console(console) => console.run(),
            Command::DevCerts { out, names } => dev_certs::write(&out, &names, &Clock::system())
                .map_err(failed)
                .and_then(|files| print(&files.iter().map(|file| format!("{}\n", file.display())).collect::<String>())),
            Command::Copy(copy) => copy.run(),
            Command::Migrate(migrate) => migrate.run(),
            Command::Reconcile(reconcile) => reconcile.run(),
            Command::Shards(shards) => shards.run(),
            Command::Tenant(command) => command.run(),
            Command::Token(command) => command.run(),
        };
        done.err().unwrap_or(ExitCode::SUCCESS)
    }
}

fn check(file: &std::path::Path) -> Result<(), ExitCode> {
    // The environment is not applied: the check covers the file itself and the files that it names.
    let config = Config::load(Some(file), [], &[]).map_err(wrong_use)?;
    let tls = Tls::load(&config.listen).map_err(wrong_use)?;
    for port in [Port::Api, Port::Admin] {
        tls.iter().try_for_each(|tls| tls.server_config(port).map(drop)).map_err(wrong_use)?;
    }
    data::check_files(&config).map_err(wrong_use)?;
    Installation::check_files(&config).map_err(wrong_use)?;
    print(&format!("{}: valid\n", file.display()))
}

/// Writes to standard output, which may be a full disk, or a pipe whose reader has closed it.
fn print(text: &str) -> Result<(), ExitCode> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // A reader that closes the pipe early, such as `head`, is not an error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| failed(format!("nothing can be printed: {error}"))),
    }
}

/// Loads the configuration from file, environment and flags.
fn load(file: Option<PathBuf>, flags: &[(String, String)]) -> Result<Config, ExitCode> {
    // A variable that is not valid UTF-8 cannot be a setting.
    let environment =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let file = file.or_else(|| std::env::var_os("CLOAKWORK_CONFIG").map(PathBuf::from));
    Config::load(file.as_deref(), environment, flags).map_err(wrong_use)
}

fn wrong_use(error: impl std::fmt::Display) -> ExitCode {
    eprintln!("{error}");
    ExitCode::from(WRONG_USE)
}

/// Reports an error that ends the program. The text may contain paths and other text from outside.
/// Escaping keeps it on one line.
fn failed(error: impl std::fmt::Display) -> ExitCode {
    eprintln!("cloakwork-server: {}", printable(&error.to_string()));
    ExitCode::FAILURE
}
