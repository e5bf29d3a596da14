//! Log lines of a process, on standard error. The server and the worker start their logs here.
//!
//! Each event becomes exactly one line, regardless of its values (`line`). Repeated events are
//! limited by kind (`repeats`), so that no peer can fill a disk with them.

mod line;
mod repeats;
#[cfg(test)]
pub(crate) mod test_log;

use std::{
    io::{self, IsTerminal as _},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
    time::Instant,
};

use cloakwork_device::panic_message;
use tracing_subscriber::{
    EnvFilter, Layer as _,
    filter::FilterExt as _,
    fmt,
    layer::{Filter, SubscriberExt as _},
    registry::Registry,
    util::SubscriberInitExt as _,
};

pub use self::repeats::SOURCES;
use self::{
    line::Lines,
    repeats::{Limit, PERIOD, Repeats},
};

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text for people. On a terminal, warnings and errors have a colour.
    Text,
    /// One JSON object per line, for programs.
    Json,
}

/// The log of this process. On drop, the log reports the events that were suppressed since the last
/// summary.
#[derive(Debug)]
#[must_use]
pub struct Logging(Arc<Repeats>);

static REPEATS: OnceLock<Arc<Repeats>> = OnceLock::new();

/// Starts the log of the whole process. Returns `None` if the process has one already, as in tests.
pub fn start(filter: EnvFilter, format: Format) -> Option<Logging> {
    let repeats = Arc::new(Repeats::new(Instant::now()));
    let colour = format == Format::Text && io::stderr().is_terminal();
    // `Lines` adds the colours. In its input, an escape sequence can therefore only come from a
    // value.
    let lines = fmt::layer().with_ansi(false).with_writer(Lines { to: io::stderr, format, colour });
    let lines = match format {
        Format::Text => lines.boxed(),
        Format::Json => lines.json().flatten_event(true).boxed(),
    };
    let lines = lines.with_filter(limited(filter, repeats.clone()));
    if let Err(error) = tracing_subscriber::registry().with(lines).try_init() {
        tracing::debug!(%error, "logging is already started");
        return None;
    }
    let _ = REPEATS.set(repeats.clone());
    let watched = repeats.clone();
    let summaries = std::thread::Builder::new().name("log".to_owned()).spawn(move || {
        loop {
            std::thread::sleep(PERIOD);
            // A panic costs one summary. Without the catch, the thread would end, and suppressed
            // lines would no longer be reported.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| watched.summarise(Instant::now()))) {
                tracing::error!(cause = panic_message(&*panic), "the summary of suppressed lines panicked");
            }
        }
    });
    if let Err(error) = summaries {
        tracing::warn!(%error, "the log will not report how many lines of each kind were suppressed");
    }
    Some(Logging(repeats))
}

/// The log's filter: events that `filter` admits, within the limit of their kind.
fn limited(filter: EnvFilter, repeats: Arc<Repeats>) -> impl Filter<Registry> {
    filter.and(Limit(repeats))
}

/// Number of events that this process has suppressed, for each of [`SOURCES`].
pub fn suppressed() -> [u64; SOURCES.len()] {
    REPEATS.get().map_or([0; SOURCES.len()], |repeats| repeats.suppressed())
}

impl Drop for Logging {
    fn drop(&mut self) {
        self.0.summarise(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::filter::LevelFilter;

    use super::*;

    #[test]
    fn the_level_of_the_filter_is_the_hint_for_callsites() {
        for (level, hint) in [("info", LevelFilter::INFO), ("warn,h2=debug", LevelFilter::DEBUG)] {
            let filter = limited(EnvFilter::new(level), Arc::new(Repeats::new(Instant::now())));
            assert_eq!(filter.max_level_hint(), Some(hint), "{level}");
        }
    }
}
