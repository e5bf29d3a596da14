//! Aborts of open uploads.

use std::time::Duration;

use super::registry::Aborting;
use crate::{
    Error, Keystore, TenantId, UploadId,
    catalogue::uploads,
    detached::to_the_end,
    store::{Leftover, Object},
};

impl Keystore {
    /// Aborts an open upload of the tenant's clients. Its writer and the writers that wait get
    /// `UploadNotFound`. The upload's place and its announced bytes are free when this returns.
    ///
    /// If the tenant has no open upload of this id, this does nothing, so a repeated call succeeds
    /// like the first. A stored blob, or a result that a worker hands in, is left untouched.
    pub async fn abort_upload(&self, tenant: &TenantId, id: &UploadId) -> Result<(), Error> {
        // This check precedes the end of any writer, because the upload of this id may belong to
        // another tenant.
        let found = uploads::find(&mut *self.reader(tenant.asker()).await?, tenant, id).await?;
        if found.is_none_or(|upload| upload.complete || upload.result) {
            return Ok(());
        }
        let (aborting, mut end) = self.registry().begin_abort(id);
        if let Some(aborting) = aborting {
            let (keystore, tenant, id) = (self.clone(), tenant.clone(), id.clone());
            // A separate task completes the abort even if the caller goes away. The writers learn
            // that the upload is gone, so the removal must follow.
            tokio::spawn(async move { keystore.abort(&tenant, &id, aborting).await });
        }
        match end.wait_for(Option::is_some).await {
            Ok(end) => end.clone().unwrap_or(Ok(())),
            Err(_) => Err(Error::failed("an abort ended early")),
        }
    }

    async fn abort(&self, tenant: &TenantId, id: &UploadId, aborting: Aborting) {
        let (turn, end) = aborting.take_turn().await;
        let removed = self.remove_aborted(tenant, id).await;
        drop(turn);
        end.send_replace(Some(removed));
    }

    async fn remove_aborted(&self, tenant: &TenantId, id: &UploadId) -> Result<(), Error> {
        let mut tx = self.write(tenant).await?;
        // A writer that had received its last bytes may have completed the upload before its turn
        // ended.
        let removed = uploads::remove_open(&mut tx, tenant, id).await?;
        if removed {
            // The file goes before the commit. Otherwise a client that begins the upload again
            // after the commit would get the length of the old file, and that file would then
            // vanish.
            self.staging().remove(&self.staging().path(tenant, id)).await;
        }
        tx.commit().await?;
        if removed {
            tracing::debug!(%tenant, upload = %id, "an upload was aborted");
        }
        Ok(())
    }

    /// Removes the bytes that an aborted commit has put into the store, after its last request has
    /// ended. The caller waits only a moment, because the store may take minutes to answer. A task
    /// continues, and ends within the time limits of the store's client.
    pub(crate) async fn clear_away(&self, object: Object, left: Option<Leftover>) {
        // Each task may hold a part of a blob in memory. If too many are active, the next abort has
        // to wait.
        let Ok(place) = self.clearing().clone().acquire_owned().await else { return };
        let keystore = self.clone();
        let clearing = to_the_end(async move {
            let _place = place;
            if let Some(left) = left {
                left.await;
            }
            keystore.remove_if_unlisted(&object).await
        });
        let _ = tokio::time::timeout(CLEAR_AWAY_WAIT_MAX, clearing).await;
    }
}

/// Maximum number of aborted commits that are cleared away at once. Each holds at most a part
/// of 8 MiB.
pub(crate) const CLEARING: usize = 8;

/// Maximum time that an abort waits for the removal of bytes on their way into the store.
const CLEAR_AWAY_WAIT_MAX: Duration = Duration::from_secs(1);
