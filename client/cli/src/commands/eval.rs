//! `cloakwork eval`.

use cloakwork_client::{Encrypted, Integer, Keys, Program, RowType, proto::ProgramReport, set_by_name};
use serde_json::{Value, json};

use crate::{
    context::Context,
    eval::{Argument, compile},
    failure::Failure,
    latency,
    output::{counted, show},
};

/// Encrypt integers, evaluate an expression on them, decrypt
///
/// Names get a type and a value: bool, or an integer of an even number of bits, u2 to u256 and i2
/// to i256. The default is u64. Several values are several rows. Values in brackets are an array:
/// operations apply to each element, and sum, dot, min, max and is_one_of take all elements. A
/// narrower integer beside a wider integer is widened, and overflow wraps around. The server sees
/// the expression and the numbers in it, and nothing of the values.
///
/// Operators, from the lowest precedence: || && (== != < <= > >=) | ^ & (<< >>) (+ -) (* / %) and
/// in front - !. Functions: min max abs select(condition, yes, no) sum dot(x, y, ..) is_one_of
/// match(x, key, result, .., otherwise) lookup(x, result, ..) mul_div add_overflows sub_overflows
/// mul_overflows rotl rotr reverse_bits is_even is_odd ilog2 count_ones count_zeros leading_ones
/// leading_zeros trailing_ones trailing_zeros aes128(key, block), and types, as in u8(x). Numbers
/// are decimal, or hexadecimal after 0x, and may contain _. A number has the type of the other
/// operands, or u64. x[i] is an element of an array, and [x, y, 3] is an array. Several
/// expressions, separated by semicolons, are computed by one job. Together they have up to 1000
/// characters.
///
/// Examples:
///   cloakwork eval 'max(x, y) * 3 + (z >> 2)' x=u64:7 y=u64:9 z=u32:255
///   cloakwork eval 'select(a >= b, a - b, a)' a=u32:100,20 b=u32:30,30
///   cloakwork eval 'dot(prices, counts); max(prices)' 'prices=u32:[3,5,8]' 'counts=u32:[10,0,2]'
///   cloakwork eval --plan 'x * y' x=u64:0 y=u64:0
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// Expressions to compute.
    #[arg(allow_hyphen_values = true)]
    expression: String,
    /// Names with their types and values, as in x=u64:7, x=i8:1,-2,3 or x=u8:[1,2,3].
    #[arg(value_name = "NAME=TYPE:VALUE")]
    arguments: Vec<Argument>,
    /// Print the cost of the job, and compute nothing.
    #[arg(long)]
    plan: bool,
    /// Parameter set to compute under, one of the sets of the keys. Default: the set that the keys
    /// were made for.
    #[arg(long, value_name = "NAME")]
    set: Option<String>,
}

pub(crate) async fn run(context: &Context, args: Args) -> Result<(), Failure> {
    let mut keys = context.keys().await?;
    if let Some(name) = &args.set {
        keys = keys.using(set_by_name(name)?)?;
    }
    let rows = args.arguments.first().map_or(1, Argument::rows);
    if let Some(other) = args.arguments.iter().find(|argument| argument.rows() != rows) {
        let (name, first, got) = (&other.name, &args.arguments[0].name, other.rows());
        return Err(Failure::Usage(format!(
            "{name} has {got} rows of values and {first} has {rows}: expected as many"
        )));
    }
    let program = compile(&args.expression, keys.set(), &args.arguments)
        .map_err(|problem| Failure::Usage(problem.marked_in(&args.expression)))?;
    let client = context.connect().await?;
    if args.plan {
        let report = client.check_program(&program).await?;
        return plan(context, &program, rows as u64, &report);
    }
    let lists = args.arguments.iter().map(|argument| keys.encrypt_integers(&argument.values, argument.ty));
    let lists = lists.collect::<Result<Vec<Encrypted>, _>>()?;
    let types = program.output_types();
    let finished = context.run_job(&client, &keys, program, lists).await?;
    let fetching = async {
        let mut outputs = Vec::with_capacity(types.len());
        for (index, row) in types.into_iter().enumerate() {
            let list = client.output(&finished.output(index)?).await?;
            outputs.push(Output::decrypt(&keys, &list, row)?);
        }
        Ok(outputs)
    };
    let outputs = context.fetch(&finished, fetching).await?;
    let record = finished.job.latency.unwrap_or_default();
    show(
        context.global.json,
        || {
            let outputs: Vec<Value> = outputs.iter().map(Output::document).collect();
            json!({ "job": finished.job.name, "outputs": outputs, "latency": latency::document(&record) })
        },
        || {
            let lines: String = outputs.iter().map(Output::line).collect();
            format!("{lines}\n{}\n{}", finished.job.name, latency::table(&record))
        },
    )
}

/// The value of an expression in each row.
struct Output {
    row: RowType,
    /// Values by row. A row that is not an array has one value.
    rows: Vec<Vec<String>>,
}

impl Output {
    fn decrypt(keys: &Keys, list: &Encrypted, row: RowType) -> Result<Self, Failure> {
        let values = keys.decrypt_integers(list, row.ty)?;
        let show = |values: &[Integer]| values.iter().map(|value| value.display(row.ty)).collect();
        Ok(Self { row, rows: values.chunks(row.values()).map(show).collect() })
    }

    fn line(&self) -> String {
        let rows: Vec<String> = self.rows.iter().map(|row| row.join(",")).collect();
        match self.row.length {
            Some(_) => format!("[{}]\n", rows.join("],[")),
            None => format!("{}\n", rows.join(",")),
        }
    }

    fn document(&self) -> Value {
        let results: Vec<Value> = match self.row.length {
            Some(_) => self.rows.iter().map(|row| json!(row)).collect(),
            None => self.rows.iter().flatten().map(|value| json!(value)).collect(),
        };
        json!({ "type": self.row.to_string(), "results": results })
    }
}

fn plan(context: &Context, program: &Program, rows: u64, report: &ProgramReport) -> Result<(), Failure> {
    let each = program.pbs_count(rows);
    let types: Vec<String> = program.output_types().iter().map(RowType::to_string).collect();
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
            json!({ "types": types, "rows": rows, "bootstraps_each_row": each,
                    "one_row": { "bootstraps": report.pbs_count, "depth": report.depth }, "pools": pools })
        },
        || {
            let mut lines = format!(
                "type                {}\nbootstraps a row    {each}, of {}\nof one row alone    {}, {} one after the other\n",
                types.join("; "),
                counted(rows, "row"),
                counted(report.pbs_count, "bootstrap"),
                report.depth
            );
            if report.estimates.is_empty() {
                lines += "no time is known yet: a pool reports times after its first job under the set\n";
            }
            for pool in &report.estimates {
                let (one, many) = (millis(pool.one_row_micros), millis(pool.batched_row_micros));
                lines += &format!("pool {:<14} {one:.0} ms for one row, {many:.1} ms each among many\n", pool.pool);
            }
            lines
        },
    )
}
