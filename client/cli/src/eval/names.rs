//! Names of functions, with hints for wrong names.

/// Notation of each function that is not a type.
pub(crate) const FUNCTIONS: &[&str] = &[
    "abs(x)",
    "add_overflows(x, y)",
    "aes128(key, block)",
    "count_ones(x)",
    "count_zeros(x)",
    "dot(x, y, ..)",
    "ilog2(x)",
    "is_even(x)",
    "is_odd(x)",
    "is_one_of(x, value, ..)",
    "leading_ones(x)",
    "leading_zeros(x)",
    "lookup(x, result, ..)",
    "match(x, key, result, .., otherwise)",
    "max(x, y)",
    "min(x, y)",
    "mul_div(x, y, z)",
    "mul_overflows(x, y)",
    "reverse_bits(x)",
    "rotl(x, bits)",
    "rotr(x, bits)",
    "select(condition, yes, no)",
    "sub_overflows(x, y)",
    "sum(x, ..)",
    "trailing_ones(x)",
    "trailing_zeros(x)",
];

/// Names of some functions in other languages.
const ELSEWHERE: &[(&str, &str)] = &[
    ("contains", "is_one_of(value, array)"),
    ("if", "select(condition, yes, no)"),
    ("mux", "select(condition, yes, no)"),
    ("not", "!x"),
    ("popcount", "count_ones(x)"),
    ("pow", "x * x"),
    ("shl", "x << bits"),
    ("shr", "x >> bits"),
];

/// Notation of the function of this name, or of a similar name.
pub(crate) fn hint(name: &str) -> Option<String> {
    match ELSEWHERE.iter().find(|(known, _)| *known == name) {
        Some((_, other)) => Some(format!("it is written {other}")),
        None => hint_among(FUNCTIONS, name),
    }
}

/// Like [`hint`], for the functions of another language.
pub(crate) fn hint_among(functions: &[&str], name: &str) -> Option<String> {
    if let Some(function) = functions.iter().find(|function| called(function) == name) {
        return Some(format!("it is written {function}"));
    }
    let near = functions.iter().map(|function| (strsim::osa_distance(called(function), name), function)).min();
    near.filter(|(distance, _)| 3 * distance <= name.len()).map(|(_, function)| format!("is it {function}?"))
}

fn called(function: &str) -> &str {
    function.split('(').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_and_foreign_names_get_a_hint() {
        for (name, expected) in [
            ("max", Some("it is written max(x, y)")),
            ("mxa", Some("is it max(x, y)?")),
            ("if", Some("it is written select(condition, yes, no)")),
            ("leading_zeroes", Some("is it leading_zeros(x)?")),
            ("frobnicate", None),
        ] {
            assert_eq!(hint(name).as_deref(), expected, "{name}");
        }
    }
}
