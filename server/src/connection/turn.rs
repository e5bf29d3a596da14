//! At most one read in each poll of a connection's task.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// One poll of a connection's task, in which the connection reads at most one piece.
///
/// The HTTP library reads again before each call that it takes over from its queue of decoded
/// calls. If each of these reads returned bytes, the queue would grow with each call taken, and the
/// library would close a connection with thousands of cancelled calls in that queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Turn {
    has_read: Arc<AtomicBool>,
}

impl Turn {
    /// Runs the future of the connection. Each poll of the future is a turn.
    pub(super) async fn run<F: Future>(self, connection: F) -> F::Output {
        let mut connection = pin!(connection);
        poll_fn(|cx| {
            self.has_read.store(false, Relaxed);
            connection.as_mut().poll(cx)
        })
        .await
    }

    /// Notes a read. The connection reads nothing more in this turn.
    pub(super) fn note_read(&self) {
        self.has_read.store(true, Relaxed);
    }

    /// Whether the connection has read in this turn.
    pub(super) fn has_read(&self) -> bool {
        self.has_read.load(Relaxed)
    }
}
