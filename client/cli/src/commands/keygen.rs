//! `cloakwork keygen`.

use std::{path::PathBuf, time::Instant};

use cloakwork_client::{
    CLIENT_KEY_FILE, Keys, Part, Source,
    params::{
        ParameterSet, Standing,
        table::{SETS, companion_of},
    },
    set_by_name,
};
use serde_json::json;

use crate::{
    context::Context,
    failure::Failure,
    output::{bytes, show},
    progress::bars,
};

/// Make a client key and its evaluation key
///
/// The client key goes to DIR/client.key, which only its owner can read. With a passphrase, the key
/// is sealed as well. The parts of the evaluation key lie beside it, and `cloakwork keys push`
/// sends only these parts. An existing client key is never overwritten.
///
/// One client key may serve several sets that differ only in how they bootstrap: repeat --set, or
/// add a set to existing keys with --add. `cloakwork keys push` sends the parts that the server
/// lacks.
///
/// Some sets have a companion, which bootstraps the same ciphertexts in another way. With the keys
/// of both, workers on GPUs use the companion where it is faster: where little is computed at a
/// time. Programs, jobs and results do not change. A companion's evaluation key is larger, and
/// workers on CPUs do not use it.
///
/// Examples:
///   cloakwork keygen
///   cloakwork keygen --companion
///   cloakwork keygen --add --companion
///   cloakwork keygen --add --set V1_8_PARAM_MESSAGE_2_CARRY_2_KS32_PBS_TUNIFORM_2M128
///   cloakwork keygen --set PARAMETERS_ERROR_PROB_2_POW_MINUS_165_KS_PBS --out bits
///   cloakwork --passphrase-file pass.txt keygen
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Parameter set; `cloakwork sets` lists the sets that the server serves. May be repeated.
    /// Default: V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128.
    #[arg(long = "set", value_name = "NAME")]
    sets: Vec<String>,
    /// Add the sets to the existing keys of the directory instead of making new keys.
    #[arg(long)]
    add: bool,
    /// Also make keys of the sets' companions. With --add and without --set, make only the
    /// companions of the existing sets.
    #[arg(long)]
    companion: bool,
    /// Directory to make. Default: the directory of --keys.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Two bits of message and two of carry, which suits most programs.
pub(crate) const DEFAULT_SET: &str = "V1_8_PARAM_MESSAGE_2_CARRY_2_KS_PBS_TUNIFORM_2M128";

pub(crate) async fn run(context: &Context, args: Args) -> Result<(), Failure> {
    let named = args.sets.iter().map(|name| set_by_name(name)).collect::<Result<Vec<_>, _>>()?;
    let directory = args.out.unwrap_or_else(|| context.global.keys.clone());
    let started = Instant::now();
    let passphrase = context.passphrase()?;
    let present: Vec<&'static ParameterSet> = match args.add {
        true => context.keys_in(directory.clone()).await?.sets().collect(),
        false => Vec::new(),
    };
    let sets = wanted(named, &present, args.companion)?;
    sets.iter().for_each(|set| warn(set.name, set.standing));
    // All sets are checked before the first is made. A directory with some of the sets would block
    // another attempt.
    Keys::check_sets(present.into_iter().chain(sets.iter().copied()))?;
    let mut keys = None;
    for (index, &set) in sets.iter().enumerate() {
        let (directory, passphrase, progress) = (directory.clone(), passphrase.clone(), bars(context.global.json));
        let made = match args.add || index > 0 {
            true => Keys::add_in(directory, set, passphrase, progress).await?,
            false => Keys::generate_in(directory, set, passphrase, progress).await?,
        };
        keys = Some(made);
    }
    let keys = keys.ok_or_else(|| Failure::Usage("--set needs a parameter set".into()))?;
    let seconds = started.elapsed().as_secs_f64();
    let size: u64 = sizes(keys.parts())?.iter().sum();
    let file = directory.join(CLIENT_KEY_FILE);
    let names: Vec<&str> = keys.sets().map(|set| set.name).collect();
    show(
        context.global.json,
        || {
            json!({
                "key_id": keys.key_id().to_string(),
                "parameter_set": keys.set().name,
                "parameter_sets": names,
                "directory": directory,
                "client_key_file": file,
                "evaluation_key_bytes": size,
                "seconds": seconds,
            })
        },
        || {
            format!(
                "key {} for {}\nevaluation key of {} in {}, made in {seconds:.2} s\nclient key in {}: keep it, it is the only one that decrypts\n",
                keys.key_id(),
                names.join(", "),
                bytes(size),
                directory.display(),
                file.display(),
            )
        },
    )
}

type Sets = Vec<&'static ParameterSet>;

/// The sets to make keys of: the named sets, and their companions. Without a name, the default set,
/// or only the companions of the present sets.
fn wanted(named: Sets, present: &[&'static ParameterSet], with_companions: bool) -> Result<Sets, Failure> {
    let mut sets = match named.is_empty() {
        true if with_companions && !present.is_empty() => Vec::new(),
        true => vec![set_by_name(DEFAULT_SET)?],
        false => named,
    };
    if with_companions {
        let of = if sets.is_empty() { present } else { &sets };
        for companion in companions(of)? {
            if !sets.iter().any(|set| set.id == companion.id) {
                sets.push(companion);
            }
        }
    }
    Ok(sets)
}

/// The companions of the sets. Refused if no set has a companion.
fn companions(sets: &[&'static ParameterSet]) -> Result<Sets, Failure> {
    let companions: Sets = sets.iter().filter_map(|set| companion_of(set)).map(|companion| companion.set).collect();
    if !companions.is_empty() {
        return Ok(companions);
    }
    let names = |sets: &mut dyn Iterator<Item = &&'static ParameterSet>| -> String {
        sets.map(|set| set.name).collect::<Vec<_>>().join(", ")
    };
    let having: Sets =
        SETS.iter().filter(|set| companion_of(set).is_some_and(|_| set.standing == Standing::Served)).collect();
    let (none, some) = (names(&mut sets.iter()), names(&mut having.iter()));
    Err(Failure::Usage(format!(
        "--companion: {none} has no companion; of the sets that are served, these have one: {some}"
    )))
}

/// Prints a warning if a set is weak.
pub(crate) fn warn(name: &str, standing: Standing) {
    if let Some(weakness) = standing.weakness() {
        eprintln!("cloakwork: warning: {name} is weak: {weakness}");
    }
}

/// Size in bytes of each part.
pub(crate) fn sizes(parts: &[Part]) -> Result<Vec<u64>, Failure> {
    let size = |source: &Source| match source {
        Source::Bytes(bytes) => Ok(bytes.len() as u64),
        Source::File(path) => Ok(std::fs::metadata(path)?.len()),
    };
    parts.iter().map(|part| size(&part.source)).collect()
}
