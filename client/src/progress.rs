//! Progress of long operations.

use std::{fmt, sync::Arc};

/// State of a long operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// Name of the operation's object, for example 'bootstrap key'.
    pub what: &'a str,
    /// Bytes done. The number falls if bytes have to be sent again.
    pub done: u64,
    /// Total bytes.
    pub total: u64,
}

/// Receives every step, on the thread that makes it. The listener should return quickly.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<Listener>>);

type Listener = dyn Fn(Step<'_>) + Send + Sync;

impl Progress {
    /// Reports steps to `listener`.
    pub fn new(listener: impl Fn(Step<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    /// Discards all steps.
    pub fn none() -> Self {
        Self::default()
    }

    /// Progress of a part of a longer operation. Reports the progress of the whole operation: its
    /// earlier parts have completed `before` of its `total` bytes.
    pub(crate) fn within(&self, what: &'static str, before: u64, total: u64) -> Self {
        let outer = self.clone();
        Self::new(move |step| outer.step(what, before + step.done, total))
    }

    pub(crate) fn step(&self, what: &str, done: u64, total: u64) {
        if let Some(listener) = &self.0 {
            listener(Step { what, done, total });
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Progress({})", if self.0.is_some() { "listener" } else { "none" })
    }
}
