//! `cloakwork ckks decrypt`.

use cloakwork_client::{CkksError, ClientError, Complex, SecretError};
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
/// with all their digits, and knows the computation, can work out the key. Round results that
/// others will see to their meaningful digits, some ten bits above the error: --digits does so.
/// Rounding makes each result reveal less, but is not secure against observers who choose the
/// inputs or see many results (docs/ckks.md).
///
/// Examples:
///   cloakwork --keys numbers ckks decrypt x.ckks --digits 4
///   cloakwork --keys numbers --json ckks decrypt x.ckks
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Ciphertext: a file, or a resource name on the server.
    ciphertext: String,
    /// Number of digits behind the point, at most 17. Default: all digits of a double.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(..=17))]
    digits: Option<u8>,
    /// Print only the first N numbers.
    #[arg(long, value_name = "N")]
    first: Option<usize>,
    /// Print real parts only.
    #[arg(long)]
    real: bool,
}

pub(super) async fn run(context: &Context, args: Args) -> Result<(), Failure> {
    let keys = context.ckks_keys().await?;
    let envelope = fetch(context, &keys, &args.ciphertext).await?;
    let numbers = keys.decrypt(&envelope).map_err(|error| failed(&args.ciphertext, error))?;
    let numbers = &numbers[..args.first.unwrap_or(usize::MAX).min(numbers.len())];
    if args.digits.is_none_or(|digits| digits > MEANINGFUL_DIGITS) {
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
        match (self.digits.map(usize::from), self.real) {
            (Some(digits), true) => format!("{:.digits$}", number.re),
            (None, true) => number.re.to_string(),
            (Some(digits), false) => format!("{:.digits$}", Number(number)),
            (None, false) => Number(number).to_string(),
        }
    }

    /// A real number, or a pair of its real and imaginary part.
    fn document(&self, Complex { re, im }: Complex) -> serde_json::Value {
        let [re, im] = [re, im].map(|part| match self.digits {
            // Printing and parsing rounds the number, so it has no further digits.
            Some(digits) => format!("{part:.0$}", usize::from(digits)).parse().unwrap_or(part),
            None => part,
        });
        if self.real { json!(re) } else { json!([re, im]) }
    }
}

/// Number of digits that are about ten bits above the error of a bootstrap.
const MEANINGFUL_DIGITS: u8 = 4;

const PUBLICATION_WARNING: &str = "these numbers have digits of their errors, which depend on the secret key: \
                                   round numbers that others will see (--digits 4 or fewer; see \
                                   `cloakwork ckks decrypt --help`)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounded_numbers_have_no_further_digits() {
        let args = |digits, real| Args { ciphertext: String::new(), digits, first: None, real };
        let number = Complex::new(0.123_456_789, -2.000_000_4);
        assert_eq!(args(Some(3), false).text(number), "0.123-2.000i");
        assert_eq!(args(Some(3), true).document(number).to_string(), "0.123");
        assert_eq!(args(Some(2), false).document(number).to_string(), "[0.12,-2.0]");
        assert_eq!(args(None, true).text(number), "0.123456789");
        assert_eq!(args(None, false).document(number).to_string(), "[0.123456789,-2.0000004]");
    }
}
