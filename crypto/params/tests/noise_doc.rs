//! The formula prints the tables of `docs/noise.md`. With `CLOAKWORK_UPDATE_DOCS=1`, this test
//! writes the tables. Without it, the test compares them.

use std::fmt::Write;
use std::path::Path;

use cloakwork_params::Standing;
use cloakwork_params::noise::{CompressionNoise, NoiseBudget, transform_loss};
use cloakwork_params::table::{COMPRESSION_SETS, SETS, find, input_noise_tenths};

#[test]
fn tables_of_the_document_match_the_formula() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/noise.md");
    let document = std::fs::read_to_string(&path).expect("docs/noise.md");
    let mut expected = document.clone();
    for (name, table) in [("terms", terms()), ("failure", failures()), ("compression", compression())] {
        let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
        let start = expected.find(&begin).expect("a begin mark") + begin.len();
        let stop = expected.find(&end).expect("an end mark");
        expected.replace_range(start..stop, &table);
    }
    if std::env::var_os("CLOAKWORK_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &expected).expect("docs/noise.md is writable");
    } else {
        assert!(document == expected, "docs/noise.md is stale: run this test with CLOAKWORK_UPDATE_DOCS=1");
    }
}

#[test]
fn the_loss_of_a_transform_grows_with_its_rows_and_ends_with_the_table() {
    for (size, rows, loss) in [(2048, 2, 14.9), (2048, 4, 15.1), (32, 2, 6.9), (1 << 16, 2, 23.0), (1 << 17, 2, 23.0)] {
        assert!((transform_loss(size, rows) - loss).abs() < 1e-9, "{size}, {rows} rows");
    }
}

fn terms() -> String {
    let mut out = String::from(
        "| set | bootstrap: key | rounding | transform | key switch: key | rounding | body | modulus switch: mask |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for set in SETS.iter().filter(|set| set.standing != Standing::Toy) {
        let NoiseBudget { bootstrap, key_switch, modulus_switch, .. } = NoiseBudget::of(set);
        let variances = [
            bootstrap.key,
            bootstrap.rounding,
            bootstrap.transform,
            key_switch.key,
            key_switch.rounding,
            key_switch.body,
            modulus_switch.mask,
        ];
        row(&mut out, set.name, variances);
    }
    out
}

fn failures() -> String {
    let mut out = String::from(
        "| set | level 1 | at the decision | published | ours, all normal | **ours** | ν², programs | **there** |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for set in SETS.iter().filter(|set| set.standing != Standing::Toy) {
        let budget = NoiseBudget::of(set);
        let output = budget.output();
        let entering = cloakwork_params::noise::Decision::of(set).input_factor * output;
        let published = set.failure.published_log2.map_or("-".to_owned(), |log2| format!("{log2}"));
        let (name, at_decision) = (short(set.name), budget.at_decision(entering));
        let (normal, ours) = (budget.normal_failure_log2(set), set.failure.computed_log2);
        let sum = set.squared_noise_max;
        let there = NoiseBudget::failure_log2_over_keys(set, sum as f64);
        writeln!(
            out,
            "| {name} | {} | {} | {published} | {normal:.1} | **{ours:.1}** | {sum} | **{there:.1}** |",
            deviation(output),
            deviation(at_decision)
        )
        .expect("a string takes everything");
    }
    out
}

fn compression() -> String {
    let mut out = String::from(
        "| set | packing: key | rounding | storage | unpacking: key | rounding | transform | failure of the list | of the bootstrap after | of one after a program's sum |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for compression in COMPRESSION_SETS.iter().filter(|row| row.published_failure_log2.is_some()) {
        let set = find(compression.parameter_sets[0]).expect("a compression set names sets of the table");
        let noise = CompressionNoise::of(set, compression);
        let unpacked = noise.unpacked;
        let variances = [
            noise.packing_key,
            noise.packing_rounding,
            noise.storage,
            unpacked.key,
            unpacked.rounding,
            unpacked.transform,
        ];
        row(&mut out, compression.name, variances);
        let list = noise.unpacking_failure_log2(set, compression);
        let unpacked = noise.after_unpacking(set);
        let after = unpacked.failure_log2(set);
        let sum = 10 * set.squared_noise_max / input_noise_tenths(set);
        let after_sum = unpacked.failure_log2_for(set, sum as f64);
        let cell = format!(" {list:.1} | {after:.1} | {after_sum:.1} |\n");
        out.truncate(out.len() - 1);
        out.push_str(&cell);
    }
    out
}

fn row(out: &mut String, name: &str, variances: impl IntoIterator<Item = f64>) {
    write!(out, "| {} |", short(name)).expect("a string takes everything");
    for variance in variances {
        write!(out, " {} |", deviation(variance)).expect("a string takes everything");
    }
    out.push('\n');
}

/// log2 of the standard deviation.
fn deviation(variance: f64) -> String {
    if variance == 0.0 { "-".to_owned() } else { format!("{:.2}", variance.log2() / 2.0) }
}

/// The name without the parts that all names have.
fn short(name: &str) -> String {
    name.replace("V1_8_", "").replace("PARAM_", "").replace("MESSAGE_", "").replace("CARRY_", "").replace("_2M128", "")
}
