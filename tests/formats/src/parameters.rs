//! The tables of `docs/parameters.md`, printed from the table of sets so that the page cannot
//! drift.

use std::fmt::Write;

use cloakwork_params::{
    CompressionSet, Decomposition, Encoding, Noise, Order, ParameterSet, Standing,
    table::{self, COMPRESSION_SETS, Companion, SETS},
};

/// Lines of the page that enclose the tables.
pub const MARKERS: (&str, &str) = ("<!-- tables: begin -->\n", "<!-- tables: end -->\n");

/// Returns the page with up-to-date tables.
pub fn update(page: &str) -> String {
    let (before, rest) = page.split_once(MARKERS.0).expect("the page has a first marker");
    let (_, after) = rest.split_once(MARKERS.1).expect("the page has a second marker");
    format!("{before}{}{}{}{after}", MARKERS.0, tables(), MARKERS.1)
}

fn tables() -> String {
    let mut out = String::from("\n### Numbers\n\n");
    out +=
        "| id | set | n | k | N | LWE noise | GLWE noise | PBS B/l | KS B/l | small modulus | g | msg/carry/noise |\n";
    out += "|---|---|---|---|---|---|---|---|---|---|---|---|\n";
    SETS.iter().for_each(|set| numbers(&mut out, set));
    out += "\n### Claims\n\n| set | order | standing | log2 failure, published | log2 failure, ours | log2 attack, small key \
            | log2 attack, big key | source |\n|---|---|---|---|---|---|---|---|\n";
    SETS.iter().for_each(|set| claims(&mut out, set));
    out += "\n### Compression\n\n| id | set | serves | packing k, N | packing noise | packing B/l | per GLWE \
            | storage modulus | unpacking B/l | log2 failure, published | log2 attack, packing key \
            |\n|---|---|---|---|---|---|---|---|---|---|---|\n";
    COMPRESSION_SETS.iter().for_each(|set| compression(&mut out, set));
    out += "\n### Companions\n\n| set | companion | its results count |\n|---|---|---|\n";
    SETS.iter().for_each(|set| companion(&mut out, set));
    out + "\n"
}

fn companion(out: &mut String, set: &ParameterSet) {
    let Some(Companion { set: companion, noise_tenths }) = table::companion_of(set) else { return };
    let count = format!("{} times", noise_tenths as f64 / 10.0);
    row(out, &[set.name, companion.name, if noise_tenths == 10 { "like its own" } else { &count }]);
}

fn numbers(out: &mut String, set: &ParameterSet) {
    let (lwe, glwe) = (noise(set.lwe_noise), noise(set.glwe_noise));
    let encoding = match set.encoding {
        Encoding::Shortint { message_modulus, carry_modulus, max_noise_level } => {
            format!("{message_modulus}/{carry_modulus}/{max_noise_level}")
        }
        Encoding::Boolean => "boolean".into(),
    };
    row(
        out,
        &[
            &format!("{:#06x}", set.id.0),
            set.name,
            &set.lwe_dimension.to_string(),
            &set.glwe_dimension.to_string(),
            &set.polynomial_size.to_string(),
            &lwe,
            &glwe,
            &gadget(set.bootstrap),
            &gadget(set.key_switch),
            &format!("2^{}", set.small_modulus_log2),
            &set.grouping.to_string(),
            &encoding,
        ],
    );
}

fn claims(out: &mut String, set: &ParameterSet) {
    let order = match set.order {
        Order::KeySwitchFirst => "KS, PBS",
        Order::BootstrapFirst => "PBS, KS",
    };
    let standing = match set.standing {
        Standing::Served => "served".into(),
        Standing::Retired(reason) => format!("**retired**: {reason}"),
        Standing::Weak(reason) => format!("**weak**: {reason}"),
        Standing::Toy => "**toy**".into(),
    };
    let toy = set.standing == Standing::Toy;
    let attack = |log2: Option<f64>| match log2 {
        _ if toy => "none claimed".into(),
        Some(log2) => format!("{log2:.1}"),
        None => "no finite attack found".into(),
    };
    let ours =
        if set.failure.computed_log2 == 0.0 { "none claimed".into() } else { three_digits(set.failure.computed_log2) };
    row(
        out,
        &[
            set.name,
            order,
            &standing,
            &set.failure.published_log2.map_or("not stated".into(), three_digits),
            &ours,
            &attack(Some(set.security.lwe_log2)),
            &attack(set.security.glwe_log2),
            set.source,
        ],
    );
}

fn compression(out: &mut String, set: &CompressionSet) {
    let serves: Vec<&str> = set.parameter_sets.iter().filter_map(|id| table::find(*id)).map(|set| set.name).collect();
    row(
        out,
        &[
            &format!("{:#06x}", set.id.0),
            set.name,
            &serves.join(", "),
            &format!("{}, {}", set.packing_glwe_dimension, set.packing_polynomial_size),
            &noise(set.packing_noise),
            &gadget(set.packing),
            &set.lwe_per_glwe.to_string(),
            &format!("2^{}", set.storage_modulus_log2),
            &gadget(set.bootstrap),
            &set.published_failure_log2.map_or("not stated".into(), three_digits),
            &if set.security_log2 > 0.0 { format!("{:.1}", set.security_log2) } else { "none claimed".into() },
        ],
    );
}

fn row(out: &mut String, cells: &[&str]) {
    writeln!(out, "| {} |", cells.join(" | ")).expect("a string takes any text");
}

fn noise(noise: Noise) -> String {
    match noise {
        Noise::Gaussian { std_dev } => format!("{std_dev:e}"),
        Noise::TUniform { bound_log2 } => format!("TU({bound_log2})"),
    }
}

fn gadget(gadget: Decomposition) -> String {
    format!("{}/{}", gadget.base_log, gadget.levels)
}

fn three_digits(log2: f64) -> String {
    format!("{log2:.3}")
}
