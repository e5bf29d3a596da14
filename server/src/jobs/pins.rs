//! Pins of a job that is not yet anybody's.

use cloakwork_keystore::{Holder, Keystore};

/// What was pinned for a job on its way. Dropping it lets go, so that a call that is broken off leaves nothing behind.
#[derive(Debug)]
pub struct Pins(Option<(Keystore, Holder)>);

impl Pins {
    /// Whatever `holder` is about to pin.
    pub fn of(keystore: Keystore, holder: Holder) -> Self {
        Self(Some((keystore, holder)))
    }

    /// Nothing.
    pub fn none() -> Self {
        Self(None)
    }

    /// Somebody else lets go of them from now on.
    pub fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let (Some((keystore, holder)), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        runtime.spawn(async move {
            // The call that pins may be broken off while its commit is on the way to the disk.
            if let Err(error) = keystore.unpin_after_break(&holder).await {
                tracing::warn!(%error, "inputs of a job that was not taken stay pinned for its time");
            }
        });
    }
}
