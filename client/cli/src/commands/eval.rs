//! `cloakwork eval`.

use cloakwork_client::{Encrypted, set_by_name};
use serde_json::json;

use crate::{
    context::Context,
    eval::{Argument, Compiled, compile},
    failure::Failure,
    latency,
    output::show,
};

/// Encrypt integers, evaluate an expression on them, decrypt
///
/// Names get a type and a value: bool, or an integer of an even number of bits, u2 to u256 and i2
/// to i256; u64 where none is given. Several values are several rows. A narrower integer beside a
/// wider one is made as wide; what overflows wraps around. The server sees the expression and the
/// numbers that stand in it, and nothing of the values.
///
/// Operators, those that bind least first: || && (== != < <= > >=) | ^ & (<< >>) (+ -) (* / %) and
/// in front - !. Functions: min max abs select(condition, yes, no) sum dot(x, y, ..) is_one_of
/// match(x, key, result, .., otherwise) lookup(x, result, ..) mul_div add_overflows sub_overflows
/// mul_overflows rotl rotr reverse_bits is_even is_odd ilog2 count_ones count_zeros leading_ones
/// leading_zeros trailing_ones trailing_zeros aes128(key, block), and types, as in u8(x). Numbers
/// are decimal, or hexadecimal behind 0x, and may have _ in them.
///
/// Examples:
///   cloakwork eval 'max(x, y) * 3 + (z >> 2)' x=u64:7 y=u64:9 z=u32:255
///   cloakwork eval 'select(a >= b, a - b, a)' a=u32:100,20 b=u32:30,30
///   cloakwork eval --plan 'x * y' x=u64:0 y=u64:0
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// What to compute.
    #[arg(allow_hyphen_values = true)]
    expression: String,
    /// Names and their values, as in x=u64:7 or x=i8:1,-2,3.
    #[arg(value_name = "NAME=TYPE:VALUE")]
    arguments: Vec<Argument>,
    /// Say what it would cost, and compute nothing.
    #[arg(long)]
    plan: bool,
    /// Parameter set to compute under, of those that the keys have; the one that they were made for where absent.
    #[arg(long, value_name = "NAME")]
    set: Option<String>,
}

pub(super) async fn run(context: &Context, args: Args) -> Result<(), Failure> {
    let mut keys = context.keys().await?;
    if let Some(name) = &args.set {
        keys = keys.using(set_by_name(name)?)?;
    }
    let rows = args.arguments.first().map_or(1, |argument| argument.values.len());
    if let Some(other) = args.arguments.iter().find(|argument| argument.values.len() != rows) {
        let (name, first, got) = (&other.name, &args.arguments[0].name, other.values.len());
        return Err(Failure::Usage(format!("{name} has {got} values and {first} has {rows}: expected as many")));
    }
    let compiled = compile(&args.expression, keys.set(), &args.arguments).map_err(Failure::Usage)?;
    let client = context.connect().await?;
    if args.plan {
        let report = client.check_program(&compiled.program).await?;
        plan(context, &compiled, rows as u64, &report);
        return Ok(());
    }
    let lists = args.arguments.iter().map(|argument| keys.encrypt_integers(&argument.values, argument.ty));
    let lists = lists.collect::<Result<Vec<Encrypted>, _>>()?;
    let (finished, envelope) = context.run_for_output(&client, &keys, compiled.program, lists).await?;
    let results = keys.decrypt_integers(&envelope, compiled.output)?;
    let results: Vec<String> = results.iter().map(|value| value.display(compiled.output)).collect();
    let record = finished.job.latency.unwrap_or_default();
    show(
        context.global.json,
        || {
            json!({ "job": finished.job.name, "type": compiled.output.to_string(), "results": results,
                   "latency": latency::document(&record) })
        },
        || format!("{}\n\n{}\n{}", results.join(","), finished.job.name, latency::table(&record)),
    );
    Ok(())
}

fn plan(context: &Context, compiled: &Compiled, rows: u64, report: &cloakwork_client::proto::ProgramReport) {
    let each = compiled.program.pbs_count(rows);
    let millis = |micros: u64| micros as f64 / 1e3;
    show(
        context.global.json,
        || {
            let pools: Vec<_> = report
                .estimates
                .iter()
                .map(|pool| {
                    json!({ "pool": pool.pool, "one_row_ms": millis(pool.one_row_micros),
                                    "row_among_many_ms": millis(pool.batched_row_micros) })
                })
                .collect();
            json!({ "type": compiled.output.to_string(), "rows": rows, "bootstraps_each_row": each,
                    "one_row": { "bootstraps": report.pbs_count, "depth": report.depth }, "pools": pools })
        },
        || {
            let mut lines = format!(
                "type                {}\nbootstraps a row    {each}, of {rows} {}\nof one row alone    {} bootstraps, {} one after the other",
                compiled.output,
                if rows == 1 { "row" } else { "rows" },
                report.pbs_count,
                report.depth
            );
            for pool in &report.estimates {
                let (one, many) = (millis(pool.one_row_micros), millis(pool.batched_row_micros));
                lines += &format!("\npool {:<14} {one:.0} ms for one row, {many:.1} ms each among many", pool.pool);
            }
            lines
        },
    );
}
