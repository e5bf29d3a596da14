//! `cloakwork ckks decrypt`.

use cloakwork_client::{CkksError, ClientError, Complex, DIGITS, SecretError};
use serde_json::json;

use super::{ciphertext::fetch, number::Number};
use crate::{context::Context, failure::Failure, output::show};

/// Decrypt a ciphertext and print its numbers
///
/// The ciphertext comes from a file, or from the server: a job's results without a file
/// (tenants/../jobs/../outputs/0) are fetched. The server removes a job's results ten minutes after
/// the last of them was fetched.
///
/// A result is not exact, and its error depends on the secret key. An observer who sees results
/// with all their digits, and knows the computation, can work out the key. So numbers are rounded
/// to their meaningful digits, some ten bits above the error: --digits asks for more or fewer.
/// Rounding makes each result reveal less, but is not secure against observers who choose the
/// inputs or see many results (docs/ckks.md).
///
/// Examples:
///   cloakwork --keys numbers ckks decrypt x.ckks
///   cloakwork --keys numbers --json ckks decrypt x.ckks --digits 2
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Ciphertext: a file, or a resource name on the server.
    ciphertext: String,
    /// Number of digits behind the point, at most 17. All of them are printed, but digits behind
    /// the fourth one belong to the error.
    #[arg(long, value_name = "N", default_value_t = DIGITS, value_parser = clap::value_parser!(u8).range(..=17))]
    digits: u8,
    /// Print only the first N numbers.
    #[arg(long, value_name = "N")]
    first: Option<usize>,
    /// Print real parts only.
    #[arg(long)]
    real: bool,
}

pub(super) async fn run(context: &Context, args: Args) -> Result<(), Failure> {
    let keys = context.ckks_keys().await?;
    let list = fetch(context, &keys, &args.ciphertext).await?;
    let numbers = keys.decrypt_rounded(&list, args.digits).map_err(|error| failed(&args.ciphertext, error))?;
    let numbers = &numbers[..args.first.unwrap_or(usize::MAX).min(numbers.len())];
    if args.digits > DIGITS {
        eprintln!("cloakwork: {PUBLICATION_WARNING}");
    }
    show(
        context.global.json,
        || json!({ "numbers": numbers.iter().map(|number| args.document(*number)).collect::<Vec<_>>() }),
        || numbers.iter().map(|number| args.text(*number) + "\n").collect(),
    )
}

/// The failure of a ciphertext under these keys.
fn failed(source: &str, error: ClientError) -> Failure {
    let said = format!("{source}: {error}");
    match error {
        // The numbers have outgrown the modulus.
        ClientError::Secret(SecretError::Ckks(CkksError::TooLarge { .. })) => Failure::WrongResult(said),
        ClientError::CkksFormat(_) | ClientError::Format(_) => Failure::Invalid(said),
        error => error.into(),
    }
}

impl Args {
    fn text(&self, number: Complex) -> String {
        let digits = usize::from(self.digits);
        if self.real { format!("{:.digits$}", number.re) } else { format!("{:.digits$}", Number(number)) }
    }

    /// A real number, or a pair of its real and imaginary part. The numbers are rounded already.
    fn document(&self, Complex { re, im }: Complex) -> serde_json::Value {
        if self.real { json!(re) } else { json!([re, im]) }
    }
}

const PUBLICATION_WARNING: &str = "these numbers have digits of their errors, which depend on the secret key: \
                                   round numbers that others will see (--digits 4 or fewer; see \
                                   `cloakwork ckks decrypt --help`)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_with_their_digits() {
        let args = |digits, real| Args { ciphertext: String::new(), digits, first: None, real };
        let number = Complex::new(0.123, -2.0);
        assert_eq!(args(3, false).text(number), "0.123-2.000i");
        assert_eq!(args(2, true).text(number), "0.12");
        assert_eq!(args(3, true).document(number).to_string(), "0.123");
        assert_eq!(args(3, false).document(number).to_string(), "[0.123,-2.0]");
    }
}
