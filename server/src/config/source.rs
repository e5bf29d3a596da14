//! The three sources of settings: file, environment and flags.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::{
    Config, Problem,
    nearest::nearest,
    pools,
    settings::{self, Target},
    value::Raw,
};

/// Prefix of the variables' names.
const PREFIX: &str = "CLOAKWORK_";

/// Maximum number of characters of a name that an error repeats.
const NAME_CHARS_MAX: usize = 80;

/// Applies the settings of a file. Errors name the line but never quote it, in case the line
/// contains a secret.
pub(super) fn apply_file(config: &mut Config, name: &str, text: &str, problems: &mut Vec<Problem>) {
    let mut found: Vec<(Range<usize>, String)> = Vec::new();
    match DeTable::parse(text) {
        Ok(document) => apply_document(config, document.get_ref(), &mut found),
        Err(error) => found.push((error.span().unwrap_or(0..0), error.message().to_owned())),
    }
    // The parser sorts tables by name. Errors are reported in the order of the file.
    found.sort_by_key(|(span, _)| span.start);
    problems.extend(found.into_iter().map(|(span, problem)| {
        let before = text.get(..span.start).unwrap_or(text);
        Problem { place: format!("{name}:{}", before.matches('\n').count() + 1), text: problem }
    }));
}

fn apply_document(config: &mut Config, document: &DeTable<'_>, found: &mut Vec<(Range<usize>, String)>) {
    for (key, value) in document {
        let section = key.get_ref().as_ref();
        match value.get_ref() {
            DeValue::Table(table) if settings::is_section(section) => {
                for (key, value) in table {
                    let full = format!("{section}.{}", key.get_ref());
                    let result = apply(config, &full, &raw(value.get_ref()));
                    found.extend(result.err().map(|text| (key.span(), text)));
                }
            }
            DeValue::Table(table) if section == pools::SECTION => apply_pools(config, table, found),
            DeValue::Table(table) => {
                let mut text = format!("unknown section '{}'", shortened(section));
                let full = table.keys().next().map(|key| format!("{section}.{}", key.get_ref()));
                if let Some(near) = full.and_then(|full| nearest(&full, settings::keys())) {
                    text.push_str(&format!("; did you mean '{}'?", near.split('.').next().unwrap_or(&near)));
                }
                found.push((key.span(), text));
            }
            other => found.extend(apply(config, section, &raw(other)).err().map(|text| (key.span(), text))),
        }
    }
}

/// Applies the pools of a file, each a table of its own.
fn apply_pools(config: &mut Config, pools: &DeTable<'_>, found: &mut Vec<(Range<usize>, String)>) {
    for (pool, settings) in pools {
        let full = format!("{}.{}", pools::SECTION, pool.get_ref());
        let DeValue::Table(settings) = settings.get_ref() else {
            found.push((pool.span(), format!("{} must be a section, such as [pools.gpu]", shortened(&full))));
            continue;
        };
        for (key, value) in settings {
            let result = apply(config, &format!("{full}.{}", key.get_ref()), &raw(value.get_ref()));
            found.extend(result.err().map(|text| (key.span(), text)));
        }
    }
}

/// Applies environment variables: `CLOAKWORK_LISTEN__ADDRESS` sets `listen.address`, and
/// `CLOAKWORK_POOLS__GPU__SETS` sets `pools.gpu.sets`.
///
/// Variables without a double underscore that match no setting belong to other Cloakwork programs
/// and are ignored.
pub(super) fn apply_environment(
    config: &mut Config,
    environment: impl IntoIterator<Item = (String, String)>,
    problems: &mut Vec<Problem>,
) {
    let mut variables: Vec<_> = environment.into_iter().filter(|(name, _)| name.starts_with(PREFIX)).collect();
    // The environment has no defined order. Sorting makes the order of errors reproducible.
    variables.sort();
    for (name, value) in variables {
        let key = name[PREFIX.len()..].to_ascii_lowercase();
        let dots = if key.starts_with(pools::SECTION) { 2 } else { 1 };
        let key = key.replacen("__", ".", dots);
        if key.contains('.') || Target::named(&key).is_some() {
            let result = apply(config, &key, &Raw::Untyped(value));
            problems.extend(result.err().map(|text| Problem { place: name, text }));
        }
    }
}

/// Applies flags, given as pairs of a setting's full name and its value.
pub(super) fn apply_flags(config: &mut Config, flags: &[(String, String)], problems: &mut Vec<Problem>) {
    for (key, value) in flags {
        let result = apply(config, key, &Raw::Untyped(value.clone()));
        problems.extend(result.err().map(|text| Problem { place: "command line".to_owned(), text }));
    }
}

fn apply(config: &mut Config, key: &str, raw: &Raw) -> Result<(), String> {
    let Some(target) = Target::named(key) else {
        let suggestion = nearest(key, settings::keys());
        let suggestion = suggestion.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
        return Err(format!("unknown setting '{}'{suggestion}", shortened(key)));
    };
    target.set(config, raw).map_err(|text| format!("{key} {text}"))
}

fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Boolean(value) => Raw::Bool(*value),
        DeValue::Integer(value) => match i64::from_str_radix(value.as_str(), value.radix()) {
            Ok(value) => Raw::Integer(value),
            Err(_) => Raw::Other("integer beyond 64 bits"),
        },
        other => Raw::Other(other.type_str()),
    }
}

fn shortened(name: &str) -> String {
    name.chars().take(NAME_CHARS_MAX).collect()
}
