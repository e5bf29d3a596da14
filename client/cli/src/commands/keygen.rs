//! `cloakwork keygen`.

use std::{path::PathBuf, time::Instant};

use cloakwork_client::{CLIENT_KEY_FILE, Keys, Source, params::Standing, set_by_name};
use serde_json::json;

use crate::{
    context::Context,
    failure::Failure,
    output::{bytes, show},
    progress::bars,
};

/// Make a client key and its evaluation key.
///
/// The client key goes to DIR/client.key, which only its owner can read; with a passphrase it is sealed as well. The
/// parts of the evaluation key lie beside it, and are all that `cloakwork keys push` sends. A client key that is there
/// already is never overwritten.
///
/// Examples:
///   cloakwork keygen
///   cloakwork keygen --set PARAMETERS_ERROR_PROB_2_POW_MINUS_165_KS_PBS --out bits
///   cloakwork --passphrase-file pass.txt keygen
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Parameter set; `cloakwork sets` lists those that the server serves.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_SET)]
    set: String,
    /// Directory to make; that of --keys where absent.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Two bits of message and two of carry: what suits most programs.
pub(crate) const DEFAULT_SET: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";

pub(super) async fn run(context: &Context, args: Args) -> Result<(), Failure> {
    let set = set_by_name(&args.set)?;
    let directory = args.out.unwrap_or_else(|| context.global.keys.clone());
    let warning = match set.standing {
        Standing::Served => None,
        Standing::Weak(why) => Some(why),
        Standing::Toy => Some("for tests; protects nothing"),
    };
    if let Some(why) = warning {
        eprintln!("cloakwork: warning: {} is weak: {why}", set.name);
    }
    let started = Instant::now();
    let passphrase = context.passphrase()?;
    let progress = bars(context.global.json);
    let keys = Keys::generate_in(directory.clone(), set, passphrase, progress).await?;
    let seconds = started.elapsed().as_secs_f64();
    let size: u64 = sizes(&keys)?.iter().sum();
    let file = directory.join(CLIENT_KEY_FILE);
    show(
        context.global.json,
        || {
            json!({
                "key_id": keys.key_id().to_string(),
                "parameter_set": set.name,
                "directory": directory,
                "client_key_file": file,
                "evaluation_key_bytes": size,
                "seconds": seconds,
            })
        },
        || {
            format!(
                "key {} for {}\nevaluation key of {} in {}, made in {seconds:.2} s\nclient key in {}: keep it, it is the only one that decrypts\n",
                keys.key_id(),
                set.name,
                bytes(size),
                directory.display(),
                file.display(),
            )
        },
    );
    Ok(())
}

/// Bytes of each part.
pub(crate) fn sizes(keys: &Keys) -> Result<Vec<u64>, Failure> {
    let size = |source: &Source| match source {
        Source::Bytes(bytes) => Ok(bytes.len() as u64),
        Source::File(path) => Ok(std::fs::metadata(path)?.len()),
    };
    keys.parts().iter().map(|part| size(&part.source)).collect()
}
