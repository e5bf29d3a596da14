//! Rate limit for events of one kind.
//!
//! Libraries warn about input from peers: `h2` logs one line for each bad frame. Without a limit,
//! one connection without a token could write gigabytes into the log. The kind of an event is the
//! place in the code that logs it. The log shows the first events of each kind in a period, and
//! reports at the end of the period how many were suppressed.

use std::{
    collections::{HashMap, hash_map::RandomState},
    fmt,
    hash::{BuildHasher as _, Hash as _, Hasher as _},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tracing::{
    Event, Level, Metadata,
    field::{Field, Visit},
    subscriber::Interest,
};
use tracing_subscriber::{
    filter::LevelFilter,
    layer::{Context, Filter},
};

use crate::locked::Locked as _;

/// Length of a period.
pub(super) const PERIOD: Duration = Duration::from_secs(60);

/// Limit for warnings and errors of one kind in one period, from libraries. Peers can cause them at
/// will.
const FOREIGN_WARNINGS_MAX: u64 = 10;

/// Limit for other events of one kind in one period: our own warnings and notices. Each worker that
/// attaches or is lost causes one. A fleet that restarts needs room for one line for each of its
/// workers.
const LINES_MAX: u64 = 250;

/// Limit for our own errors of one kind in one period. These errors tell an operator that something
/// is broken, so most of them are logged. A limit is still necessary: with a full disk or a missing
/// bucket, each failed call logs one error, and peers call as often as they like.
const ERRORS_MAX: u64 = 1000;

/// Maximum number of kinds that are counted separately in one period. All further kinds are counted
/// together.
const KINDS_MAX: usize = 256;

/// Origins of suppressed events, as labels of the metric: a crate, all crates of ours, or anything
/// else.
pub const SOURCES: [&str; 7] = ["cloakwork", "h2", "hyper", "rustls", "sqlx", "tonic", "other"];

/// Target of summaries, which have no limit because there is one for each kind and period.
const SUMMARY: &str = "cloakwork_log";

/// The limit as a filter of log lines.
pub(super) struct Limit(pub(super) Arc<Repeats>);

impl<S> Filter<S> for Limit {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn callsite_enabled(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::always()
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        self.0.admits(event, Instant::now())
    }

    /// All levels, because other filters choose the level. Without a hint, `tracing` would offer
    /// every event of every level, regardless of the other filters. Each database statement would
    /// then be rendered for nothing.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }
}

/// Counts events by kind.
pub(super) struct Repeats {
    begun: Instant,
    hasher: RandomState,
    kinds: Mutex<HashMap<u64, Kind>>,
    suppressed: [AtomicU64; SOURCES.len()],
}

/// Counters of one kind.
struct Kind {
    /// Period of the latest event.
    period: u64,
    /// Number of events that were logged in this period.
    logged: u64,
    /// Number of events that were suppressed since the last summary.
    suppressed: u64,
    /// Target and line, for the summary.
    name: String,
}

impl Repeats {
    pub(super) fn new(now: Instant) -> Self {
        Self { begun: now, hasher: RandomState::new(), kinds: Mutex::default(), suppressed: Default::default() }
    }

    /// Whether an event is logged at this time.
    fn admits(&self, event: &Event<'_>, now: Instant) -> bool {
        let origin = Origin::of(event);
        let Some(most) = lines_max(event.metadata().level(), &origin.target) else { return true };
        let period = self.period(now);
        let mut kinds = self.kinds.locked();
        let mut key = self.key(event, &origin);
        if kinds.len() >= KINDS_MAX && !kinds.contains_key(&key) {
            key = OTHER;
        }
        let kind = kinds.entry(key).or_insert_with(|| {
            let name = if key == OTHER { "other kinds".to_owned() } else { origin.to_string() };
            Kind { period, logged: 0, suppressed: 0, name }
        });
        if kind.period != period {
            (kind.period, kind.logged) = (period, 0);
        }
        if kind.logged < most {
            kind.logged += 1;
            return true;
        }
        kind.suppressed += 1;
        drop(kinds);
        self.suppressed[source(&origin.target)].fetch_add(1, Relaxed);
        false
    }

    /// Logs one line for each kind with suppressed events, and removes kinds of earlier periods.
    pub(super) fn summarise(&self, now: Instant) {
        // The lock must be released before logging, because each summary asks this limit for
        // admission.
        for (kind, suppressed) in self.take(now) {
            tracing::warn!(target: SUMMARY, %kind, suppressed, "lines of one kind were left out of the log");
        }
    }

    fn take(&self, now: Instant) -> Vec<(String, u64)> {
        let period = self.period(now);
        let mut kinds = self.kinds.locked();
        let suppressed = kinds.values_mut().filter(|kind| kind.suppressed > 0);
        let taken = suppressed.map(|kind| (kind.name.clone(), std::mem::take(&mut kind.suppressed))).collect();
        kinds.retain(|_, kind| kind.period == period);
        taken
    }

    /// Number of suppressed events, for each of [`SOURCES`].
    pub(super) fn suppressed(&self) -> [u64; SOURCES.len()] {
        std::array::from_fn(|index| self.suppressed[index].load(Relaxed))
    }

    fn period(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.begun).as_secs() / PERIOD.as_secs()
    }

    fn key(&self, event: &Event<'_>, origin: &Origin) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        event.metadata().callsite().hash(&mut hasher);
        origin.target.hash(&mut hasher);
        origin.line.hash(&mut hasher);
        hasher.finish()
    }
}

