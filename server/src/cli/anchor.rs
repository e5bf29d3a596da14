//! The command `anchor`: prints the public keys that clients pin, and changes the installation's
//! key.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use cloakwork_attestation::PublicKey;
use cloakwork_storage::private;

use super::{failed, load, print, wrong_use};
use crate::{
    backend,
    config::Config,
    installation::{Installation, InstallationError, KeyFiles},
};

/// Print the anchor: the public keys that sign for this installation.
///
/// Give the printed line to your users in a way that you trust. Their clients pin it with
/// `cloakwork anchor pin`, and refuse results that no worker of this installation has signed.
#[derive(Debug, Args)]
pub(super) struct Anchor {
    /// Make the next key, and print an anchor with both keys. The current key stays in use.
    #[arg(long, conflicts_with_all = ["rotate", "forget"])]
    prepare: bool,
    /// Use the next key from the next start of the server on. The current key is retired: its
    /// public part stays in the anchor, so that stored results can be verified. Without a prepared
    /// key, makes one, which no client has pinned yet.
    #[arg(long, conflicts_with = "forget")]
    rotate: bool,
    /// Remove a retired key, or the prepared next key, from the anchor. Clients that pin the new
    /// anchor refuse all results under that key.
    #[arg(long, value_name = "KEY", value_parser = key)]
    forget: Option<PublicKey>,
    /// Configuration file [environment: CLOAKWORK_CONFIG].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The server's data directory.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl Anchor {
    pub(super) fn run(self) -> Result<(), ExitCode> {
        let data = self.data.as_ref().map(|data| ("storage.directory".to_owned(), data.display().to_string()));
        let config = load(self.config.clone(), data.as_slice())?;
        if config.attestation.sign_command.is_none() {
            private::open_directory(&config.storage.directory, backend::DIRECTORIES)
                .map_err(|error| failed(format!("storage.directory: {error}")))?;
        }
        if config.attestation.sign_command.is_none() && !KeyFiles::exist(&config.storage.directory) {
            let path = config.storage.directory.display();
            eprintln!("A new installation: {path} has no key yet. Does --data name the server's data directory?");
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

fn files(config: &Config) -> Result<KeyFiles, ExitCode> {
    match config.attestation.sign_command {
        Some(_) => Err(wrong_use(InstallationError::NotHere)),
        None => KeyFiles::open(&config.storage.directory).map_err(failed),
    }
}

fn key(text: &str) -> Result<PublicKey, String> {
    PublicKey::parse(text).ok_or_else(|| "expected 'ed25519:' and 64 hexadecimal digits".to_owned())
}
