//! Pins, which keep blobs from eviction and deletion.

use std::collections::{BTreeSet, HashSet};

use cloakwork_storage::{Asker, Batch, Each};

use crate::{
    Digest, Error, Holder, Keystore, TenantId,
    catalogue::{blobs, pins},
};

/// A claim of a holder on blobs. Pinned blobs are neither evicted nor deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Holder of the pin.
    pub holder: Holder,
    /// Unix time at which the pin expires, in microseconds; `None` if the pin lasts until its
    /// release.
    pub until_micros: Option<i64>,
}

/// Pins of reserved blobs as a part of a batch, so that the pins are stored with their holders.
#[derive(Debug)]
pub struct Pinning<'b>(Each<'b>);

/// Releases of pins as a part of a batch.
#[derive(Debug)]
pub struct Releasing<'b>(Each<'b>);

impl<'b> Pinning<'b> {
    /// Begins the part of the batch.
    pub fn of(batch: &'b mut Batch) -> Self {
        Self(pins::puts(batch))
    }

    /// Adds a pin of blobs. No holder may be added twice.
    pub fn add<'d>(&mut self, pin: &Pin, tenant: &str, digests: impl Iterator<Item = &'d [u8; 32]>) {
        // A job may have one blob as several inputs.
        let digests: BTreeSet<&[u8; 32]> = digests.collect();
        for digest in digests {
            pins::add(&mut self.0, tenant, digest, &pin.holder, pin.until_micros);
        }
    }
}

impl<'b> Releasing<'b> {
    /// Begins the part of the batch.
    pub fn of(batch: &'b mut Batch) -> Self {
        Self(pins::releases(batch))
    }

    /// Adds the release of all pins of a holder.
    pub fn add(&mut self, holder: &Holder) {
        pins::add_release(&mut self.0, holder);
    }
}

impl Keystore {
    /// Pins all of the blobs or none. Pinning a blob again changes the expiry of the holder's pin.
    pub async fn pin(&self, tenant: &TenantId, digests: &[Digest], pin: &Pin) -> Result<(), Error> {
        self.check_count(digests.len())?;
        let mut tx = self.write(tenant).await?;
        for digest in digests {
            match blobs::find(&mut tx, tenant, digest).await? {
                None => return Err(Error::BlobNotFound { digest: *digest }),
                Some(blob) if blob.damaged => return Err(Error::BlobDamaged { digest: *digest }),
                Some(_) => pins::put(&mut tx, tenant, digest, &pin.holder, pin.until_micros).await?,
            }
        }
        Ok(tx.commit().await?)
    }

    /// Releases all pins of the holder. No caller relies on the release, so it counts as upkeep.
    pub async fn unpin(&self, holder: &Holder) -> Result<(), Error> {
        // Most jobs have no pins. This check spares those jobs the wait for the write lock.
        if !pins::holds_any(&mut *self.reader(Asker::Upkeep).await?, holder).await? {
            return Ok(());
        }
        let mut tx = self.write_all(Asker::Upkeep).await?;
        pins::release(&mut tx, holder).await?;
        Ok(tx.commit().await?)
    }

    /// Releases the pins of all holders except these, with or without an expiry. Called at
    /// start-up.
    pub async fn retain_holders(&self, holders: &[Holder]) -> Result<(), Error> {
        let kept: HashSet<&[u8]> = holders.iter().map(|holder| &holder[..]).collect();
        let mut tx = self.write_all(Asker::Upkeep).await?;
        for holder in pins::holders(&mut tx, self.shard()).await? {
            if !kept.contains(&holder[..]) {
                pins::release(&mut tx, &holder).await?;
            }
        }
        Ok(tx.commit().await?)
    }
}
