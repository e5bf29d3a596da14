//! Removal of everything that a tenant has.

use crate::{
    Error, Keystore, TenantId,
    catalogue::{blobs, tenants, uploads},
    detached::to_the_end,
    verify::is_key,
};

impl Keystore {
    /// Removes a part of the tenant's keys, blobs, uploads and request ids, pinned or not. Returns
    /// whether something was left, so the caller repeats the call until it returns false.
    ///
    /// The caller ensures that the tenant has no job and can begin no call. An upload that has a
    /// writer stays until its writer has ended.
    pub async fn purge_tenant(&self, tenant: &TenantId) -> Result<bool, Error> {
        let open = uploads::silent(&mut *self.reader(tenant.asker()).await?, tenant, i64::MAX, Some(i64::MAX)).await?;
        let had_uploads = !open.is_empty();
        let gone: Vec<_> = open.into_iter().filter_map(|upload| self.give_up(upload)).collect();
        let mut tx = self.write(tenant).await?;
        for given_up in &gone {
            uploads::remove(&mut tx, &given_up.upload.id).await?;
        }
        self.commit_given_up(tx, gone).await?;

        let mut tx = self.write(tenant).await?;
        let removed_keys = tenants::remove_keys(&mut tx, tenant).await?;
        let found = blobs::of_tenant(&mut tx, tenant, PURGE_ROWS_MAX).await?;
        for blob in &found {
            blobs::remove(&mut tx, tenant, &blob.digest, is_key(blob.content.kind)).await?;
        }
        let removed_rows = tenants::remove_rest(&mut tx, tenant, PURGE_ROWS_MAX).await?;
        let had_any = had_uploads || !found.is_empty() || removed_keys + removed_rows > 0;
        if !had_any {
            tenants::remove_sums(&mut tx, tenant).await?;
        }
        let removed: Vec<_> = found.iter().map(|blob| blob.object(tenant)).collect();
        let keystore = self.clone();
        to_the_end(async move {
            tx.commit().await?;
            keystore.remove_bytes(&removed).await
        })
        .await?;
        Ok(had_any)
    }
}

/// Maximum number of rows of each kind that one call removes. A longer transaction would delay
/// other writers.
const PURGE_ROWS_MAX: u32 = 256;
