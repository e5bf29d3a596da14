//! `cloakwork ckks public-key`.

use std::path::PathBuf;

use serde_json::json;

use crate::{
    context::Context,
    failure::Failure,
    output::{bytes, show, write_new},
};

/// Make a public key, for others to encrypt with
///
/// Holders of the public key encrypt numbers that only the client key decrypts. The key is not
/// secret, but others must get it from you: with a forged key, they would encrypt for the forger.
///
/// Do not show decrypted results to those who encrypt with the public key, or who give you
/// ciphertexts. Results reveal information on the client key, rounded or not (docs/ckks.md, What a
/// result tells).
///
/// Examples:
///   cloakwork --keys numbers ckks public-key --out numbers.public
///   cloakwork ckks encrypt --public-key numbers.public 0.5 -1.25 --out x.ckks
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// File to write. An existing file is not overwritten.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub(super) async fn run(context: &Context, args: Args) -> Result<(), Failure> {
    let keys = context.ckks_keys().await?;
    let public = keys.public_key()?;
    write_new(&args.out, &public)?;
    let (key_id, size) = (keys.key_id(), public.len() as u64);
    show(
        context.global.json,
        || json!({ "file": args.out, "bytes": size, "parameter_set": keys.set().name, "key_id": key_id.to_string() }),
        || format!("{}: a public key of {key_id} for {}, {}\n", args.out.display(), keys.set().name, bytes(size)),
    )
}
