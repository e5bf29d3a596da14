//! `cloakwork gate`.

use cloakwork_client::{Gate, Keys, Program, ProgramBuilder};

use crate::{context::Context, failure::Failure};

/// Encrypt bits, run a boolean gate on each pair, decrypt
///
/// Needs keys for a boolean parameter set.
///
/// Examples:
///   cloakwork keygen --set PARAMETERS_ERROR_PROB_2_POW_MINUS_165_KS_PBS --out bits
///   cloakwork --keys bits keys push
///   cloakwork --keys bits gate NAND --left 0,0,1,1 --right 0,1,0,1
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Gate: AND, NAND, NOR, OR, XNOR or XOR.
    gate: Gate,
    /// Bits of the left input, 0 or 1.
    #[arg(long, value_name = "B,B,..", value_delimiter = ',', required = true)]
    left: Vec<u64>,
    /// Bits of the right input, as many as on the left.
    #[arg(long, value_name = "B,B,..", value_delimiter = ',', required = true)]
    right: Vec<u64>,
}

pub(crate) async fn run(context: &Context, args: Args) -> Result<(), Failure> {
    let (one, two) = (args.left.len(), args.right.len());
    if one != two {
        return Err(Failure::Usage(format!("--left has {one} bits and --right {two}: expected as many")));
    }
    let keys = context.keys().await?;
    let program = program(&keys, args.gate)?;
    let lists = [&args.left, &args.right].map(|bits| keys.encrypt(bits, 1));
    let lists = lists.into_iter().collect::<Result<Vec<_>, _>>()?;
    let client = context.connect().await?;
    context.run_and_show(&client, &keys, program, lists).await
}

fn program(keys: &Keys, gate: Gate) -> Result<Program, Failure> {
    let mut program = ProgramBuilder::new(keys.set());
    let (left, right) = (program.input("left"), program.input("right"));
    let result = program.gate(gate, left, right);
    program.output(result);
    program.build().map_err(|error| {
        Failure::Usage(format!("{error}\nThe keys are for {}; gates need a boolean set", keys.set().name))
    })
}
