//! A log that a test can read.

use std::{
    io,
    sync::{Arc, Mutex},
};

use crate::locked::Locked as _;

/// Returns the log output of a function.
pub(crate) fn log_of(work: impl FnOnce()) -> String {
    let log = TestLog::default();
    let to = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || to.clone()).finish();
    tracing::subscriber::with_default(subscriber, work);
    log.text()
}

#[derive(Clone, Default)]
pub(crate) struct TestLog(Arc<Mutex<Vec<u8>>>);

impl TestLog {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.locked().clone()).expect("text")
    }
}

impl io::Write for TestLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.locked().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
