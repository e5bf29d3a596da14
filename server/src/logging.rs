//! Log lines on standard error: the settings of the log. Its lines and its limits are `cloakwork_worker::logging`.

use cloakwork_worker::logging::{self, Format, Logging};
use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};

/// Starts logging for the whole process. `None` where the process has a log already, as tests do. The caller keeps the
/// value until the process ends.
pub fn init(log: &Log) -> Option<Logging> {
    // The level was checked with the configuration; one that is wrong all the same must not stop a server.
    let filter = EnvFilter::try_new(&log.level).unwrap_or_else(|_| EnvFilter::new("info"));
    let format = match log.format {
        LogFormat::Text => Format::Text,
        LogFormat::Json => Format::Json,
    };
    logging::start(filter, format)
}
