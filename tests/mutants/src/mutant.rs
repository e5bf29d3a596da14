//! A mutant as `cargo mutants --list --json` describes it, with a number.

use std::{ops::Range, path::PathBuf};

use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(crate) struct Mutant {
    pub(crate) number: u32,
    pub(crate) file: PathBuf,
    pub(crate) genre: Genre,
    /// The text that the mutant replaces.
    pub(crate) span: Span,
    pub(crate) replacement: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
pub(crate) enum Genre {
    FnValue,
    BinaryOperator,
    UnaryOperator,
    MatchArm,
    MatchArmGuard,
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Span {
    pub(crate) start: Point,
    pub(crate) end: Point,
}

/// Line and column count from one, and the column counts characters.
#[derive(Debug, Deserialize)]
pub(crate) struct Point {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Mutant {
    /// Bytes that the mutant replaces, if its file has them.
    pub(crate) fn range(&self, text: &str) -> Option<Range<usize>> {
        Some(self.span.start.offset(text)?..self.span.end.offset(text)?)
    }
}

impl Point {
    fn offset(&self, text: &str) -> Option<usize> {
        let mut lines = text.split_inclusive('\n');
        let before: usize = lines.by_ref().take(self.line.checked_sub(1)?).map(str::len).sum();
        let line = lines.next()?;
        let in_line: usize = line.chars().take(self.column.checked_sub(1)?).map(char::len_utf8).sum();
        Some(before + in_line)
    }
}

#[cfg(test)]
mod tests {
    use super::Point;

    #[test]
    fn columns_count_characters() {
        let text = "ab\n§ != 1\n";
        assert_eq!(Point { line: 1, column: 2 }.offset(text), Some(1));
        assert_eq!(Point { line: 2, column: 3 }.offset(text), Some(6), "§ has two bytes");
        assert_eq!(Point { line: 3, column: 1 }.offset(text), None);
    }
}
