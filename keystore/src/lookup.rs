//! Lookups that the service needs beside those of its clients.

use cloakwork_params::KeyId;
use cloakwork_storage::Asker;

use crate::{
    BlobInfo, Digest, Error, Keystore, TenantId,
    catalogue::{blobs, keys},
    verify::Verifier,
};

/// Maximum number of deleted keys that one call returns.
const DELETING_MAX: u32 = 256;

impl Keystore {
    /// Verifies a list in memory like an upload. Nothing is stored.
    pub fn check(&self, bytes: &[u8]) -> Result<BlobInfo, Error> {
        let digest = Digest::of(bytes);
        let mut verifier = Verifier::new(digest, self.policy());
        verifier.push(bytes)?;
        let now_micros = self.now_micros();
        let content = verifier.finish()?;
        Ok(BlobInfo::of(&digest, &content, now_micros))
    }

    /// The blob of this hash, if the tenant has the blob and its bytes are undamaged.
    pub async fn blob_named(&self, tenant: &TenantId, blake3: &[u8; 32]) -> Result<Option<BlobInfo>, Error> {
        let row = blobs::named(&mut *self.reader(tenant.asker()).await?, tenant, blake3).await?;
        Ok(row.filter(|row| !row.damaged).map(|row| row.info()))
    }

    /// Some of the keys that are being deleted and not yet purged.
    pub async fn deleting_keys(&self) -> Result<Vec<(TenantId, KeyId)>, Error> {
        keys::deleting(&mut *self.reader(Asker::Upkeep).await?, self.shard(), DELETING_MAX).await
    }
}
