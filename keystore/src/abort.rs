//! Signals that an upload is being aborted.

use std::sync::Arc;

use tokio::sync::watch;

/// The signal of one upload. Clones share the signal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Abort(Arc<watch::Sender<bool>>);

impl Abort {
    /// Returns once the upload is being aborted.
    pub(crate) async fn fired(&self) {
        // This handle owns the sender, so the wait cannot end by its loss.
        let _ = self.0.subscribe().wait_for(|fired| *fired).await;
    }

    pub(crate) fn has_fired(&self) -> bool {
        *self.0.borrow()
    }

    pub(crate) fn fire(&self) {
        self.0.send_replace(true);
    }
}
