//! `cloakwork ckks`.

mod bootstrap;
mod ciphertext;
mod decrypt;
mod encrypt;
mod expression;
mod job;
mod keygen;
mod number;
mod public_key;
mod run;
mod size;

use crate::{context::Context, failure::Failure};

/// Commands take their help from their `Args` types.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Keygen(keygen::Args),
    PublicKey(public_key::Args),
    Encrypt(encrypt::Args),
    Decrypt(decrypt::Args),
    Run(run::Args),
    Bootstrap(bootstrap::Args),
}

pub(crate) async fn run(context: &Context, command: Command) -> Result<(), Failure> {
    match command {
        Command::Keygen(args) => keygen::run(context, args).await,
        Command::PublicKey(args) => public_key::run(context, args).await,
        Command::Encrypt(args) => encrypt::run(context, args).await,
        Command::Decrypt(args) => decrypt::run(context, args).await,
        Command::Run(args) => run::run(context, args).await,
        Command::Bootstrap(args) => bootstrap::run(context, args).await,
    }
}
