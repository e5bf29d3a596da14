//! The prose of a file: paragraphs of a document, or of the comments of a source file.

use std::path::Path;

/// Lines that belong together.
#[derive(Debug, Default)]
pub(super) struct Paragraph {
    pub(super) lines: Vec<Line>,
}

/// A line of prose.
#[derive(Debug)]
pub(super) struct Line {
    /// Number in the file, counted from 1.
    pub(super) number: usize,
    /// Columns, those before the text included.
    pub(super) columns: usize,
    /// The text without indentation and comment marks.
    pub(super) text: String,
}

/// All prose of a file. Code, code blocks, tables and headings are left out.
pub(super) fn paragraphs(path: &Path, source: &str) -> Vec<Paragraph> {
    let marks: &[&str] = match path.extension().and_then(|extension| extension.to_str()) {
        Some("md") => &[],
        Some("rs" | "proto" | "cu" | "cuh" | "cpp" | "h") => &["///", "//!", "//"],
        _ => &["#"],
    };
    let mut found = vec![Paragraph::default()];
    let (mut in_code, mut is_generated) = (false, false);
    for (index, line) in source.lines().enumerate() {
        let text = match prose(line, marks) {
            Some(text) => text.trim(),
            None => {
                found.push(Paragraph::default());
                continue;
            }
        };
        if text.starts_with("```") {
            in_code = !in_code;
        }
        // A program generates the text between these marks.
        if text.starts_with("<!--") {
            is_generated = !text.contains("end");
        }
        let is_left_out = in_code || is_generated || text.is_empty();
        let is_prose = !is_left_out && !["|", "```", "#", "<"].iter().any(|mark| text.starts_with(mark));
        let begins_item =
            text.starts_with(['-', '*']) || text.split_once(". ").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
        if !is_prose || begins_item {
            found.push(Paragraph::default());
        }
        if is_prose && let Some(paragraph) = found.last_mut() {
            let (number, columns) = (index + 1, line.chars().count());
            paragraph.lines.push(Line { number, columns, text: text.to_owned() });
        }
    }
    found.retain(|paragraph| !paragraph.lines.is_empty());
    found
}

/// The prose of a line: all of it in a document, and in a source file the text behind a mark at the
/// beginning.
fn prose<'l>(line: &'l str, marks: &[&str]) -> Option<&'l str> {
    let bare = line.trim_start();
    match marks {
        [] => Some(line),
        marks => marks.iter().find_map(|mark| bare.strip_prefix(mark)),
    }
}
