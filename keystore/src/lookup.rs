//! Questions that a service has beside its clients' own.

use cloakwork_params::KeyId;

use crate::{
    BlobInfo, Digest, Error, Keystore, TenantId,
    catalogue::{
        blobs::{self, BlobRow},
        keys,
    },
    verify::Verifier,
};

/// Deleted keys that are named at once.
const DELETING_MAX: u32 = 256;

impl Keystore {
    /// Verifies a list that is in memory, as if it were uploaded. Nothing is stored.
    pub fn check(&self, bytes: &[u8]) -> Result<BlobInfo, Error> {
        let digest = Digest::of(bytes);
        let mut verifier = Verifier::new(digest, self.policy());
        verifier.push(bytes)?;
        let now_ms = self.now_ms();
        let content = verifier.finish()?;
        Ok(BlobRow { digest, content, damaged: false, created_ms: now_ms, touched_ms: now_ms }.info())
    }

    /// The blob of this hash, if the tenant has it and its bytes are good.
    pub async fn blob_named(&self, tenant: &TenantId, blake3: &[u8; 32]) -> Result<Option<BlobInfo>, Error> {
        let row = blobs::named(&mut *self.reader().await?, tenant, blake3).await?;
        Ok(row.filter(|row| !row.damaged).map(|row| row.info()))
    }

    /// Keys that have been deleted and not yet purged, some of them.
    pub async fn deleting_keys(&self) -> Result<Vec<(TenantId, KeyId)>, Error> {
        keys::deleting(&mut *self.reader().await?, DELETING_MAX).await
    }
}
