//! Log lines on standard error.

use std::io;

use tracing_subscriber::{EnvFilter, fmt};

use crate::config::{Log, LogFormat};

/// Starts logging for the whole process. Does nothing where something else has started it before, as tests do.
pub fn init(log: &Log) {
    // The level was checked with the configuration; one that is wrong all the same must not stop a server.
    let filter = EnvFilter::try_new(&log.level).unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = fmt().with_env_filter(filter).with_writer(io::stderr);
    let started = match log.format {
        LogFormat::Text => lines.with_ansi(io::IsTerminal::is_terminal(&io::stderr())).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    if let Err(error) = started {
        tracing::debug!(%error, "logging was started before");
    }
}

/// Says what is wrong with a level or filter.
pub fn check_level(level: &str) -> Result<(), String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    // The filter takes a word that is no level for the name of a crate.
    let plain = level.split(',').all(|part| part.contains('=') || LEVELS.contains(&part));
    if plain && EnvFilter::try_new(level).is_ok() {
        return Ok(());
    }
    Err(format!("must be {}, or a filter such as 'info,cloakwork_server=debug', not '{level}'", LEVELS.join(", ")))
}
