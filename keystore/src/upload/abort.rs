//! Ending an upload that nobody wants to finish.

use std::time::Duration;

use super::registry::Aborting;
use crate::{Digest, Error, Keystore, TenantId, UploadId, catalogue::uploads, store::Leftover};

impl Keystore {
    /// Ends an open upload of the tenant's clients. The writer and those that wait to write get
    /// `UploadNotFound`. The upload's place and its announced bytes are free when this returns.
    ///
    /// Where there is no such upload this does nothing, so that a repeated call succeeds like the
    /// first one. It does not touch a blob that is stored, or a result that a worker hands in.
    pub async fn abort_upload(&self, tenant: &TenantId, id: &UploadId) -> Result<(), Error> {
        // Before any writer is ended: the upload of this name may be another tenant's.
        let found = uploads::find(&mut *self.reader().await?, tenant, id).await?;
        if found.is_none_or(|upload| upload.complete || upload.result) {
            return Ok(());
        }
        let (aborting, mut end) = self.registry().begin_abort(id);
        if let Some(aborting) = aborting {
            let (keystore, tenant, id) = (self.clone(), tenant.clone(), id.clone());
            // A task of its own, so that it ends even if the caller goes away: the writers are told that
            // the upload is gone, and it must be gone then.
            tokio::spawn(async move { keystore.abort(&tenant, &id, aborting).await });
        }
        match end.wait_for(Option::is_some).await {
            Ok(end) => end.clone().unwrap_or(Ok(())),
            Err(_) => Err(Error::failed("an abort broke off")),
        }
    }

    async fn abort(&self, tenant: &TenantId, id: &UploadId, aborting: Aborting) {
        let (turn, end) = aborting.take_turn().await;
        let removed = self.remove_aborted(tenant, id).await;
        drop(turn);
        end.send_replace(Some(removed));
    }

    async fn remove_aborted(&self, tenant: &TenantId, id: &UploadId) -> Result<(), Error> {
        let mut tx = self.database().write().await?;
        // A writer whose last bytes had come may have completed the upload before its turn ended.
        let removed = uploads::remove_open(&mut tx, tenant, id).await?;
        if removed {
            // Before the commit. A client that begins the upload again right after it would be told the
            // length of the old file otherwise, and that file would vanish.
            self.remove_staged(tenant, id);
        }
        tx.commit().await?;
        if removed {
            tracing::debug!(%tenant, upload = %id, "an upload was aborted");
        }
        Ok(())
    }

    /// Removes what an aborted commit has put into the store, once nothing of it is on its way any more.
    /// The caller waits only a moment, because the store may take minutes to answer. A task goes on, and
    /// ends within the time limits of the store's client.
    pub(crate) async fn clear_away(&self, tenant: &TenantId, digest: &Digest, left: Option<Leftover>) {
        // Each may hold a part of a blob in memory. Where there are too many, the next abort has to wait.
        let Ok(place) = self.clearing().clone().acquire_owned().await else { return };
        let (keystore, blob) = (self.clone(), [(tenant.clone(), *digest)]);
        let clearing = tokio::spawn(async move {
            if let Some(left) = left {
                left.await;
            }
            // Spares the bytes if the tenant has the blob: an older one, or one that was sent meanwhile.
            if let Err(error) = keystore.remove_bytes(&blob).await {
                // A later start finds them.
                tracing::warn!(tenant = %blob[0].0, %error, "bytes of an aborted upload stay in the store");
            }
            drop(place);
        });
        let _ = tokio::time::timeout(PATIENCE, clearing).await;
    }
}

/// Aborted commits that are cleared away at the same time. Each holds at most a part of 8 MiB.
pub(crate) const CLEARING: usize = 8;

/// How long an abort waits until what was on its way into the store is cleared away.
const PATIENCE: Duration = Duration::from_secs(1);
