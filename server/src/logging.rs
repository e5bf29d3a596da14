//! Settings of the log, which goes to standard error. Its format and its rate limits are in
//! `cloakwork_worker::logging`.

use cloakwork_worker::logging::{self, Format, Logging};
use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};

/// Starts logging for the whole process. Returns `None` if the process has a log already, as in
/// tests. The caller keeps the value until the process ends.
pub fn init(log: &Log) -> Option<Logging> {
    // The level was checked with the configuration. If it is invalid nevertheless, the server
    // starts with the level `info`.
    let filter = EnvFilter::try_new(&log.level).unwrap_or_else(|_| EnvFilter::new("info"));
    let format = match log.format {
        LogFormat::Text => Format::Text,
        LogFormat::Json => Format::Json,
    };
    logging::start(filter, format)
}
