//! Reading and deleting blobs.

use std::time::Duration;

use cloakwork_clock::unix_micros_after;
use futures_util::{StreamExt, stream};

use crate::{
    BlobInfo, Digest, Error, Keystore, TenantId,
    catalogue::{blobs, blobs::BlobRow, keys, pins},
    detached::to_the_end,
    store::ByteStream,
};

impl Keystore {
    /// Looks up the metadata of a blob.
    pub async fn blob(&self, tenant: &TenantId, digest: &Digest) -> Result<BlobInfo, Error> {
        Ok(self.good_blob(tenant, digest).await?.info())
    }

    /// Reads a blob's bytes from an offset on. The bytes are not verified again.
    pub async fn read(&self, tenant: &TenantId, digest: &Digest, offset: u64) -> Result<ByteStream, Error> {
        if offset > digest.size_bytes {
            return Err(Error::OffsetOutOfRange { size_bytes: digest.size_bytes, got: offset });
        }
        let mut blob = self.used_blob(tenant, digest).await?;
        loop {
            if let Some(bytes) = self.store().read(&blob.object(tenant).name(), offset, digest.size_bytes).await? {
                return Ok(bytes);
            }
            // The blob was evicted or deleted meanwhile, or committed again under another name, or
            // its bytes are lost.
            let found = self.good_blob(tenant, digest).await?;
            if found.generation == blob.generation {
                return Err(Error::BlobDamaged { digest: *digest });
            }
            blob = found;
        }
    }

    /// A URL at which anyone can read the bytes of a blob for `valid`, if the store can make one.
    /// The URL is as secret as the bytes.
    pub async fn url(&self, tenant: &TenantId, digest: &Digest, valid: Duration) -> Result<Option<String>, Error> {
        let blob = self.used_blob(tenant, digest).await?;
        self.store().url(&blob.object(tenant).name(), valid).await
    }

    /// Reads all bytes of a blob. The stream ends with an error if the bytes are not the committed
    /// bytes.
    pub async fn read_verified(&self, tenant: &TenantId, digest: &Digest) -> Result<ByteStream, Error> {
        let bytes = self.read(tenant, digest, 0).await?;
        let state = Some((bytes, blake3::Hasher::new(), 0));
        Ok(Box::pin(stream::unfold((state, *digest), |(state, digest)| async move {
            let (mut bytes, mut hasher, read) = state?;
            match bytes.next().await {
                Some(Ok(piece)) => {
                    hasher.update(&piece);
                    let read: u64 = read + piece.len() as u64;
                    Some((Ok(piece), (Some((bytes, hasher, read)), digest)))
                }
                Some(Err(error)) => Some((Err(error), (None, digest))),
                None if read == digest.size_bytes && *hasher.finalize().as_bytes() == digest.blake3 => None,
                None => Some((Err(Error::BlobDamaged { digest }), (None, digest))),
            }
        })))
    }

    /// Reads a whole blob, and returns whether its bytes are still the committed bytes. A failed
    /// read is an error.
    pub async fn is_intact(&self, tenant: &TenantId, digest: &Digest) -> Result<bool, Error> {
        let damaged = |error| match error {
            Error::BlobDamaged { .. } => Ok(false),
            error => Err(error),
        };
        let mut bytes = match self.read_verified(tenant, digest).await {
            Ok(bytes) => bytes,
            Err(error) => return damaged(error),
        };
        while let Some(piece) = bytes.next().await {
            if let Err(error) = piece {
                return damaged(error);
            }
        }
        Ok(true)
    }

    /// Deletes a blob that no job and no key needs.
    pub async fn delete(&self, tenant: &TenantId, digest: &Digest) -> Result<(), Error> {
        let place = self.changes().take(tenant, 1).await;
        let mut tx = self.write(tenant).await?;
        self.reserved().exclude(&mut tx).await;
        let found = blobs::find(&mut tx, tenant, digest).await?.ok_or(Error::BlobNotFound { digest: *digest })?;
        if self.reserved().holds(tenant, digest) || pins::pinned(&mut tx, tenant, digest, self.now_micros()).await? {
            return Err(Error::BlobInUse { digest: *digest, by: "a job" });
        }
        if keys::has_part(&mut tx, tenant, digest).await? {
            return Err(Error::BlobInUse { digest: *digest, by: "a key" });
        }
        blobs::remove(&mut tx, tenant, digest, crate::verify::is_key(found.content.kind)).await?;
        let (keystore, removed) = (self.clone(), [found.object(tenant)]);
        to_the_end(async move {
            let _place = place;
            tx.commit().await?;
            keystore.remove_bytes(&removed).await
        })
        .await
    }

    /// Marks a blob's bytes as damaged. The blob counts as missing until it is uploaded again.
    pub async fn condemn(&self, tenant: &TenantId, digest: &Digest) -> Result<(), Error> {
        let mut tx = self.write(tenant).await?;
        let found = blobs::find(&mut tx, tenant, digest).await?.ok_or(Error::BlobNotFound { digest: *digest })?;
        blobs::condemn(&mut tx, &found.object(tenant)).await?;
        let (tenant, digest) = (tenant.clone(), *digest);
        // Only this line tells the operator which file is damaged.
        to_the_end(async move {
            tx.commit().await?;
            tracing::error!(%tenant, %digest, "stored blob is damaged");
            Ok(())
        })
        .await
    }

    async fn good_blob(&self, tenant: &TenantId, digest: &Digest) -> Result<BlobRow, Error> {
        blobs::good(&mut *self.reader(tenant.asker()).await?, tenant, digest).await
    }

    /// Finds a blob that is about to be read, and marks it as used.
    async fn used_blob(&self, tenant: &TenantId, digest: &Digest) -> Result<BlobRow, Error> {
        let blob = self.good_blob(tenant, digest).await?;
        let now_micros = self.now_micros();
        if now_micros > unix_micros_after(blob.touched_micros, TOUCH_INTERVAL) {
            // Only the order of eviction depends on this mark, and a full disk must not stop
            // readers.
            if let Err(error) = self.touch(tenant, digest, now_micros).await {
                tracing::debug!(%error, "blob not marked as used");
            }
        }
        Ok(blob)
    }

    async fn touch(&self, tenant: &TenantId, digest: &Digest, now_micros: i64) -> Result<(), Error> {
        let mut tx = self.write(tenant).await?;
        blobs::touch(&mut tx, tenant, digest, now_micros).await?;
        Ok(tx.commit().await?)
    }
}

/// Age beyond which a read renews a blob's mark of use.
const TOUCH_INTERVAL: Duration = Duration::from_secs(60);
