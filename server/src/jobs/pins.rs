//! Pins of a job that is not stored yet.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use cloakwork_keystore::{Holder, Keystore};

/// The blobs pinned for a job that is being submitted. Dropping the value releases the pins.
/// Neither a cancelled call nor a job that could not be stored leaves pins behind.
#[derive(Debug)]
pub struct Pins {
    of: Option<(Keystore, Holder)>,
    kept: AtomicBool,
}

impl Pins {
    /// Guards the blobs that `holder` is about to pin.
    pub fn of(keystore: Keystore, holder: Holder) -> Self {
        Self { of: Some((keystore, holder)), kept: AtomicBool::new(false) }
    }

    /// Guards no blobs.
    pub fn none() -> Self {
        Self { of: None, kept: AtomicBool::new(false) }
    }

    /// Keeps the pins when this value is dropped: the stored job releases them from now on.
    pub fn keep(&self) {
        self.kept.store(true, Relaxed);
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let of = self.of.take().filter(|_| !self.kept.load(Relaxed));
        let (Some((keystore, holder)), Ok(runtime)) = (of, tokio::runtime::Handle::try_current()) else { return };
        runtime.spawn(async move {
            // The pinning call may be cancelled while its commit is on the way to the disk.
            if let Err(error) = keystore.unpin_after_break(&holder).await {
                tracing::warn!(%error, "inputs of a refused job cannot be unpinned; their pins must expire");
            }
        });
    }
}
