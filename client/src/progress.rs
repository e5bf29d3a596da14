//! How far long work has come.

use std::{fmt, sync::Arc};

/// Where a piece of long work stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// What is being worked on: 'bootstrap key', say.
    pub what: &'a str,
    /// Bytes done. Falls back when something has to be sent again.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// Is told of every step, from whatever thread makes it. Should be quick.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<Listener>>);

type Listener = dyn Fn(Step<'_>) + Send + Sync;

impl Progress {
    /// Tells `listener`.
    pub fn new(listener: impl Fn(Step<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    /// Tells nobody.
    pub fn none() -> Self {
        Self::default()
    }

    /// For a piece of longer work: tells how far all of it is, `before` bytes of `total` being done already.
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
        write!(out, "Progress({})", if self.0.is_some() { "told" } else { "not told" })
    }
}
