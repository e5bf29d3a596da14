//! One line for each event: values cannot begin another line, and cannot steer a terminal.
//!
//! A text from elsewhere is logged as the field `cause`. As `message` it would run into the event's own text, which
//! has that name: `a job failed` and what a peer wrote could not be told apart, and JSON would have the name twice.

use std::io;

use cloakwork_proto::{printable, printable_json};
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use super::Format;

/// Where formatted events go. The formatter hands over each event in one write.
///
/// The formatter escapes some characters in some places only: of values that are displayed, none. So everything is
/// escaped here, behind the formatter, where no field and no message can get past.
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
        // In one write, so that lines of several threads do not mix.
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

    /// Values in every place that an event has: displayed, debugged, as text, as an error, in its message and its span.
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
    fn no_value_begins_a_line_or_steers_a_terminal() {
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
    fn colours_are_those_of_levels_alone() {
        let text = logged(Format::Text, true, || {
            tracing::warn!("\u{1b}[2J");
            tracing::info!("plain");
        });
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with(YELLOW) && lines[0].ends_with(PLAIN), "{text}");
        assert_eq!(text.matches('\u{1b}').count(), 2, "{text}");
    }
}
