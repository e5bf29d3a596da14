//! Where a command finds the database.

use std::{future::Future, path::PathBuf, process::ExitCode};

use clap::Args;
use cloakwork_storage::Database;

use super::{failed, load, print};
use crate::{
    config::Config,
    data::{self, DataError},
};

/// Location of the database.
#[derive(Debug, Args)]
pub(super) struct Place {
    /// Configuration file [environment: CLOAKWORK_CONFIG].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The server's data directory.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// The action if the data directory does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// Create the directory. The first tenant may be created before the first start of the server.
    Made,
    /// Refuse. The directory was probably mistyped.
    Refused,
}

impl Place {
    /// Loads the configuration.
    pub(super) fn config(self) -> Result<Config, ExitCode> {
        let data = self.data.map(|path| ("storage.directory".to_owned(), path.to_string_lossy().into_owned()));
        load(self.config, data.as_slice())
    }

    /// Opens the database, runs `work` on it, and prints the text that `work` returns.
    pub(super) fn with_database<F, E>(self, missing: Missing, work: impl FnOnce(Database) -> F) -> Result<(), ExitCode>
    where
        F: Future<Output = Result<String, E>>,
        E: std::fmt::Display,
    {
        on_database(&self.config()?, missing, work)
    }

    /// Brings the tables up to date first.
    pub(super) fn with_migrated_database<F, E>(self, work: impl FnOnce(Database) -> F) -> Result<(), ExitCode>
    where
        F: Future<Output = Result<String, E>>,
        E: std::fmt::Display,
    {
        let config = self.config()?;
        on_opened(&config, Missing::Made, data::migrate(&config), work)
    }
}

/// Opens the database that the settings name, runs `work` on it, and prints the text that `work`
/// returns.
pub(super) fn on_database<F, E>(
    config: &Config,
    missing: Missing,
    work: impl FnOnce(Database) -> F,
) -> Result<(), ExitCode>
where
    F: Future<Output = Result<String, E>>,
    E: std::fmt::Display,
{
    on_opened(config, missing, data::open_for_command(config), work)
}

fn on_opened<F, E>(
    config: &Config,
    missing: Missing,
    opening: impl Future<Output = Result<Database, DataError>>,
    work: impl FnOnce(Database) -> F,
) -> Result<(), ExitCode>
where
    F: Future<Output = Result<String, E>>,
    E: std::fmt::Display,
{
    let directory = &config.storage.directory;
    if config.database.url.is_empty() && !directory.exists() {
        let path = directory.display();
        if missing == Missing::Refused {
            return Err(failed(format!(
                "the data directory {path} does not exist: --data names the server's data directory"
            )));
        }
        eprintln!("A new data directory: {path}. Start the server with this directory.");
    }
    run(async {
        let database = opening.await.map_err(failed)?;
        let done = work(database.clone()).await;
        database.close().await;
        done.map_err(failed)
    })
}

/// Runs a command on this thread, and prints the text that it returns.
pub(super) fn run(command: impl Future<Output = Result<String, ExitCode>>) -> Result<(), ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    print(&runtime.block_on(command)?)
}
