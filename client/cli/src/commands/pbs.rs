//! `cloakwork pbs`.

use cloakwork_client::set_by_name;

use crate::{
    context::Context,
    failure::Failure,
    function::{Function, program},
};

/// Encrypt values, run a function on each by programmable bootstraps, decrypt
///
/// Each value takes one bootstrap. With two lists of values, the function takes x from the first
/// list and y from the second, both below the message modulus. The server sees the function, and
/// nothing of the values.
///
/// Examples:
///   cloakwork pbs --fn square --values 1,2,3
///   cloakwork pbs --expr 'x*x % 16' --values 0,1,2,3
///   cloakwork pbs --table 3,2,1,0 --values 0,3
///   cloakwork pbs --expr 'x*y > 3' --values 1,2 --values2 3,2
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(flatten)]
    function: Function,
    /// Values of x.
    #[arg(long, value_name = "N,N,..", value_delimiter = ',', required = true, allow_negative_numbers = true)]
    values: Vec<u64>,
    /// Values of y, as many as of x.
    #[arg(long, value_name = "N,N,..", value_delimiter = ',', allow_negative_numbers = true)]
    values2: Option<Vec<u64>>,
    /// Parameter set to compute under, one of the sets of the keys. Default: the set that the keys
    /// were made for.
    #[arg(long, value_name = "NAME")]
    set: Option<String>,
}

pub(crate) async fn run(context: &Context, args: Args) -> Result<(), Failure> {
    if let Some(values2) = args.values2.as_ref().filter(|values2| values2.len() != args.values.len()) {
        let (one, two) = (args.values.len(), values2.len());
        return Err(Failure::Usage(format!("--values has {one} and --values2 {two}: expected as many")));
    }
    let mut keys = context.keys().await?;
    if let Some(name) = &args.set {
        keys = keys.using(set_by_name(name)?)?;
    }
    let columns: Vec<Vec<u64>> = [Some(args.values), args.values2].into_iter().flatten().collect();
    let entries = args.function.entries(keys.set(), columns.len())?;
    let (program, bound) = program(keys.set(), &entries, columns.len())?;
    let lists = columns.iter().map(|column| keys.encrypt(column, bound)).collect::<Result<Vec<_>, _>>()?;
    let client = context.connect().await?;
    context.run_and_show(&client, &keys, program, lists).await
}
