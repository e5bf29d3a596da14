//! `cloakwork ckks bootstrap`.

use std::path::PathBuf;

use cloakwork_client::{
    BootstrapKind, VectorProgramBuilder,
    params::ckks::{
        CkksSet,
        bootstrap::{BootstrapShape, NoSuchBootstrap},
    },
};

use super::{ciphertext::find, job, size::Size};
use crate::{context::Context, failure::Failure};

/// Give a ciphertext new levels
///
/// The numbers stay, up to a magnitude of about one. The key must have been made for this
/// bootstrap: `cloakwork ckks keygen --bootstrap`.
///
/// Examples:
///   cloakwork --keys numbers ckks bootstrap x.ckks --out y.ckks
///   cloakwork --keys numbers ckks bootstrap x.ckks --stages 5 --size medium --out y.ckks
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Ciphertext: a file, or a resource name on the server.
    ciphertext: String,
    /// Number of matrices in each direction, 1 to 5. More matrices are faster, and leave fewer
    /// levels.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=5))]
    stages: u8,
    /// Size of the key: small, medium or large.
    #[arg(long, default_value = "medium")]
    size: Size,
    /// Turn numbers into coefficients first. This takes as many levels as stages, and leaves more
    /// levels.
    #[arg(long)]
    lossy: bool,
    /// File to write. Without it, the result stays on the server. An existing file is not
    /// overwritten.
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
    let shape = BootstrapShape { slots_log2: vector.slots_log2, stages: args.stages.into(), size, kind };
    check(keys.set(), shape).map_err(Failure::Usage)?;
    let y = program.bootstrap(x, args.stages.into(), size, kind);
    program.output(y);
    let outs: Vec<PathBuf> = args.out.into_iter().collect();
    job::run(context, &client, &keys, program.build()?, vec![input], &outs).await
}

/// Checks that the set has this bootstrap. Few numbers allow fewer stages than many numbers. The
/// count of numbers was chosen at their encryption.
pub(super) fn check(set: &CkksSet, shape: BootstrapShape) -> Result<(), String> {
    let stages_max = set.bootstrap.raised.len();
    shape.check(set).map_err(|problem| match problem {
        NoSuchBootstrap::Stages { stages, .. } if (1..=stages_max).contains(&stages) => format!(
            "{problem}; name fewer, or encrypt with `--slots N`, which has zeros follow up to N numbers, as many as the key's \
             bootstrap is for"
        ),
        problem => problem.to_string(),
    })
}
