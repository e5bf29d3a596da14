//! Removal of copies of keys that are no longer used.

use std::{
    io,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::JoinHandle,
    time::Duration,
};

use super::WarmKeys;

/// A thread that periodically removes unused copies, until this value is dropped.
pub(crate) struct Sweep {
    /// Ends the thread when it is dropped.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Number of sweeps within the time for which a copy is kept.
const SWEEPS_PER_KEPT_TIME: u32 = 8;
/// Minimum time between two sweeps.
const SWEEP_INTERVAL_MIN: Duration = Duration::from_millis(10);

impl Sweep {
    pub(crate) fn start(warm: Arc<WarmKeys>) -> io::Result<Self> {
        let (end, ended) = mpsc::channel();
        let pause = (warm.kept_for() / SWEEPS_PER_KEPT_TIME).max(SWEEP_INTERVAL_MIN);
        let sweep = move || {
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                warm.give_up();
            }
        };
        let thread = std::thread::Builder::new().name("warm-keys".to_owned()).spawn(sweep)?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }

    /// Whether the thread has ended by itself.
    pub(crate) fn has_died(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // No one is left to whom a panic could be reported.
            let _ = thread.join();
        }
    }
}
