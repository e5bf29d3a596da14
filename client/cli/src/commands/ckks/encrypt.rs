//! `cloakwork ckks encrypt`.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use cloakwork_client::{CkksPublicKey, Complex, params::ckks::CkksSet};
use serde_json::json;
use zeroize::Zeroizing;

use super::number::{Number, read_all};
use crate::{
    context::Context,
    failure::Failure,
    output::{bytes, counted, show, write_new},
};

/// Encrypt numbers into a file
///
/// Real or complex numbers come from the arguments, or from a file or standard input (-). A file
/// has numbers that commas and spaces separate, or a JSON list of numbers and of pairs [real,
/// imaginary]. A ciphertext holds a power of two of numbers. Zeros fill it up to --slots, or up to
/// the next power of two.
///
/// With a public key, no client key is needed. The file is then twice as large, and the numbers are
/// some 8 bits less exact.
///
/// The level is the number of multiplications that can follow each other, and determines the
/// size of the file.
///
/// Examples:
///   cloakwork --keys numbers ckks encrypt 0.5 -1.25 0.5+0.25i --level 3 --out x.ckks
///   cloakwork --keys numbers ckks encrypt --from column.csv --slots 32768 --out x.ckks
///   cloakwork ckks encrypt --public-key numbers.public --from column.csv --out x.ckks
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Numbers: 1.5, 2i, 0.5-0.25i. Put a complex number that begins with a minus after --. Other
    /// users of the machine can read arguments, but not files.
    #[arg(value_name = "NUMBER", allow_negative_numbers = true, conflicts_with = "from")]
    numbers: Vec<Number>,
    /// File of numbers; - is standard input.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Public key to encrypt with, instead of the client key.
    #[arg(long, value_name = "FILE")]
    public_key: Option<PathBuf>,
    /// Number of multiplications that can follow each other. Default: the most that the set has.
    #[arg(long, value_name = "LEVEL")]
    level: Option<usize>,
    /// Count of numbers in the ciphertext, a power of two. Default: the next power of two.
    #[arg(long, value_name = "N")]
    slots: Option<usize>,
    /// File to write. An existing file is not overwritten.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub(super) async fn run(context: &Context, args: Args) -> Result<(), Failure> {
    let numbers = match &args.from {
        None => Zeroizing::new(args.numbers.iter().map(|Number(number)| *number).collect()),
        Some(path) => {
            let numbers = read_all(&read(path)?);
            Zeroizing::new(numbers.map_err(|problem| Failure::Usage(format!("{}: {problem}", path.display())))?)
        }
    };
    let numbers = padded(numbers, args.slots)?;
    let level = |set: &CkksSet| args.level.unwrap_or(set.working_level);
    let (key_id, level, encrypted) = match &args.public_key {
        None => {
            let keys = context.ckks_keys().await?;
            let level = level(keys.set());
            (keys.key_id(), level, keys.encrypt(&numbers, level)?)
        }
        Some(path) => {
            let key = public_key(path)?;
            let level = level(key.set());
            (key.key_id(), level, key.encrypt(&numbers, level)?)
        }
    };
    write_new(&args.out, &encrypted.envelope)?;
    let (slots, size) = (numbers.len(), encrypted.envelope.len() as u64);
    show(
        context.global.json,
        || json!({ "file": args.out, "slots": slots, "level": level, "bytes": size, "key_id": key_id.to_string() }),
        || format!("{}: {} at level {level}, {}\n", args.out.display(), counted(slots as u64, "number"), bytes(size)),
    )
}

/// Appends zeros to the numbers.
fn padded(numbers: Zeroizing<Vec<Complex>>, slots: Option<usize>) -> Result<Zeroizing<Vec<Complex>>, Failure> {
    if numbers.is_empty() {
        return Err(Failure::Usage("there are no numbers: name some, or a file of them with --from".into()));
    }
    let slots = slots.unwrap_or(numbers.len().next_power_of_two());
    if !slots.is_power_of_two() || slots < numbers.len() {
        let got = numbers.len();
        return Err(Failure::Usage(format!(
            "--slots {slots}: expected a power of two, and no less than the {got} numbers"
        )));
    }
    // This cap exceeds the slots of any set. The set reports its own limit later.
    let slots = slots.min(SLOTS_MAX);
    let mut all = Zeroizing::new(Vec::with_capacity(slots.max(numbers.len())));
    all.extend(numbers.iter().copied());
    all.resize(slots.max(numbers.len()), Complex::ZERO);
    Ok(all)
}

fn read(path: &Path) -> Result<Zeroizing<String>, Failure> {
    let mut text = Zeroizing::new(String::new());
    let read = match path == Path::new("-") {
        true => std::io::stdin().lock().read_to_string(&mut text),
        false => std::fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text)),
    };
    read.map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
    Ok(text)
}

fn public_key(path: &Path) -> Result<CkksPublicKey, Failure> {
    let envelope = std::fs::read(path).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
    CkksPublicKey::read(&envelope).map_err(|error| Failure::Invalid(format!("{}: {error}", path.display())))
}

const SLOTS_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_follow_up_to_a_power_of_two() {
        let numbers = |count: usize| Zeroizing::new(vec![Complex::from(1.0); count]);
        let len = |count, slots| padded(numbers(count), slots).ok().map(|all| all.len());
        assert_eq!((len(3, None), len(4, None), len(1, Some(8))), (Some(4), Some(4), Some(8)));
        assert_eq!((len(0, None), len(3, Some(2)), len(3, Some(6)), len(1, Some(0))), (None, None, None, None));
        assert_eq!(padded(numbers(3), None).expect("four")[3], Complex::ZERO);
    }
}
