//! The command `anchor`: prints the public keys that clients pin, and changes the installation's
//! key.

use std::process::ExitCode;

use clap::Args;
use cloakwork_attestation::PublicKey;
use cloakwork_storage::private;

use super::{
    failed,
    place::{self, Place},
    print, wrong_use,
};
use crate::{
    backend,
    config::Config,
    data,
    installation::{Installation, InstallationError, KeyFiles},
    owner,
};

/// Print the anchor: the public keys that sign for this installation.
///
/// Give the printed line to your users in a way that you trust. Their clients pin it with
/// `cloakwork anchor pin`, and refuse results that no worker of this installation has signed.
#[derive(Debug, Args)]
pub(super) struct Anchor {
    /// Make the next key, and print an anchor with both keys. The current key stays in use.
    #[arg(long, conflicts_with_all = ["rotate", "forget", "record"])]
    prepare: bool,
    /// Use the next key from the next start of the server on. The current key is retired: its
    /// public part stays in the anchor, so that stored results can be verified. Without a prepared
    /// key, makes one, which no client has pinned yet.
    #[arg(long, conflicts_with_all = ["forget", "record"])]
    rotate: bool,
    /// Remove a retired key, or the prepared next key, from the anchor. Clients that pin the new
    /// anchor refuse all results under that key.
    #[arg(long, value_name = "KEY", value_parser = key, conflicts_with = "record")]
    forget: Option<PublicKey>,
    /// Make the database at database.url a database of this installation. Servers with keys of
    /// other installations refuse to use it from then on.
    #[arg(long)]
    record: bool,
    #[command(flatten)]
    place: Place,
}

impl Anchor {
    pub(super) fn run(self) -> Result<(), ExitCode> {
        let config = self.place.config()?;
        if config.attestation.sign_command.is_none() {
            private::open_directory(&config.storage.directory, backend::DIRECTORIES)
                .map_err(|error| failed(format!("storage.directory: {error}")))?;
        }
        if config.attestation.sign_command.is_none() && !KeyFiles::exist(&config.storage.directory) {
            let path = config.storage.directory.display();
            eprintln!("A new installation: {path} has no key yet. Does --data name the server's data directory?");
        }
        if self.record {
            return record(&config);
        }
        let anchor = match (self.prepare, self.rotate, self.forget) {
            (true, _, _) => files(&config)?.prepare(),
            (_, true, _) => files(&config)?.rotate(),
            (_, _, Some(key)) => match files(&config)?.forget(key).transpose() {
                Some(anchor) => anchor,
                None => {
                    return Err(wrong_use(format!("{key} is neither a retired nor the next key of this installation")));
                }
            },
            _ => Installation::anchor_of(&config),
        };
        print(&format!("{}\n", anchor.map_err(failed)?))
    }
}

fn record(config: &Config) -> Result<(), ExitCode> {
    if config.database.url.is_empty() {
        return Err(wrong_use("database.url is not set: a database file has the key of its installation beside it"));
    }
    let anchor = Installation::anchor_of(config).map_err(failed)?;
    place::run(async {
        let database = data::open_for_command(config).await.map_err(failed)?;
        owner::record_anchor(&database, &anchor).await.map_err(failed)?;
        database.close().await;
        Ok(format!("{anchor}\n"))
    })
}

fn files(config: &Config) -> Result<KeyFiles, ExitCode> {
    match config.attestation.sign_command {
        Some(_) => Err(wrong_use(InstallationError::NotHere)),
        None => KeyFiles::open(&config.storage.directory).map_err(failed),
    }
}

fn key(text: &str) -> Result<PublicKey, String> {
    PublicKey::parse(text).ok_or_else(|| "expected 'ed25519:' and 64 hexadecimal digits".to_owned())
}
