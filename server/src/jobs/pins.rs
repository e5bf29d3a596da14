//! Pins of a job that is not yet anybody's.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use cloakwork_keystore::{Holder, Keystore};

/// What was pinned for a job on its way. Dropping it lets go, so that neither a call that is broken off nor a job that
/// could not be stored leaves anything behind.
#[derive(Debug)]
pub struct Pins {
    of: Option<(Keystore, Holder)>,
    kept: AtomicBool,
}

impl Pins {
    /// Whatever `holder` is about to pin.
    pub fn of(keystore: Keystore, holder: Holder) -> Self {
        Self { of: Some((keystore, holder)), kept: AtomicBool::new(false) }
    }

    /// Nothing.
    pub fn none() -> Self {
        Self { of: None, kept: AtomicBool::new(false) }
    }

    /// Somebody else lets go of them from now on.
    pub fn keep(&self) {
        self.kept.store(true, Relaxed);
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let of = self.of.take().filter(|_| !self.kept.load(Relaxed));
        let (Some((keystore, holder)), Ok(runtime)) = (of, tokio::runtime::Handle::try_current()) else { return };
        runtime.spawn(async move {
            // The call that pins may be broken off while its commit is on the way to the disk.
            if let Err(error) = keystore.unpin_after_break(&holder).await {
                tracing::warn!(%error, "inputs of a job that was not taken stay pinned for its time");
            }
        });
    }
}
