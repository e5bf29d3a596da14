//! `cloakwork keys`.

use std::{collections::BTreeMap, time::Instant};

use cloakwork_client::{
    Client,
    params::{AnySet, SetId},
    proto::{CkksKeyPart, CkksPurpose, Key, KeyPart},
};
use futures_util::TryStreamExt as _;
use serde_json::{Value, json};

use super::{
    keygen::{sizes, warn},
    sets::marked,
};
use crate::{
    context::Context,
    failure::Failure,
    output::{Table, bytes, counted, hex, show},
    progress::bars,
};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Upload the evaluation key of the directory.
    ///
    /// Sends only the parts that the server lacks: the whole key, the parts of a set that was added
    /// later, or the rest after an interrupted push. The client key stays on this machine.
    Push,
    /// List the keys on the server.
    Ls,
    /// Show a key, part by part.
    Show {
        /// Id or resource name of the key. Default: the key of the directory.
        key: Option<String>,
    },
    /// Delete a key from the server. Its bytes go when the last live job that uses the key has
    /// ended.
    Rm {
        /// Id or resource name of the key. Default: the key of the directory.
        key: Option<String>,
    },
}

pub(crate) async fn run(context: &Context, command: Command) -> Result<(), Failure> {
    match command {
        Command::Push => push(context).await,
        Command::Ls => list(context).await,
        Command::Show { key } => show_key(context, key).await,
        Command::Rm { key } => remove(context, key).await,
    }
}

async fn push(context: &Context) -> Result<(), Failure> {
    let keys = context.any_keys().await?;
    let sets: BTreeMap<SetId, AnySet> = keys.parts().iter().map(|part| (part.set.id(), part.set)).collect();
    sets.values().for_each(|set| warn(set.name(), set.standing()));
    let client = context.connect().await?;
    let started = Instant::now();
    let key = client.push_parts(keys.parts(), &bars(context.global.json)).await?;
    let seconds = started.elapsed().as_secs_f64();
    let size: u64 = sizes(keys.parts())?.iter().sum();
    let print = || format!("{}\nevaluation key of {} on the server after {seconds:.2} s\n", key.name, bytes(size));
    show(context.global.json, || json!({ "key": document(&key), "seconds": seconds }), print)
}

async fn list(context: &Context) -> Result<(), Failure> {
    let keys: Vec<Key> = context.connect().await?.keys().try_collect().await?;
    let table = || {
        let mut table = Table::new(["key", "state", "parts", "size", "kind", "parameter set"]);
        for key in &keys {
            let mut name = (hex(&key.key_id), state(key));
            for Kind { kind, set, count, size } in kinds(key) {
                let (id, state) = std::mem::take(&mut name);
                let weakness = AnySet::by_name(set).and_then(|set| set.standing().weakness()).unwrap_or_default();
                table.row([id, state, count.to_string(), bytes(size), kind.to_owned(), marked(set, weakness)]);
            }
        }
        table.render()
    };
    show(context.global.json, || json!({ "keys": keys.iter().map(document).collect::<Vec<_>>() }), table)
}

async fn show_key(context: &Context, key: Option<String>) -> Result<(), Failure> {
    let client = context.connect().await?;
    let key = client.key(&name(context, &client, key).await?).await?;
    let text = || {
        let mut table = Table::new(["part", "size", "parameter set"]);
        for part in &key.parts {
            let purpose = part.ckks.as_ref().map(|part| format!(": {}", purpose(part))).unwrap_or_default();
            table.row([format!("{}{purpose}", part.kind), bytes(size_of(part)), part.parameter_set.clone()]);
        }
        let stands = completeness(&key);
        format!("{}\n{}{stands}\n\n{}", key.name, state(&key), table.render())
    };
    show(context.global.json, || json!({ "key": document(&key) }), text)
}

async fn remove(context: &Context, key: Option<String>) -> Result<(), Failure> {
    let client = context.connect().await?;
    let name = name(context, &client, key).await?;
    let key = client.delete_key(&name).await?;
    show(context.global.json, || json!({ "key": document(&key) }), || format!("{name}: deleted\n"))
}

/// The resource name of a key, or of the directory's key.
async fn name(context: &Context, client: &Client, key: Option<String>) -> Result<String, Failure> {
    match key {
        Some(key) if key.contains('/') => Ok(key),
        Some(key) => Ok(format!("tenants/{}/keys/{key}", client.tenant().await?)),
        None => Ok(client.key_name(context.any_keys().await?.key_id()).await?),
    }
}

/// The parameter sets that a key is complete for. For CKKS, completeness depends on the
/// computation, so only the number of parts is given.
fn completeness(key: &Key) -> String {
    if key.parts.iter().any(|part| part.ckks.is_some()) {
        return format!(", {}", counted(key.parts.len() as u64, "part"));
    }
    match &key.parameter_sets[..] {
        [] => String::new(),
        sets => format!(", complete for {}", sets.join(", ")),
    }
}

/// Parts of one kind and set.
struct Kind<'a> {
    kind: &'a str,
    set: &'a str,
    count: usize,
    size: u64,
}

/// A key's parts by kind and set, in the order of the parts.
fn kinds(key: &Key) -> Vec<Kind<'_>> {
    let mut kinds: Vec<Kind<'_>> = Vec::new();
    for part in &key.parts {
        let size = size_of(part);
        match kinds.iter_mut().find(|kind| kind.kind == part.kind && kind.set == part.parameter_set) {
            Some(kind) => (kind.count, kind.size) = (kind.count + 1, kind.size + size),
            None => kinds.push(Kind { kind: &part.kind, set: &part.parameter_set, count: 1, size }),
        }
    }
    kinds
}

fn size_of(part: &KeyPart) -> u64 {
    part.digest.as_ref().map_or(0, |digest| digest.size_bytes)
}

/// Purpose of a part of a CKKS key, and its highest level.
fn purpose(part: &CkksKeyPart) -> String {
    let level = part.level;
    match part.purpose() {
        CkksPurpose::Relinearization => format!("products up to level {level}"),
        CkksPurpose::Move => format!("X to X^{} up to level {level}", part.power),
        CkksPurpose::ToSparse => "into a bootstrap".into(),
        CkksPurpose::ToDense => format!("out of a bootstrap, up to level {level}"),
        CkksPurpose::Unspecified => "of a purpose that this program does not know".into(),
    }
}

fn state(key: &Key) -> String {
    key.state().as_str_name().trim_start_matches("KEY_STATE_").to_lowercase()
}

fn document(key: &Key) -> Value {
    let part = |part: &KeyPart| {
        let digest = part.digest.clone().unwrap_or_default();
        json!({
            "kind": part.kind,
            "parameter_set": part.parameter_set,
            "blake3": hex(&digest.blake3),
            "size_bytes": digest.size_bytes,
            "ckks": part.ckks.as_ref().map(ckks_document),
        })
    };
    let kind = |kind: Kind<'_>| json!({ "kind": kind.kind, "parameter_set": kind.set, "parts": kind.count, "size_bytes": kind.size });
    json!({
        "name": key.name,
        "key_id": hex(&key.key_id),
        "state": state(key),
        "parameter_sets": key.parameter_sets,
        "kinds": kinds(key).into_iter().map(kind).collect::<Vec<_>>(),
        "parts": key.parts.iter().map(part).collect::<Vec<_>>(),
        "resident_workers": key.resident_workers,
    })
}

fn ckks_document(part: &CkksKeyPart) -> Value {
    let purpose = part.purpose().as_str_name().trim_start_matches("CKKS_PURPOSE_").to_lowercase();
    json!({ "purpose": purpose, "power": part.power, "level": part.level })
}
