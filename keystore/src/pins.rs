//! Pins, which keep blobs from eviction and deletion.

use std::{collections::HashSet, time::SystemTime};

use crate::{
    Digest, Error, Holder, Keystore, TenantId,
    catalogue::{blobs, pins},
    clock,
};

/// A claim of a holder on blobs. Pinned blobs are neither evicted nor deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Holder of the pin.
    pub holder: Holder,
    /// Expiry of the pin; `None` if the pin lasts until its release.
    pub until: Option<SystemTime>,
}

impl Keystore {
    /// Pins all of the blobs or none. Pinning a blob again changes the expiry of the holder's pin.
    pub async fn pin(&self, tenant: &TenantId, digests: &[Digest], pin: &Pin) -> Result<(), Error> {
        self.check_count(digests.len())?;
        let mut tx = self.database().write().await?;
        for digest in digests {
            match blobs::find(&mut tx, tenant, digest).await? {
                None => return Err(Error::BlobNotFound { digest: *digest }),
                Some(blob) if blob.damaged => return Err(Error::BlobDamaged { digest: *digest }),
                Some(_) => pins::put(&mut tx, tenant, digest, &pin.holder, pin.until.map(clock::to_ms)).await?,
            }
        }
        Ok(tx.commit().await?)
    }

    /// Releases all pins that the holder made in calls that have returned. A cancelled call may
    /// still be about to commit its pins: [`Self::unpin_after_break`] covers this case.
    pub async fn unpin(&self, holder: &Holder) -> Result<(), Error> {
        // Most jobs bring their inputs along and pin nothing. This check spares those jobs the wait
        // for the write lock.
        if !pins::holds_any(&mut *self.reader().await?, holder).await? {
            return Ok(());
        }
        self.unpin_after_break(holder).await
    }

    /// Releases all pins of the holder, those of cancelled calls included. This call waits for the
    /// write lock, so every write that a cancelled call began is then committed or rolled back.
    pub async fn unpin_after_break(&self, holder: &Holder) -> Result<(), Error> {
        let mut tx = self.database().write().await?;
        pins::release(&mut tx, holder).await?;
        Ok(tx.commit().await?)
    }

    /// Releases the pins of all holders except these, with or without an expiry. Called at
    /// start-up.
    pub async fn retain_holders(&self, holders: &[Holder]) -> Result<(), Error> {
        let kept: HashSet<&[u8]> = holders.iter().map(|holder| &holder[..]).collect();
        let mut tx = self.database().write().await?;
        for holder in pins::holders(&mut tx).await? {
            if !kept.contains(&holder[..]) {
                pins::release(&mut tx, &holder).await?;
            }
        }
        Ok(tx.commit().await?)
    }
}
