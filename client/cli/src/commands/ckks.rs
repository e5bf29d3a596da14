//! `cloakwork ckks`.

mod decrypt;
mod encrypt;
mod keygen;
mod number;

use crate::{context::Context, failure::Failure};

/// Where a command has arguments, they say what it does.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Keygen(keygen::Args),
    Encrypt(encrypt::Args),
    Decrypt(decrypt::Args),
}

pub(super) async fn run(context: &Context, command: Command) -> Result<(), Failure> {
    match command {
        Command::Keygen(args) => keygen::run(context, args).await,
        Command::Encrypt(args) => encrypt::run(context, args).await,
        Command::Decrypt(args) => decrypt::run(context, args).await,
    }
}
