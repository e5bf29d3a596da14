//! `cloakwork ckks decrypt`.

use cloakwork_client::{CkksError, ClientError, Complex, Flooding, SecretError};
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
/// inputs or see many results.
///
/// For results that others see, --error and --shown add noise that hides the errors. The noise is
/// far larger than the error, so the results must be precise (docs/ckks.md).
///
/// Examples:
///   cloakwork --keys numbers ckks decrypt x.ckks
///   cloakwork --keys numbers ckks decrypt x.ckks --error 1e-11 --shown 100
///   cloakwork --keys numbers --json ckks decrypt x.ckks --digits 2
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Ciphertext: a file, or a resource name on the server.
    ciphertext: String,
    /// Number of digits behind the point, at most 17 [default: those about ten bits above the error
    /// of a bootstrap]. All of them are printed, but further digits belong to the error.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(..=17))]
    digits: Option<u8>,
    /// Add noise that hides errors of up to this root mean square, for every input that an observer
    /// may know or choose.
    #[arg(long, value_name = "E", requires = "shown", conflicts_with = "digits")]
    error: Option<f64>,
    /// Number of results that others see over the life of the key.
    #[arg(long, value_name = "N", requires = "error")]
    shown: Option<u32>,
    /// Print only the first N numbers.
    #[arg(long, value_name = "N")]
    first: Option<usize>,
    /// Print real parts only.
    #[arg(long)]
    real: bool,
}

pub(super) async fn run(context: &Context, args: Args) -> Result<(), Failure> {
    let flooding = args.flooding()?;
    let keys = context.ckks_keys().await?;
    let (list, vector) = fetch(context, &keys, &args.ciphertext).await?;
    let safe = keys.set().result_digits;
    let (numbers, digits) = match flooding {
        None => {
            let digits = args.digits.unwrap_or(safe);
            (keys.decrypt_rounded(&list, digits), digits)
        }
        Some(flooding) => {
            let noise = flooding.noise(vector.slots_log2);
            eprintln!("cloakwork: each number has noise of {noise:.1e} in the root mean square");
            (keys.decrypt_flooded(&list, &flooding), digits_above(noise))
        }
    };
    let numbers = numbers.map_err(|error| failed(&args.ciphertext, error))?;
    let numbers = &numbers[..args.first.unwrap_or(usize::MAX).min(numbers.len())];
    if args.error.is_none() && digits > safe {
        eprintln!(
            "cloakwork: these numbers have digits of their errors, which depend on the secret key: round numbers that \
             others will see (--digits {safe} or fewer; see `cloakwork ckks decrypt --help`)"
        );
    }
    show(
        context.global.json,
        || json!({ "numbers": numbers.iter().map(|number| args.document(*number)).collect::<Vec<_>>() }),
        || numbers.iter().map(|number| args.text(*number, digits) + "\n").collect(),
    )
}

/// Number of digits behind the point that the noise leaves.
fn digits_above(noise: f64) -> u8 {
    (0..=17).rev().find(|digits| 2.0 * noise * 10_f64.powi(i32::from(*digits)) <= 1.0).unwrap_or(0)
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
    /// The noise that hides the errors, if the numbers get one.
    fn flooding(&self) -> Result<Option<Flooding>, Failure> {
        let asked = self.error.zip(self.shown);
        Ok(asked.map(|(error, shown)| Flooding::new(error, shown)).transpose().map_err(ClientError::from)?)
    }

    fn text(&self, number: Complex, digits: u8) -> String {
        let digits = usize::from(digits);
        if self.real { format!("{:.digits$}", number.re) } else { format!("{:.digits$}", Number(number)) }
    }

    /// A real number, or a pair of its real and imaginary part. The numbers are rounded already.
    fn document(&self, Complex { re, im }: Complex) -> serde_json::Value {
        if self.real { json!(re) } else { json!([re, im]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_with_their_digits() {
        let args = |real| Args { ciphertext: String::new(), digits: None, error: None, shown: None, first: None, real };
        let number = Complex::new(0.123, -2.0);
        assert_eq!(args(false).text(number, 3), "0.123-2.000i");
        assert_eq!(args(true).text(number, 2), "0.12");
        assert_eq!(args(true).document(number).to_string(), "0.123");
        assert_eq!(args(false).document(number).to_string(), "[0.123,-2.0]");
    }

    #[test]
    fn digits_end_above_the_noise() {
        for (noise, digits) in [(3.0, 0), (0.5, 0), (0.06, 0), (0.05, 1), (4e-6, 5), (1e-30, 17)] {
            assert_eq!(digits_above(noise), digits, "{noise}");
        }
    }
}
