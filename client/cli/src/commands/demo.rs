//! `cloakwork demo`.

use std::time::Instant;

use cloakwork_client::{Keys, set_by_name};
use serde_json::json;

use super::keygen::{DEFAULT_SET, sizes};
use crate::{
    context::Context,
    failure::Failure,
    function::program,
    latency,
    output::{bytes, duration, print, show},
    progress::bars,
};

/// Run everything once on fresh keys: upload, compute, decrypt, check
///
/// Makes temporary keys, multiplies encrypted numbers on the server, decrypts the products and
/// checks each product. At the end, deletes the key from the server, whether or not the run
/// succeeded.
///
/// Example:
///   cloakwork demo --server http://127.0.0.1:7270
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Parameter set of the keys; must be a shortint set.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_SET)]
    set: String,
    /// Number of pairs of numbers to multiply.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pairs: u64,
}

pub(crate) async fn run(context: &Context, args: Args) -> Result<(), Failure> {
    let say = |line: String| match context.global.json {
        true => Ok(()),
        false => print(&format!("{line}\n")),
    };
    let client = context.connect().await?;
    let set = set_by_name(&args.set)?;
    say(format!("server {}\nset    {}\n", context.global.server, set.name))?;

    let started = Instant::now();
    let keys = Keys::generate(set, bars(context.global.json)).await?;
    let (keygen, size) = (started.elapsed(), sizes(keys.parts())?.iter().sum());
    say(format!("keys         {:>10}  evaluation key of {}", nanos(keygen), bytes(size)))?;

    let messages = cloakwork_client::ProgramBuilder::new(set).messages();
    let values = messages * messages;
    let left: Vec<u64> = (0..args.pairs).map(|index| index / messages % messages).collect();
    let right: Vec<u64> = (0..args.pairs).map(|index| index % messages).collect();
    let product = |x: u64, y: u64| x * y % values;
    let table: Vec<u64> = (0..values).map(|both| product(both / messages, both % messages)).collect();
    let (program, bound) = program(set, &table, 2)?;
    let started = Instant::now();
    let lists = vec![keys.encrypt(&left, bound)?, keys.encrypt(&right, bound)?];
    let sent: usize = lists.iter().map(|list| list.envelope.len()).sum();
    say(format!("encryption   {:>10}  {} pairs in {}", nanos(started.elapsed()), args.pairs, bytes(sent as u64)))?;

    let started = Instant::now();
    let key = client.push_key(&keys, &bars(context.global.json)).await?;
    let upload = started.elapsed();
    let started = Instant::now();
    let computed = context.run(&client, &keys, program, lists).await;
    let computing = started.elapsed();
    // The key is deleted whether or not the computation succeeded, and before any output, which may
    // end the process: no other process has the client key. The key's bytes go with the last job
    // that uses the key.
    let deleted = client.delete_key(&key.name).await.map_err(Failure::from);
    let deleted =
        deleted.map_err(|failure| failure.advised(format!("This deletes it: cloakwork keys rm {}", key.name)));
    let (finished, products) = computed?;
    let rate = size as f64 / upload.as_secs_f64();
    say(format!("upload       {:>10}  {}/s", nanos(upload), bytes(rate as u64)))?;
    let pbs_rate = args.pairs as f64 / computing.as_secs_f64();
    say(format!(
        "computation  {:>10}  {pbs_rate:.1} bootstraps a second, the key's loading included",
        nanos(computing)
    ))?;

    for ((x, y), got) in left.iter().zip(&right).zip(products.iter()) {
        if *got != product(*x, *y) {
            return Err(Failure::WrongResult(format!("{x} * {y} came back as {got}")));
        }
    }
    let (x, y) = (messages - 1, messages - 1);
    say(format!("decryption   all {} products right: {x} * {y} = {}, for one\n", products.len(), product(x, y)))?;

    let record = finished.job.latency.unwrap_or_default();
    let document = || {
        json!({
            "parameter_set": set.name,
            "key_id": keys.key_id().to_string(),
            "evaluation_key_bytes": size,
            "keygen_seconds": keygen.as_secs_f64(),
            "upload_seconds": upload.as_secs_f64(),
            "products": products.len(),
            "all_right": true,
            "latency": latency::document(&record),
        })
    };
    show(context.global.json, document, || latency::table(&record))?;
    deleted.map(drop)
}

fn nanos(time: std::time::Duration) -> String {
    duration(time.as_nanos() as u64)
}
