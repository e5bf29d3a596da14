//! `cloakwork sets`.

use cloakwork_client::proto::ParameterSet;
use serde_json::json;

use crate::{
    context::Context,
    failure::Failure,
    output::{Table, bytes, show},
};

/// Plaintexts of a ciphertext.
fn plaintexts(set: &ParameterSet) -> String {
    match (set.slots, set.message_modulus) {
        (0, 0) => "bit".into(),
        (0, messages) => format!("{messages} x {}", set.carry_modulus),
        (slots, _) => format!("{slots} numbers"),
    }
}

/// Size of an evaluation key. A key for vectors has as many parts as its client wants.
fn key(set: &ParameterSet) -> String {
    match set.slots {
        0 => bytes(set.bootstrap_key_bytes + set.key_switch_key_bytes),
        _ => "its parts".into(),
    }
}

/// The name of a set, with the reason why the set is weak, if it is.
pub(super) fn marked(set: &str, weakness: &str) -> String {
    if weakness.is_empty() { set.to_owned() } else { format!("{set}  WEAK: {weakness}") }
}

pub(crate) async fn run(context: &Context) -> Result<(), Failure> {
    let capabilities = context.connect().await?.capabilities().await?;
    let sets = &capabilities.parameter_sets;
    let document = |set: &ParameterSet| {
        json!({
            "name": set.name,
            "id": set.id,
            "security_log2": set.security_log2,
            "failure_log2": set.failure_log2,
            "weakness": set.weakness,
            "message_modulus": set.message_modulus,
            "carry_modulus": set.carry_modulus,
            "bootstrap_key_bytes": set.bootstrap_key_bytes,
            "key_switch_key_bytes": set.key_switch_key_bytes,
            "slots": set.slots,
            "working_level": set.working_level,
        })
    };
    let table = || {
        let mut table = Table::new(["security", "failure", "plaintexts", "key", "set"]);
        for set in sets {
            table.row([
                format!("{:.1} bit", set.security_log2),
                format!("2^{:.1}", set.failure_log2),
                plaintexts(set),
                key(set),
                marked(&set.name, &set.weakness),
            ]);
        }
        table.render()
    };
    show(context.global.json, || json!({ "parameter_sets": sets.iter().map(document).collect::<Vec<_>>() }), table)
}
