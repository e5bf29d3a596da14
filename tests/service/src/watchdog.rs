//! Ends a test that hangs.

use std::{
    io::Write as _,
    path::PathBuf,
    process::abort,
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread,
    time::Duration,
};

use crate::process;

/// Time limit of a test: longer than any test takes on a busy machine, and far shorter than the
/// limit of a whole run.
const TEST_TIME_MAX: Duration = Duration::from_secs(15 * 60);

/// Fails the whole test program if the test that owns it runs for longer than `TEST_TIME_MAX`.
///
/// The test runner has no time limit of its own. Without the watchdog, a test that waits for ever
/// uses up the time of the whole run. The log then does not show the condition that the test waited
/// for.
pub(crate) struct Watchdog {
    _running: Sender<()>,
}

impl Watchdog {
    /// Watches the test of the current thread. Prints this log if the test hangs.
    pub(crate) fn start(log: PathBuf) -> Self {
        let (running, ended) = channel();
        let test = thread::current().name().unwrap_or("a test").to_owned();
        thread::spawn(move || {
            if ended.recv_timeout(TEST_TIME_MAX) == Err(RecvTimeoutError::Timeout) {
                let log = std::fs::read_to_string(log).unwrap_or_default();
                // The runner captures the output of macros, and loses it when the process aborts.
                let _ = writeln!(std::io::stderr(), "{test} hangs. The log of its server:\n{log}");
                process::kill_all();
                abort();
            }
        });
        Self { _running: running }
    }
}
