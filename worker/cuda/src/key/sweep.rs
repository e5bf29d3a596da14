//! Copies of keys that nobody asks for any more.

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

/// A thread that looks for them now and then, until it is dropped.
pub(crate) struct Sweep {
    /// Ends the thread when it goes.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Times that a copy is looked at while it is kept.
const LOOKS: u32 = 8;
/// Between two looks, at least.
const PAUSE: Duration = Duration::from_millis(10);

impl Sweep {
    pub(crate) fn start(warm: Arc<WarmKeys>) -> io::Result<Self> {
        let (end, ended) = mpsc::channel();
        let pause = (warm.kept_for() / LOOKS).max(PAUSE);
        let sweep = move || {
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                warm.give_up();
            }
        };
        let thread = std::thread::Builder::new().name("warm-keys".to_owned()).spawn(sweep)?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }

    /// Has the thread ended by itself?
    pub(crate) fn has_died(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // There is nothing left to report to.
            let _ = thread.join();
        }
    }
}
