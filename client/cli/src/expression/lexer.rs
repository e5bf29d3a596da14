//! Text to symbols.

use super::Operator;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symbol {
    Number(i64),
    X,
    Y,
    Open,
    Close,
    Operator(Operator),
}

/// Longer operators before those that they begin with.
const FIXED: &[(&str, Symbol)] = &[
    ("==", Symbol::Operator(Operator::Equal)),
    ("!=", Symbol::Operator(Operator::NotEqual)),
    ("<=", Symbol::Operator(Operator::LessOrEqual)),
    (">=", Symbol::Operator(Operator::GreaterOrEqual)),
    ("<", Symbol::Operator(Operator::Less)),
    (">", Symbol::Operator(Operator::Greater)),
    ("+", Symbol::Operator(Operator::Add)),
    ("-", Symbol::Operator(Operator::Subtract)),
    ("*", Symbol::Operator(Operator::Multiply)),
    ("/", Symbol::Operator(Operator::Divide)),
    ("%", Symbol::Operator(Operator::Modulo)),
    ("(", Symbol::Open),
    (")", Symbol::Close),
    ("x", Symbol::X),
    ("y", Symbol::Y),
];

/// The symbols, each with its place in the text.
pub(super) fn symbols(text: &str) -> Result<Vec<(usize, Symbol)>, String> {
    let mut symbols = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let place = text.len() - rest.len();
        let digits = rest.len() - rest.trim_start_matches(|char: char| char.is_ascii_digit()).len();
        let (symbol, length) = if digits > 0 {
            let number = rest[..digits].parse();
            (Symbol::Number(number.map_err(|_| format!("the number at {place} is too large"))?), digits)
        } else {
            let found = FIXED.iter().find(|(text, _)| rest.starts_with(text));
            let (text, symbol) = found.ok_or_else(|| format!("'{first}' at {place} is no part of an expression"))?;
            (*symbol, text.len())
        };
        symbols.push((place, symbol));
        rest = rest[length..].trim_start();
    }
    Ok(symbols)
}
