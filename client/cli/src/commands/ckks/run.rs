//! `cloakwork ckks run`.

use std::{path::PathBuf, str::FromStr};

use cloakwork_client::VectorProgram;

use super::{
    ciphertext::find,
    expression::{Named, compile},
    job,
};
use crate::{context::Context, failure::Failure, syntax::is_name};

/// Compute on encrypted numbers
///
/// Names stand for ciphertexts: files, or results on the server (tenants/../jobs/../outputs/0),
/// which can be used without fetching them. Semicolons separate expressions. Each expression makes
/// a ciphertext, which goes to the file of an --out. Without --out, the outputs stay on the server.
/// The server sees the expression and the numbers in it, and nothing of the encrypted numbers.
///
/// Operators: + - * with ciphertexts and numbers, and / by a number. A product takes a level.
/// Functions: rotate(x, n) by n places to the left, conjugate(x), total(x) for the sum of all
/// numbers in every place, poly(x, c0, c1, ..) for c0 + c1 x + .., chebyshev(x, c0, c1, ..),
/// level(x, n) to a lower level, and bootstrap(x, stages, size, lossy) for new levels. A bootstrap
/// has 1 to 5 stages, and a size of small, medium or large, as the key was made. The defaults are
/// 5, medium, and the regular kind. bootstrap_both(x, y, ..) is one bootstrap of two ciphertexts of
/// real numbers. The call must stand alone, and makes two ciphertexts. Numbers are 1.5, 2i or
/// 0.5-2i.
///
/// Examples:
///   cloakwork --keys numbers ckks run '0.5 * x * y + 1' x=x.ckks y=y.ckks --out z.ckks
///   cloakwork --keys numbers ckks run 'rotate(x, 1); total(x)' x=x.ckks --out d.ckks --out s.ckks
///   cloakwork --keys numbers ckks run 'bootstrap(x * x, 5, medium)' x=x.ckks --out y.ckks
///   cloakwork --keys numbers ckks run --plan 'x * x' x=x.ckks
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Expressions to compute.
    #[arg(allow_hyphen_values = true)]
    expression: String,
    /// Names, and their files or resource names on the server.
    #[arg(value_name = "NAME=FILE")]
    arguments: Vec<Argument>,
    /// Files to write, one for each result. Existing files are not overwritten.
    #[arg(long = "out", value_name = "FILE")]
    outs: Vec<PathBuf>,
    /// Print the resources that the job would take, and compute nothing.
    #[arg(long)]
    plan: bool,
}

/// A name, and the ciphertext that it stands for.
#[derive(Clone, Debug)]
struct Argument {
    name: String,
    source: String,
}

impl FromStr for Argument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').filter(|(name, source)| is_name(name) && !source.is_empty());
        let (name, source) = parts.ok_or_else(|| format!("'{text}': expected NAME=FILE, as in x=x.ckks"))?;
        Ok(Self { name: name.to_owned(), source: source.to_owned() })
    }
}

pub(super) async fn run(context: &Context, args: Args) -> Result<(), Failure> {
    let keys = context.ckks_keys().await?;
    let client = context.connect().await?;
    let (mut names, mut inputs) = (Vec::new(), Vec::new());
    for Argument { name, source } in &args.arguments {
        let (input, vector) = find(context, &client, &keys, source).await?;
        names.push(Named { name, vector });
        inputs.push(input);
    }
    let program = compile(&args.expression, keys.set(), &names);
    let program: VectorProgram = program.map_err(|problem| Failure::Usage(problem.marked_in(&args.expression)))?;
    if args.plan {
        return job::plan(context, &client, &program).await;
    }
    job::run(context, &client, &keys, program, inputs, &args.outs).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_split_at_the_first_equals_sign() {
        let Argument { name, source } = "x_1=a=b.ckks".parse().expect("an argument");
        assert_eq!((name.as_str(), source.as_str()), ("x_1", "a=b.ckks"));
        for wrong in ["x", "=x.ckks", "1x=x.ckks", "x=", "x y=z"] {
            assert!(wrong.parse::<Argument>().is_err(), "{wrong}");
        }
    }
}
