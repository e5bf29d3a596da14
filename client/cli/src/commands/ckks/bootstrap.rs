//! `cloakwork ckks bootstrap`.

use std::path::PathBuf;

use cloakwork_client::{BootstrapKind, VectorProgramBuilder};

use super::{ciphertext::find, job, size::Size};
use crate::{context::Context, failure::Failure};

/// Give a ciphertext new levels
///
/// The numbers stay, of magnitude up to about one. The key must have been made for such a
/// bootstrap: `cloakwork ckks keygen --bootstrap`.
///
/// Examples:
///   cloakwork --keys numbers ckks bootstrap x.ckks --out y.ckks
///   cloakwork --keys numbers ckks bootstrap x.ckks --stages 3 --size large --out y.ckks
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The ciphertext: a file, or what the server calls it.
    ciphertext: String,
    /// Matrices in each direction, 1 to 5: more of them are faster, and leave fewer levels.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=5))]
    stages: u8,
    /// Of the key: small, medium or large.
    #[arg(long, default_value = "medium")]
    size: Size,
    /// Turn numbers to coefficients first, which takes as many levels as stages, and leaves more.
    #[arg(long)]
    lossy: bool,
    /// File to write; the result stays on the server where absent. One that is there already is not overwritten.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) async fn run(context: &Context, args: Args) -> Result<(), Failure> {
    let keys = context.ckks_keys().await?;
    let client = context.connect().await?;
    let (input, vector) = find(context, &client, &keys, &args.ciphertext).await?;
    let mut program = VectorProgramBuilder::new(keys.set());
    let x = program.stored("x", vector.slots_log2, vector.level, vector.scale);
    let Size(size) = args.size;
    let kind = if args.lossy { BootstrapKind::Lossy } else { BootstrapKind::Regular };
    let y = program.bootstrap(x, args.stages.into(), size, kind);
    program.output(y);
    let outs: Vec<PathBuf> = args.out.into_iter().collect();
    job::run(context, &client, &keys, program.build()?, vec![input], &outs).await
}
