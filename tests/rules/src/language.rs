//! Plain language in comments and documents: short lines, short sentences, and no words that hide
//! the subject.

mod paragraphs;

use std::{fmt, path::Path};

use paragraphs::{Paragraph, paragraphs};

/// A place where a text breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// Line in the file, counted from 1.
    pub line: usize,
    /// The broken rule.
    pub rule: Rule,
    /// The text that breaks the rule.
    pub text: String,
}

/// The rules that a program can check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A line of prose has more than [`COLUMNS_MAX`] columns.
    Columns,
    /// A sentence has more than [`WORDS_MAX`] words.
    Words,
    /// A sentence asks a question.
    Question,
    /// A sentence begins with a word whose noun is in another sentence.
    Opening,
    /// A phrase that readers have to decode.
    Phrase,
}

/// Columns of a line of prose, its indentation and comment marks included. Tables and links may be
/// longer.
pub const COLUMNS_MAX: usize = 100;

/// Words of a sentence. Writers aim at 25.
pub const WORDS_MAX: usize = 35;

/// First words of a sentence that stand for a noun in another sentence, or for none.
const OPENINGS: &[&str] = &[
    "What",
    "Who",
    "Whoever",
    "Whatever",
    "Whichever",
    "Such",
    "It",
    "They",
    "One that",
    "One whose",
    "One who",
    "One which",
    "One is",
    "One has",
    "One may",
    "One can",
    "One must",
    "Nobody",
    "Somebody",
    "Anybody",
    "Everybody",
    "The same",
    "Those who",
    "So it is",
    "Or else",
];

/// Phrases of a private dialect. Each has a plain counterpart.
const PHRASES: &[&str] = &[
    "but for",
    "whoever",
    "whomever",
    "or else",
    "of use to",
    "is told",
    "are told",
    "was told",
    "shall",
    "somebody",
    "such a one",
    "that it has it",
    "as it were",
    "so it is with",
    "as long as that takes",
    "all the same",
    "by then",
    "or so",
];

/// Returns every place in a file that breaks a rule. The file's extension determines how its prose
/// is found.
pub fn findings(path: &Path, source: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for paragraph in paragraphs(path, source) {
        columns(&paragraph, &mut found);
        for (line, sentence) in sentences(&paragraph) {
            let mut find = |rule, text: &str| found.push(Finding { line, rule, text: text.to_owned() });
            if sentence.split_whitespace().count() > WORDS_MAX {
                find(Rule::Words, &sentence);
            }
            if sentence.ends_with('?') {
                find(Rule::Question, &sentence);
            }
            if let Some(opening) = OPENINGS.iter().find(|opening| begins_with(&sentence, opening)) {
                find(Rule::Opening, opening);
            }
            let lower = format!(" {} ", sentence.to_lowercase().replace(|c: char| !c.is_alphanumeric(), " "));
            for phrase in PHRASES.iter().filter(|phrase| lower.contains(&format!(" {phrase} "))) {
                find(Rule::Phrase, phrase);
            }
        }
    }
    found
}

fn columns(paragraph: &Paragraph, found: &mut Vec<Finding>) {
    for line in &paragraph.lines {
        // A link cannot be broken.
        if line.columns > COLUMNS_MAX && !line.text.contains("://") && !line.text.contains("](") {
            found.push(Finding { line: line.number, rule: Rule::Columns, text: line.text.clone() });
        }
    }
}

/// The sentences of a paragraph, each with the number of its first line. Text in backquotes counts
/// as one word.
fn sentences(paragraph: &Paragraph) -> Vec<(usize, String)> {
    let mut sentences = Vec::new();
    let (mut current, mut begun) = (String::new(), 0);
    for line in &paragraph.lines {
        for word in one_word_each(&line.text).split_whitespace() {
            if current.is_empty() {
                begun = line.number;
            } else {
                current.push(' ');
            }
            current.push_str(word);
            if ends_sentence(word) {
                sentences.push((begun, std::mem::take(&mut current)));
            }
        }
    }
    if !current.is_empty() {
        sentences.push((begun, current));
    }
    sentences
}

/// The text with blanks inside of backquotes removed.
fn one_word_each(text: &str) -> String {
    let pieces = text.split('`').enumerate();
    let pieces = pieces.map(|(index, piece)| if index % 2 == 1 { piece.replace(' ', "") } else { piece.to_owned() });
    pieces.collect::<Vec<_>>().join("`")
}

fn ends_sentence(word: &str) -> bool {
    const ABBREVIATIONS: &[&str] = &["e.g.", "i.e.", "etc.", "vs.", "cf.", "Fig.", "..."];
    let bare = word.trim_end_matches([')', '"', '\'', '*', '_', '`']);
    bare.ends_with(['.', '?', '!', ':', ';']) && !ABBREVIATIONS.iter().any(|known| bare.ends_with(known))
}

fn begins_with(sentence: &str, opening: &str) -> bool {
    let bare = sentence.trim_start_matches(|c: char| !c.is_alphanumeric());
    bare.strip_prefix(opening).is_some_and(|rest| rest.starts_with([' ', ',']))
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, rule, text } = self;
        match rule {
            Rule::Columns => write!(out, "{line}: more than {COLUMNS_MAX} columns: {text}"),
            Rule::Words => write!(out, "{line}: a sentence of more than {WORDS_MAX} words: {text}"),
            Rule::Question => write!(out, "{line}: a question: {text}"),
            Rule::Opening => write!(out, "{line}: a sentence begins with '{text}': name the subject"),
            Rule::Phrase => write!(out, "{line}: say '{text}' in plain words"),
        }
    }
}
