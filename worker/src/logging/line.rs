//! One line for each event: a value cannot start another line or control a terminal.
//!
//! Text from outside is logged as the field `cause`. A field `message` would collide with the
//! event's own text, which has that name. `a job failed` and the text of a peer could not be told
//! apart, and the JSON object would have a duplicate key.

use std::io;

use cloakwork_proto::{printable, printable_json};
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use super::Format;

/// Writer of formatted events. The formatter passes each event in one write.
///
/// The formatter escapes some characters in some places only, and none in values that are
/// displayed. This writer therefore escapes the complete line after the formatter, so that no field
/// and no message bypasses the escaping.
pub(super) struct Lines<M> {
    pub(super) to: M,
    pub(super) format: Format,
    pub(super) colour: bool,
}

/// The line of one event.
pub(super) struct Line<W> {
    to: W,
    format: Format,
    colour: Option<&'static str>,
}

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for Lines<M> {
    type Writer = Line<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Line { to: self.to.make_writer(), format: self.format, colour: None }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Self::Writer {
        let colour = match *event.level() {
            Level::ERROR => Some(RED),
            Level::WARN => Some(YELLOW),
            _ => None,
        };
        Line { to: self.to.make_writer_for(event), format: self.format, colour: colour.filter(|_| self.colour) }
    }
}

impl<W: io::Write> io::Write for Line<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let text = match self.format {
            Format::Text => printable(text),
            Format::Json => printable_json(text),
        };
        let line = match self.colour {
            Some(colour) => format!("{colour}{text}{PLAIN}\n"),
            None => format!("{text}\n"),
        };
        // A single write keeps lines of several threads from interleaving.
        self.to.write_all(line.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

const RED: &str = "\u{1b}[31m";
const YELLOW: &str = "\u{1b}[33m";
const PLAIN: &str = "\u{1b}[0m";

#[cfg(test)]
mod tests {
    use tracing_subscriber::{Layer as _, Registry, fmt, layer::SubscriberExt as _};

    use super::*;
    use crate::logging::test_log::TestLog;

    const FORGED: &str = "w\n2026-01-01T00:00:00Z  INFO forged\r\u{1b}[2J\u{9b}\u{7f}\u{2028}\u{202e}\u{e0041}";

    fn logged(format: Format, colour: bool, log_events: impl FnOnce()) -> String {
        let log = TestLog::default();
        let to = log.clone();
        let lines = fmt::layer().with_ansi(false).with_writer(Lines { to: move || to.clone(), format, colour });
        let lines = match format {
            Format::Text => lines.boxed(),
            Format::Json => lines.json().flatten_event(true).boxed(),
        };
        tracing::subscriber::with_default(Registry::default().with(lines), log_events);
        log.text()
    }

    /// Logs values in every place of an event: displayed, debugged, as text, as an error, in its
    /// message and in its span.
    fn log_everywhere() {
        struct Raw;
        impl std::fmt::Debug for Raw {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str(FORGED)
            }
        }
        let error = io::Error::other(FORGED);
        let error: &(dyn std::error::Error + 'static) = &error;
        let span = tracing::info_span!("span", displayed = %FORGED, debugged = ?Raw, text = FORGED);
        let _inside = span.enter();
        tracing::info!(displayed = %FORGED, debugged = ?Raw, text = FORGED, error, "message {FORGED}");
    }

    #[test]
    fn no_value_starts_a_line_or_controls_a_terminal() {
        for format in [Format::Text, Format::Json] {
            let text = logged(format, false, log_everywhere);
            let line = text.strip_suffix('\n').expect("a whole line");
            let raw: Vec<char> = line.chars().filter(|it| cloakwork_proto::is_deceptive(*it)).collect();
            assert!(raw.is_empty(), "{format:?}: {raw:?} in {text}");
            assert!(line.matches("forged").count() >= 8, "{format:?}: {text}");
        }
    }

    #[test]
    fn json_values_are_read_as_they_were_logged() {
        let text = logged(Format::Json, false, || tracing::info!(name = FORGED, "message"));
        let document: serde_json::Value = serde_json::from_str(&text).expect("a document");
        assert_eq!(document["name"], FORGED);
    }

    #[test]
    fn only_levels_determine_the_colour_of_a_line() {
        let text = logged(Format::Text, true, || {
            tracing::warn!("\u{1b}[2J");
            tracing::info!("plain");
        });
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with(YELLOW) && lines[0].ends_with(PLAIN), "{text}");
        assert_eq!(text.matches('\u{1b}').count(), 2, "{text}");
    }
}