impl fmt::Debug for Repeats {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Repeats").field("suppressed", &self.suppressed()).finish_non_exhaustive()
    }
}

/// Key of all kinds that exceed the table.
const OTHER: u64 = 0;

/// Maximum number of events of one kind in one period; `None` for no limit. Debug and trace lines
/// have no limit, because an operator who turns them on wants all of them.
fn lines_max(level: &Level, target: &str) -> Option<u64> {
    match *level {
        _ if target == SUMMARY => None,
        Level::ERROR if is_ours(target) => Some(ERRORS_MAX),
        Level::WARN | Level::ERROR if !is_ours(target) => Some(FOREIGN_WARNINGS_MAX),
        Level::INFO | Level::WARN | Level::ERROR => Some(LINES_MAX),
        _ => None,
    }
}

fn is_ours(target: &str) -> bool {
    crate_of(target).starts_with("cloakwork")
}

fn crate_of(target: &str) -> &str {
    target.split("::").next().unwrap_or(target)
}

/// Index of a target in [`SOURCES`].
fn source(target: &str) -> usize {
    let name = match crate_of(target) {
        _ if is_ours(target) => "cloakwork",
        "hyper_util" => "hyper",
        name => name,
    };
    SOURCES.iter().position(|source| *source == name).unwrap_or(SOURCES.len() - 1)
}

/// The place in the code that logged an event.
#[derive(Default)]
struct Origin {
    target: String,
    line: u64,
}

impl Origin {
    fn of(event: &Event<'_>) -> Self {
        let metadata = event.metadata();
        let mut origin = Self { target: metadata.target().to_owned(), line: metadata.line().map_or(0, u64::from) };
        // All records of the crate `log`, which rustls uses, share one callsite and name their own
        // place in fields.
        if metadata.fields().field("log.target").is_some() {
            event.record(&mut origin);
        }
        origin
    }
}

impl Visit for Origin {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "log.target" {
            value.clone_into(&mut self.target);
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "log.line" {
            self.line = value;
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.target, self.line)
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::{Layer as _, Registry, fmt, layer::SubscriberExt as _};

    use super::*;
    use crate::logging::test_log::TestLog;

    /// A log with a limit whose clock moves only when the test says so.
    struct Fixture {
        repeats: Arc<Repeats>,
        now: Arc<Mutex<Instant>>,
        log: TestLog,
    }

    struct Clocked(Arc<Repeats>, Arc<Mutex<Instant>>);

    impl<S> Filter<S> for Clocked {
        fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
            true
        }

        fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
            let now = *self.1.locked();
            self.0.admits(event, now)
        }
    }

    impl Fixture {
        fn new() -> Self {
            let now = Instant::now();
            let (repeats, now) = (Arc::new(Repeats::new(now)), Arc::new(Mutex::new(now)));
            Self { repeats, now, log: TestLog::default() }
        }

        /// The lines that `events` logs.
        fn lines(&self, events: impl FnOnce()) -> Vec<String> {
            let before = self.log.text().len();
            let to = self.log.clone();
            let lines = fmt::layer().with_ansi(false).with_writer(move || to.clone());
            let lines = lines.with_filter(Clocked(self.repeats.clone(), self.now.clone()));
            tracing::subscriber::with_default(Registry::default().with(lines), events);
            self.log.text()[before..].lines().map(str::to_owned).collect()
        }

        fn pass(&self, time: Duration) {
            *self.now.locked() += time;
        }

        fn now(&self) -> Instant {
            *self.now.locked()
        }

        fn suppressed(&self, name: &str) -> u64 {
            let index = SOURCES.iter().position(|source| *source == name).expect("a source");
            self.repeats.suppressed()[index]
        }
    }

    fn warn_of_frames(times: u64) {
        for frame in 0..times {
            tracing::warn!(target: "h2::proto::ping_pong", frame, "recv PING ack that we never sent");
        }
    }

    #[test]
    fn library_warnings_are_limited_by_kind_and_counted_in_a_summary() {
        let log = Fixture::new();
        assert_eq!(log.lines(|| warn_of_frames(10_000)).len() as u64, FOREIGN_WARNINGS_MAX);
        // Another kind has a limit of its own.
        let other = log.lines(|| tracing::warn!(target: "hyper::proto", "TE headers illegal"));
        assert_eq!(other.len(), 1);
        assert_eq!((log.suppressed("h2"), log.suppressed("hyper")), (10_000 - FOREIGN_WARNINGS_MAX, 0));
        log.pass(PERIOD);
        let summaries = log.lines(|| log.repeats.summarise(log.now()));
        assert_eq!(summaries.len(), 1, "{summaries:?}");
        assert!(
            summaries[0].contains("h2::proto::ping_pong:") && summaries[0].contains("suppressed=9990"),
            "{summaries:?}"
        );
        // A new period starts new counts, whether or not a summary was logged.
        assert_eq!(log.lines(|| warn_of_frames(100)).len() as u64, FOREIGN_WARNINGS_MAX);
        log.pass(PERIOD);
        assert_eq!(log.lines(|| warn_of_frames(100)).len() as u64, FOREIGN_WARNINGS_MAX);
        let summaries = log.lines(|| log.repeats.summarise(log.now()));
        assert!(summaries[0].contains("suppressed=180"), "{summaries:?}");
        assert!(log.lines(|| log.repeats.summarise(log.now())).is_empty(), "nothing is summed up twice");
    }

    #[test]
    fn our_errors_have_a_high_limit_and_debug_lines_have_none() {
        let log = Fixture::new();
        let lines = log.lines(|| {
            for number in 0..2000 {
                tracing::error!(target: "cloakwork_server::database", number, "the database failed");
                tracing::debug!(target: "h2::codec", number, "received");
            }
        });
        assert_eq!(lines.len() as u64, ERRORS_MAX + 2000);
        assert_eq!(log.suppressed("cloakwork"), 2000 - ERRORS_MAX);
        log.pass(PERIOD);
        let summaries = log.lines(|| log.repeats.summarise(log.now()));
        assert!(summaries.len() == 1 && summaries[0].contains("suppressed=1000"), "{summaries:?}");
        let limited = log.lines(|| (0..1000).for_each(|_| tracing::error!(target: "hyper::proto", "unexpected frame")));
        assert_eq!(limited.len() as u64, FOREIGN_WARNINGS_MAX);
    }

    #[test]
    fn our_warnings_and_notices_are_limited() {
        let log = Fixture::new();
        let lines = log.lines(|| {
            for _ in 0..1000 {
                tracing::info!(target: "cloakwork_server::services::worker", "a worker attached");
                tracing::warn!(target: "cloakwork_server::dispatch", "a worker is lost");
            }
        });
        assert_eq!((lines.len() as u64, log.suppressed("cloakwork")), (2 * LINES_MAX, 2 * (1000 - LINES_MAX)));
    }

    #[test]
    fn records_of_the_log_crate_are_distinguished_by_target_and_line() {
        // As `tracing-log` forwards them: one callsite for all records of a level.
        let record = |target: &str, line: u64| {
            tracing::warn!(target: "log", { "log.target" = target, "log.line" = line }, "Sending warning alert");
        };
        let log = Fixture::new();
        let lines = log.lines(|| {
            for _ in 0..100 {
                record("rustls::common_state", 580);
                record("rustls::common_state", 613);
                record("cloakwork_server::tls", 1);
            }
        });
        assert_eq!(lines.len() as u64, 2 * FOREIGN_WARNINGS_MAX + 100);
        assert_eq!(log.suppressed("rustls"), 2 * (100 - FOREIGN_WARNINGS_MAX));
    }

    #[test]
    fn the_table_of_kinds_is_bounded() {
        let log = Fixture::new();
        let record = |line: u64| tracing::warn!(target: "log", { "log.target" = "library", "log.line" = line }, "text");
        let kinds = 2 * KINDS_MAX as u64;
        let lines = log.lines(|| (0..kinds).for_each(record));
        assert_eq!(lines.len() as u64, KINDS_MAX as u64 + FOREIGN_WARNINGS_MAX);
        assert_eq!(log.repeats.kinds.locked().len(), KINDS_MAX + 1);
        log.pass(PERIOD);
        let summaries = log.lines(|| log.repeats.summarise(log.now()));
        assert!(summaries.len() == 1 && summaries[0].contains("other kinds"), "{summaries:?}");
        assert!(log.repeats.kinds.locked().is_empty());
    }
}
