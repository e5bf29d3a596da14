//! `cloakwork keys`.

use std::time::Instant;

use cloakwork_client::{Client, proto::Key};
use futures_util::TryStreamExt as _;
use serde_json::{Value, json};

use super::keygen::sizes;
use crate::{
    context::Context,
    failure::Failure,
    output::{Table, bytes, show},
    progress::bars,
};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Upload the evaluation key of the directory.
    ///
    /// Sends only what the server lacks: all of it, the parts of a set that was added since, or the rest after an
    /// earlier push broke off. The client key stays where it is.
    Push,
    /// List the keys on the server.
    Ls,
    /// Show a key, part by part.
    Show {
        /// The key: its id, or its resource name. That of the directory where absent.
        key: Option<String>,
    },
    /// Delete a key from the server; its bytes go when the last live job that uses it has ended.
    Rm {
        /// The key: its id, or its resource name. That of the directory where absent.
        key: Option<String>,
    },
}

pub(super) async fn run(context: &Context, command: Command) -> Result<(), Failure> {
    match command {
        Command::Push => push(context).await,
        Command::Ls => list(context).await,
        Command::Show { key } => show_key(context, key).await,
        Command::Rm { key } => remove(context, key).await,
    }
}

async fn push(context: &Context) -> Result<(), Failure> {
    let keys = context.keys().await?;
    let client = context.connect().await?;
    let started = Instant::now();
    let key = client.push_key(&keys, &bars(context.global.json)).await?;
    let seconds = started.elapsed().as_secs_f64();
    let size: u64 = sizes(&keys)?.iter().sum();
    let print = || format!("{}\nevaluation key of {} on the server after {seconds:.2} s\n", key.name, bytes(size));
    show(context.global.json, || json!({ "key": document(&key), "seconds": seconds }), print);
    Ok(())
}

async fn list(context: &Context) -> Result<(), Failure> {
    let keys: Vec<Key> = context.connect().await?.keys().try_collect().await?;
    let table = || {
        let mut table = Table::new(["key", "state", "size", "parameter sets"]);
        for key in &keys {
            let size = key.parts.iter().filter_map(|part| part.digest.as_ref()).map(|digest| digest.size_bytes).sum();
            table.row([hex(&key.key_id), state(key), bytes(size), key.parameter_sets.join(", ")]);
        }
        table.render()
    };
    show(context.global.json, || json!({ "keys": keys.iter().map(document).collect::<Vec<_>>() }), table);
    Ok(())
}

async fn show_key(context: &Context, key: Option<String>) -> Result<(), Failure> {
    let client = context.connect().await?;
    let key = client.key(&name(context, &client, key).await?).await?;
    let text = || {
        let mut table = Table::new(["part", "size", "parameter set"]);
        for part in &key.parts {
            let size = part.digest.as_ref().map_or(0, |digest| digest.size_bytes);
            table.row([part.kind.clone(), bytes(size), part.parameter_set.clone()]);
        }
        let sets = key.parameter_sets.join(", ");
        format!("{}\n{}, complete for {sets}\n\n{}", key.name, state(&key), table.render())
    };
    show(context.global.json, || json!({ "key": document(&key) }), text);
    Ok(())
}

async fn remove(context: &Context, key: Option<String>) -> Result<(), Failure> {
    let client = context.connect().await?;
    let name = name(context, &client, key).await?;
    let key = client.delete_key(&name).await?;
    show(context.global.json, || json!({ "key": document(&key) }), || format!("{name}: deleted\n"));
    Ok(())
}

/// The resource name of a key, or of the directory's.
async fn name(context: &Context, client: &Client, key: Option<String>) -> Result<String, Failure> {
    match key {
        Some(key) if key.contains('/') => Ok(key),
        Some(key) => Ok(format!("tenants/{}/keys/{key}", client.tenant().await?)),
        None => Ok(client.key_name(context.keys().await?.key_id()).await?),
    }
}

fn state(key: &Key) -> String {
    key.state().as_str_name().trim_start_matches("KEY_STATE_").to_lowercase()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn document(key: &Key) -> Value {
    let part = |part: &cloakwork_client::proto::KeyPart| {
        let digest = part.digest.clone().unwrap_or_default();
        json!({
            "kind": part.kind,
            "parameter_set": part.parameter_set,
            "blake3": hex(&digest.blake3),
            "size_bytes": digest.size_bytes,
        })
    };
    json!({
        "name": key.name,
        "key_id": hex(&key.key_id),
        "state": state(key),
        "parameter_sets": key.parameter_sets,
        "parts": key.parts.iter().map(part).collect::<Vec<_>>(),
        "resident_workers": key.resident_workers,
    })
}
