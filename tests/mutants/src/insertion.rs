//! Composes texts that are inserted into a file.

use std::cmp::Reverse;

use serde::Serialize;

/// A text that is inserted before byte `at`.
pub(crate) struct Insertion {
    pub(crate) number: u32,
    pub(crate) at: usize,
    pub(crate) side: Side,
    pub(crate) text: String,
}

/// The side of an expression that an insertion is on, with the bytes of the expression.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    After(usize),
    Before(Reverse<usize>),
}

/// Bytes that an insertion has in the edited text.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Inserted {
    pub(crate) number: u32,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// The text with all insertions. Expressions lie in each other or apart. At one place, ends
/// therefore come first, from narrow to wide, and then beginnings, from wide to narrow.
pub(crate) fn composed(text: &str, mut insertions: Vec<Insertion>) -> (String, Vec<Inserted>) {
    insertions.sort_by(|left, right| (left.at, &left.side).cmp(&(right.at, &right.side)));
    let mut edited = String::new();
    let mut copied = 0;
    let mut inserted = Vec::new();
    for insertion in insertions {
        edited.push_str(&text[copied..insertion.at]);
        copied = insertion.at;
        let start = edited.len();
        edited.push_str(&insertion.text);
        inserted.push(Inserted { number: insertion.number, start, end: edited.len() });
    }
    edited.push_str(&text[copied..]);
    (edited, inserted)
}
