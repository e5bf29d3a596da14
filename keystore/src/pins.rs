//! Pins: who needs a blob to stay.

use std::{collections::HashSet, time::SystemTime};

use crate::{
    Digest, Error, Holder, Keystore, TenantId,
    catalogue::{blobs, pins},
    clock,
};

/// A claim that blobs stay. Nothing that is pinned is evicted or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Who needs them.
    pub holder: Holder,
    /// Until when; until it is released where absent.
    pub until: Option<SystemTime>,
}

impl Keystore {
    /// Pins blobs, all or none. A holder that pins a blob again changes the end.
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

    /// Releases everything that a holder has pinned in calls that have returned. One that was broken off may still be
    /// on its way to the disk: that is for [`Self::unpin_after_break`].
    pub async fn unpin(&self, holder: &Holder) -> Result<(), Error> {
        // Most jobs bring their inputs along and pin nothing: they need not wait for their turn to write.
        if !pins::holds_any(&mut *self.reader().await?, holder).await? {
            return Ok(());
        }
        self.unpin_after_break(holder).await
    }

    /// Releases everything that a holder has pinned, in calls that were broken off as well: it waits until whatever
    /// they have begun to write is there, or never will be.
    pub async fn unpin_after_break(&self, holder: &Holder) -> Result<(), Error> {
        let mut tx = self.database().write().await?;
        pins::release(&mut tx, holder).await?;
        Ok(tx.commit().await?)
    }

    /// At start-up: releases the pins of everybody but these, with or without an end.
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
