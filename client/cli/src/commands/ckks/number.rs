//! Complex numbers in text and in JSON.

use std::{fmt, str::FromStr};

use cloakwork_client::Complex;
use serde_json::Value;

/// A number as written: `1.5`, `-2i`, `0.5-0.25i`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number(pub(super) Complex);

impl FromStr for Number {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The error does not repeat the text, which may be a secret with one digit too many.
        let wrong = || "expected a number like 1.5, -2i or 0.5-0.25i".to_owned();
        let part = |text: &str| text.parse::<f64>().map_err(|_| wrong());
        let Some(rest) = text.strip_suffix('i') else {
            return Ok(Self(Complex::from(part(text)?)));
        };
        // The sign of the imaginary part is the last sign that does not belong to an exponent.
        let mut signs = rest
            .char_indices()
            .filter(|(at, letter)| *at > 0 && matches!(letter, '+' | '-') && !rest[..*at].ends_with(['e', 'E']));
        let (re, im) = rest.split_at(signs.next_back().map_or(0, |(at, _)| at));
        let re = if re.is_empty() { 0.0 } else { part(re)? };
        let im = match im {
            "" | "+" => 1.0,
            "-" => -1.0,
            im => part(im)?,
        };
        Ok(Self(Complex::new(re, im)))
    }
}

/// The precision of the formatter sets the number of digits behind the point.
impl fmt::Display for Number {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Complex { re, im } = self.0;
        match out.precision() {
            Some(digits) => write!(out, "{re:.digits$}{im:+.digits$}i"),
            None => write!(out, "{re}{im:+}i"),
        }
    }
}

/// Parses the numbers of a document: a JSON list of numbers and of pairs `[real, imaginary]`, or
/// numbers that commas and spaces separate. Errors name the line, or the index in the list.
pub(super) fn read_all(text: &str) -> Result<Vec<Complex>, String> {
    // Spreadsheets begin UTF-8 files with this mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !text.trim_start().starts_with('[') {
        let lines = text.lines().zip(1..).map(|(line, place)| read_line(line, place));
        return Ok(lines.collect::<Result<Vec<_>, _>>()?.concat());
    }
    let wrong = |index: usize, why: &str| format!("number {index} of the list: {why}");
    let list: Vec<Value> = serde_json::from_str(text)
        .map_err(|error| format!("line {}, column {}: not a JSON list", error.line(), error.column()))?;
    let numbers = list.iter().enumerate().map(|(index, value)| {
        let number = match value {
            Value::Array(pair) => match &pair[..] {
                [re, im] => re.as_f64().zip(im.as_f64()).map(|(re, im)| Complex::new(re, im)),
                _ => None,
            },
            value => value.as_f64().map(Complex::from),
        };
        number.ok_or_else(|| wrong(index, "expected a number, or a pair of a real and an imaginary part"))
    });
    numbers.collect()
}

fn read_line(line: &str, place: usize) -> Result<Vec<Complex>, String> {
    let words = line.split(|letter: char| letter == ',' || letter.is_whitespace()).filter(|word| !word.is_empty());
    let number = |word: &str| word.parse::<Number>().map(|Number(number)| number);
    words.map(number).collect::<Result<_, _>>().map_err(|why: String| {
        format!("line {place}: {why}; commas and spaces separate numbers, and the file has nothing else")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Option<(f64, f64)> {
        text.parse().ok().map(|Number(Complex { re, im })| (re, im))
    }

    #[test]
    fn numbers_are_parsed_in_all_notations() {
        for (text, expected) in [
            ("1.5", (1.5, 0.0)),
            ("-2i", (0.0, -2.0)),
            ("i", (0.0, 1.0)),
            ("-i", (0.0, -1.0)),
            ("0.5-0.25i", (0.5, -0.25)),
            ("-1e-3+2E+2i", (-1e-3, 200.0)),
            ("1e-5i", (0.0, 1e-5)),
        ] {
            assert_eq!(number(text), Some(expected), "{text}");
        }
        assert_eq!(["", "x", "1+2", "1+i+", "--1", "1 2"].map(number), [None; 6]);
        let written = Number(Complex::new(-0.5, 2.0));
        assert_eq!((written.to_string(), format!("{written:.2}")), ("-0.5+2i".into(), "-0.50+2.00i".into()));
        assert_eq!(written.to_string().parse(), Ok(written));
    }

    #[test]
    fn documents_are_parsed_in_both_forms() {
        let expected = vec![Complex::from(1.0), Complex::new(0.5, -2.0), Complex::from(-3e2)];
        assert_eq!(read_all("1, 0.5-2i\n-3e2\n").expect("numbers"), expected);
        assert_eq!(read_all(" [1, [0.5, -2], -3e2]").expect("numbers"), expected);
        assert!(read_all("").expect("none").is_empty());
        for wrong in ["1,x", "[1,", "[1,\"2\"]", "[[1]]", "[[1,2,3]]", "[null]"] {
            assert!(read_all(wrong).is_err(), "{wrong}");
        }
        assert_eq!(read_all("\u{feff}1,0.5-2i\r\n-3e2\r\n"), Ok(expected.clone()));
        assert_eq!(read_all("\u{feff}[1, [0.5, -2], -3e2]"), Ok(expected));
        for (text, place) in [("price\n1\n", "line 1: "), ("1\n2;3\n", "line 2: "), ("[1,\n2;3]", "line 2, column 2: ")]
        {
            let problem = read_all(text).expect_err(text);
            assert!(problem.starts_with(place) && !problem.contains("2;3"), "{problem}");
        }
    }
}
