//! Calls of a connection whose tasks have been spawned and have not run yet.

use std::{
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{AcqRel, Acquire, Relaxed},
        },
    },
    task::Context,
};

use futures_util::task::AtomicWaker;

/// Blocks a connection's reader until all calls that it has read are running.
///
/// The scheduler may poll a connection many times before it polls the tasks that the connection has
/// spawned. Without this bound, a flood of calls fills memory with tasks that have not run.
#[derive(Debug, Default)]
pub struct Backlog {
    calls: AtomicU64,
    reader: AtomicWaker,
}

impl Backlog {
    /// Counts a call whose task is about to be spawned. The task drops the returned value as soon
    /// as the task runs.
    pub fn schedule(self: &Arc<Self>) -> ScheduledCall {
        self.calls.fetch_add(1, Relaxed);
        ScheduledCall(self.clone())
    }

    /// Whether a call waits for its task to run. If so, the last of these calls wakes the reader.
    pub(super) fn holds_reader(&self, cx: &Context<'_>) -> bool {
        if self.calls.load(Acquire) == 0 {
            return false;
        }
        self.reader.register(cx.waker());
        // The last call may have run before the waker was registered, so the count is read again.
        self.calls.load(Acquire) > 0
    }
}

/// A call whose task has not run yet.
#[derive(Debug)]
pub struct ScheduledCall(Arc<Backlog>);

impl Drop for ScheduledCall {
    fn drop(&mut self) {
        if self.0.calls.fetch_sub(1, AcqRel) == 1 {
            self.0.reader.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::AtomicBool,
        task::{Wake, Waker},
    };

    use super::*;

    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Relaxed);
        }
    }

    #[test]
    fn a_reader_waits_until_all_scheduled_calls_run() {
        let backlog = Arc::new(Backlog::default());
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(woken.clone());
        let cx = Context::from_waker(&waker);
        assert!(!backlog.holds_reader(&cx));
        let [first, second] = [backlog.schedule(), backlog.schedule()];
        assert!(backlog.holds_reader(&cx));
        drop(first);
        assert!(!woken.0.load(Relaxed) && backlog.holds_reader(&cx));
        drop(second);
        assert!(woken.0.load(Relaxed) && !backlog.holds_reader(&cx));
    }
}
