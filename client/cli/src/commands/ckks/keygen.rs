//! `cloakwork ckks keygen`.

use std::{fmt, path::PathBuf, str::FromStr, time::Instant};

use cloakwork_client::{
    BootstrapKind, CLIENT_KEY_FILE, CkksBootstrap, CkksKeys, CkksWish, ckks_set_by_name, params::ckks::CkksSet,
};
use serde_json::json;

use super::size::Size;
use crate::{
    commands::keygen::{sizes, warn},
    context::Context,
    failure::Failure,
    output::{bytes, counted, show},
    progress::bars,
};

/// Make a CKKS client key and its evaluation key
///
/// The client key goes to DIR/client.key, like that of `cloakwork keygen`; DIR cannot have both.
/// The evaluation key has one file for each purpose: products always, and rotations, conjugates and
/// bootstraps on request. `cloakwork keys push` sends the files one by one.
///
/// Name all bootstraps in one call: they have common parts that are made once, and share a secret
/// that no later call knows. For a real set, this takes up to a few gigabytes of disk space, and
/// less than one gigabyte of memory.
///
/// Examples:
///   cloakwork ckks keygen --out numbers --rotate 1,2,4,8 --conjugate
///   cloakwork ckks keygen --out numbers --bootstrap 32768:5:medium --bootstrap 1024:3:medium
///   cloakwork ckks keygen --out numbers --bootstrap 32768:3:small:lossy
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Parameter set; docs/ckks.md has a table of the sets.
    #[arg(long, value_name = "NAME", default_value = "CKKS_45_60_50_H4096")]
    set: String,
    /// Directory to make. Default: the directory of --keys.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Bootstrap: numbers in a ciphertext, stages, size of the key (small, medium or large), and
    /// lossy for the lossy kind. A larger size has more keys and is faster. A bootstrap of two
    /// vectors at once takes the keys of one. May be repeated.
    #[arg(long = "bootstrap", value_name = "SLOTS:STAGES:SIZE[:lossy]")]
    bootstraps: Vec<Bootstrap>,
    /// Rotations to the left by these numbers of places; negative numbers rotate to the right.
    #[arg(long, value_name = "N,N,..", value_delimiter = ',', allow_negative_numbers = true)]
    rotate: Vec<i64>,
    /// Make the key for conjugates.
    #[arg(long)]
    conjugate: bool,
    /// Highest level of products, rotations and conjugates. Lower levels make smaller keys.
    /// Default: the level of the set.
    #[arg(long, value_name = "LEVEL")]
    level: Option<usize>,
}

/// A bootstrap in the notation of the option.
#[derive(Clone, Copy, Debug)]
struct Bootstrap(CkksBootstrap);

impl FromStr for Bootstrap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "expected SLOTS:STAGES:SIZE, 32768:5:medium say, or SLOTS:STAGES:SIZE:lossy, got '{text}'; sizes are small, medium and large"
            )
        };
        let mut fields = text.split(':');
        let mut field = || fields.next().ok_or_else(wrong);
        let slots = field()?.parse().map_err(|_| wrong())?;
        let stages = field()?.parse().map_err(|_| wrong())?;
        let Size(size) = field()?.parse().map_err(|_| wrong())?;
        let kind = match (fields.next(), fields.next()) {
            (None, _) => BootstrapKind::Regular,
            (Some("lossy"), None) => BootstrapKind::Lossy,
            _ => return Err(wrong()),
        };
        Ok(Self(CkksBootstrap { slots, stages, size, kind }))
    }
}

impl fmt::Display for Bootstrap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CkksBootstrap { slots, stages, size, kind } = self.0;
        let kind = if kind == BootstrapKind::Lossy { ":lossy" } else { "" };
        write!(out, "{slots}:{stages}:{}{kind}", Size(size))
    }
}

/// The options of `keygen` that make a key for a wish.
pub(super) fn options(set: &CkksSet, wish: &CkksWish) -> String {
    let CkksWish { bootstraps, rotations, conjugation, level } = wish;
    let mut options = format!("--set {}", set.name);
    options.extend(bootstraps.iter().map(|bootstrap| format!(" --bootstrap {}", Bootstrap(*bootstrap))));
    if !rotations.is_empty() {
        let steps: Vec<String> = rotations.iter().map(i64::to_string).collect();
        options += &format!(" --rotate={}", steps.join(","));
    }
    if *conjugation {
        options += " --conjugate";
    }
    options.extend(level.map(|level| format!(" --level {level}")));
    options
}

