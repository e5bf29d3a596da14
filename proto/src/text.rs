//! Text from the other side of a connection. Code that logs, prints or stores such text as one line
//! escapes it first.

use std::{borrow::Cow, fmt::Write as _};

/// Whether a character can change how a reader sees other text.
///
/// Control characters end lines and steer terminals. U+2028 and U+2029 end lines too. Bidirectional
/// controls reorder the text around them. The other characters in the list are invisible or blank:
/// two names with and without them look equal.
///
/// Some invisible characters pass, because ordinary text needs them. The joiners U+200C and U+200D
/// occur in Persian, in Indian scripts and in emoji. Variation selectors (U+FE00 to U+FE0F, U+E0100
/// to U+E01EF) occur in emoji and in Japanese names. Two texts that look equal can therefore
/// differ, so no code may rely on the look of a name.
pub fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
            | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}'
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Replaces each deceptive character by an escape: `\n` for a line feed, `\u{202e}` for an
/// override.
pub fn printable(text: &str) -> Cow<'_, str> {
    escape_with(text, |character, escaped| escaped.extend(character.escape_default()))
}

/// The bytes that hexadecimal digits stand for; `None` if the text is not `2 * N` such digits.
pub fn from_hex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = (digit(0)? * 16 + digit(1)?) as u8;
    }
    Some(bytes)
}

/// Like [`printable`], but cuts the text to `bytes_max` bytes, and never within an escape.
pub fn printable_at_most(text: &str, bytes_max: usize) -> String {
    let mut line = String::new();
    for character in text.chars() {
        let before = line.len();
        match is_deceptive(character) {
            true => line.extend(character.escape_default()),
            false => line.push(character),
        }
        if line.len() > bytes_max {
            line.truncate(before);
            break;
        }
    }
    line
}

/// Like [`printable`], for a JSON document. The escapes are JSON escapes, so strings keep their
/// values.
pub fn printable_json(document: &str) -> Cow<'_, str> {
    escape_with(document, |character, escaped| {
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "\\u{unit:04x}");
        }
    })
}

fn escape_with(text: &str, escape: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if !text.contains(is_deceptive) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match is_deceptive(character) {
            true => escape(character, &mut escaped),
            false => escaped.push(character),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_text_is_unchanged() {
        for text in ["", "a b", "é ü 漢字 नमस्ते 👩‍💻", "می\u{200c}خواهم ❤\u{fe0f}", r"C:\temp", "'\"<>"]
        {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn control_bidirectional_and_invisible_characters_are_escaped() {
        assert_eq!(printable("a\nb\r\t\0"), r"a\nb\r\t\u{0}");
        assert_eq!(printable("\u{1b}[2J\u{7f}\u{9b}1m"), r"\u{1b}[2J\u{7f}\u{9b}1m");
        assert_eq!(printable("a\u{2028}b\u{2029}c\u{85}"), r"a\u{2028}b\u{2029}c\u{85}");
        assert_eq!(printable("\u{202e}gpj\u{2066}\u{200b}\u{feff}"), r"\u{202e}gpj\u{2066}\u{200b}\u{feff}");
        assert_eq!(printable("a\u{3164}\u{2800}\u{115f}"), r"a\u{3164}\u{2800}\u{115f}");
        let deceptive = (0..=u32::from(char::MAX)).filter_map(char::from_u32).filter(|it| is_deceptive(*it));
        for character in deceptive {
            assert!(printable(&character.to_string()).is_ascii(), "{character:?}");
        }
    }

    #[test]
    fn text_is_cut_only_between_characters_and_between_escapes() {
        assert_eq!(printable_at_most("input 0 ('x\n\r\0ERROR'): é", 1024), r"input 0 ('x\n\r\u{0}ERROR'): é");
        for (bytes_max, cut) in [(0, ""), (1, "a"), (2, "a"), (3, "aé"), (4, "aé"), (10, "aé"), (11, r"aé\u{202e}")]
        {
            assert_eq!(printable_at_most("aé\u{202e}b", bytes_max), cut, "{bytes_max}");
        }
        assert_eq!(printable_at_most(&"\u{202e}".repeat(1 << 20), 1024).len(), 1024);
    }

    #[test]
    fn a_json_string_keeps_its_value() {
        assert_eq!(printable_json("{\"a\":\"\u{7f}\u{202e}\u{e0041}\"}"), r#"{"a":"\u007f\u202e\udb40\udc41"}"#);
    }
}
