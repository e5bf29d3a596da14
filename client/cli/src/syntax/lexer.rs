//! Splits text into symbols.

use super::{Problem, at};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Symbol {
    Number(String),
    Name(String),
    /// An operator, a bracket, a comma or a semicolon.
    Mark(&'static str),
}

/// Longer marks stand before the shorter marks with which they begin.
const MARKS: [&str; 25] = [
    "||", "&&", "==", "!=", "<=", ">=", "<<", ">>", "<", ">", "|", "^", "&", "+", "-", "*", "/", "%", "!", "(", ")",
    "[", "]", ",", ";",
];

/// Hint for a character from other languages.
fn instead(char: char) -> &'static str {
    match char {
        '=' => ": equality is ==",
        '~' => ": the complement is !",
        '?' | ':' => ": write select(condition, yes, no)",
        '.' => ": a point stands between digits",
        _ => "",
    }
}

/// Splits a text into symbols, each with its place in the text.
pub(super) fn symbols(text: &str) -> Result<Vec<(usize, Symbol)>, Problem> {
    let mut symbols = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let place = text.len() - rest.len();
        let word = word(rest);
        let (symbol, length) = if word > 0 {
            let text = rest[..word].to_owned();
            (if first.is_ascii_digit() { Symbol::Number(text) } else { Symbol::Name(text) }, word)
        } else {
            let mark = MARKS.iter().find(|mark| rest.starts_with(**mark));
            let mark =
                mark.ok_or_else(|| at(place, format!("'{first}' is no part of an expression{}", instead(first))))?;
            (Symbol::Mark(mark), mark.len())
        };
        symbols.push((place, symbol));
        rest = rest[length..].trim_start();
    }
    Ok(symbols)
}

/// Length in bytes of the number or name at the start of a text. A number may have a point between
/// digits.
fn word(text: &str) -> usize {
    let letters = |text: &str| {
        text.len() - text.trim_start_matches(|char: char| char.is_ascii_alphanumeric() || char == '_').len()
    };
    let whole = letters(text);
    let is_digit = |text: &str| text.starts_with(|char: char| char.is_ascii_digit());
    match text[whole..].strip_prefix('.') {
        Some(fraction) if is_digit(text) && is_digit(fraction) => whole + 1 + letters(fraction),
        _ => whole,
    }
}