pub(super) async fn run(context: &Context, args: Args) -> Result<(), Failure> {
    let set = ckks_set_by_name(&args.set)?;
    let wish = wish_of(&args);
    check_rotations(set, &wish.rotations)?;
    let directory = args.out.unwrap_or_else(|| context.global.keys.clone());
    warn(set.name, set.standing);
    let started = Instant::now();
    let (passphrase, progress) = (context.passphrase()?, bars(context.global.json));
    let keys = CkksKeys::generate_in(directory.clone(), set, wish, passphrase, progress).await?;
    let seconds = started.elapsed().as_secs_f64();
    let size: u64 = sizes(keys.parts())?.iter().sum();
    let (file, parts) = (directory.join(CLIENT_KEY_FILE), keys.parts().len());
    show(
        context.global.json,
        || {
            json!({
                "key_id": keys.key_id().to_string(),
                "parameter_set": set.name,
                "directory": directory,
                "client_key_file": file,
                "parts": parts,
                "evaluation_key_bytes": size,
                "seconds": seconds,
            })
        },
        || {
            format!(
                "key {} for {}\nevaluation key of {} in {} in {}, made in {seconds:.2} s\nclient key in {}: keep it, it is the only one that decrypts\n",
                keys.key_id(),
                set.name,
                bytes(size),
                counted(parts as u64, "part"),
                directory.display(),
                file.display(),
            )
        },
    )
}

fn wish_of(args: &Args) -> CkksWish {
    CkksWish {
        bootstraps: args.bootstraps.iter().map(|Bootstrap(bootstrap)| *bootstrap).collect(),
        rotations: args.rotate.clone(),
        conjugation: args.conjugate,
        level: args.level,
    }
}

/// Refuses rotations that leave every number of the largest ciphertexts in place. These rotations
/// have no key.
fn check_rotations(set: &CkksSet, rotations: &[i64]) -> Result<(), Failure> {
    let slots = set.slots() as i64;
    match rotations.iter().find(|steps| *steps % slots == 0) {
        None => Ok(()),
        Some(steps) => Err(Failure::Usage(format!(
            "--rotate {steps}: a rotation by that many places leaves {slots} numbers in place, and needs no key"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_client::KeySize;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn options_describe_the_wish() {
        let set = ckks_set_by_name("TOY_CKKS_45_60_50").expect("a set");
        let bootstrap = |kind| CkksBootstrap { slots: 16, stages: 2, size: KeySize::Small, kind };
        let all = CkksWish {
            bootstraps: vec![bootstrap(BootstrapKind::Regular), bootstrap(BootstrapKind::Lossy)],
            rotations: vec![-3, 1],
            conjugation: true,
            level: Some(9),
        };
        for wish in [all, CkksWish::default()] {
            let options = options(set, &wish);
            let line = <Line as clap::Parser>::try_parse_from(["keygen"].into_iter().chain(options.split(' ')));
            let line = line.expect("valid options");
            assert_eq!((wish_of(&line.args), line.args.set.as_str()), (wish, set.name));
        }
    }

    #[test]
    fn rotations_that_move_nothing_are_refused() {
        let set = ckks_set_by_name("TOY_CKKS_45_60_50").expect("a set");
        assert!(check_rotations(set, &[1, -1, 256, 513]).is_ok());
        for steps in [0, 512, -1024] {
            let refused = check_rotations(set, &[1, steps]).expect_err("nothing is moved").to_string();
            assert!(refused.contains(&format!("--rotate {steps}: ")) && refused.contains("512 numbers"), "{refused}");
        }
    }

    #[test]
    fn malformed_bootstraps_are_refused() {
        let (slots, stages) = (1024, 3);
        for (text, size, kind) in [
            ("1024:3:large", KeySize::Large, BootstrapKind::Regular),
            ("1024:3:small", KeySize::Small, BootstrapKind::Regular),
            ("1024:3:medium:lossy", KeySize::Medium, BootstrapKind::Lossy),
        ] {
            let Bootstrap(read) = text.parse().expect("a bootstrap");
            assert_eq!(read, CkksBootstrap { slots, stages, size, kind });
        }
        for wrong in [
            "",
            "1024",
            "1024:3",
            "1024:3:huge",
            "a:3:medium",
            "1024:-1:medium",
            "1024:3:medium:",
            "1024:3:medium:regular",
            "1024:3:medium:lossy:",
            "1024:3:lossy",
        ] {
            assert!(wrong.parse::<Bootstrap>().is_err(), "{wrong}");
        }
    }
}
