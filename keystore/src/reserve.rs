//! Reservations, which keep blobs for a call until the call's transaction pins them.
//!
//! A reservation lives in memory. The transaction that stores a job also stores the pins of its
//! inputs, so no job is stored without its pins and no pin without its job.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cloakwork_storage::Write;
use tokio::sync::{RwLock, RwLockReadGuard};

use crate::{Digest, Error, Keystore, TenantId, catalogue::blobs};

/// The reserved blobs of all tenants, each with the number of its reservations.
#[derive(Debug, Default)]
pub(crate) struct Reserved {
    counts: Mutex<HashMap<(TenantId, Digest), u64>>,
    /// Calls that look a blob up and reserve it hold the lock for reading. A removal holds the lock
    /// for writing, from the choice of the blobs until the end of the transaction. Otherwise a call
    /// could reserve a blob whose removal is about to be committed.
    removing: Arc<RwLock<()>>,
}

/// Blobs that stay until this value is dropped.
#[derive(Debug)]
pub struct Reservation {
    /// `None` where there is no blob to keep.
    keystore: Option<Keystore>,
    tenant: TenantId,
    digests: Vec<Digest>,
}

impl Reserved {
    /// Excludes new reservations until the end of a transaction that removes blobs.
    pub(crate) async fn exclude(&self, tx: &mut Write) {
        tx.hold(self.removing.clone().write_owned().await);
    }

    /// Whether a blob is reserved. The answer holds for a transaction that excludes new
    /// reservations.
    pub(crate) fn holds(&self, tenant: &TenantId, digest: &Digest) -> bool {
        self.counts().contains_key(&(tenant.clone(), *digest))
    }

    /// Number of the tenant's reserved blobs.
    pub(crate) fn count(&self, tenant: &TenantId) -> u32 {
        let count = self.counts().keys().filter(|(holder, _)| holder == tenant).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    async fn reserving(&self) -> RwLockReadGuard<'_, ()> {
        self.removing.read().await
    }

    fn add(&self, tenant: &TenantId, digests: &[Digest]) {
        let mut counts = self.counts();
        for digest in digests {
            *counts.entry((tenant.clone(), *digest)).or_default() += 1;
        }
    }

    fn remove(&self, tenant: &TenantId, digests: &[Digest]) {
        let mut counts = self.counts();
        for digest in digests {
            let blob = (tenant.clone(), *digest);
            let left = counts.get(&blob).map_or(0, |count| count - 1);
            if left == 0 {
                counts.remove(&blob);
            } else {
                counts.insert(blob, left);
            }
        }
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<(TenantId, Digest), u64>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keystore {
    /// Reserves all of the blobs or none. Reserved blobs are neither evicted nor deleted by
    /// [`Keystore::delete`]. A key that is purged takes its parts along.
    pub async fn reserve(&self, tenant: &TenantId, digests: &[Digest]) -> Result<Reservation, Error> {
        self.check_count(digests.len())?;
        // The reader comes first. A transaction that waits for the lock holds the only writer, and
        // must not wait for a free reader as well.
        let mut reader = self.reader(tenant.asker()).await?;
        let reserving = self.reserved().reserving().await;
        for digest in digests {
            blobs::good(&mut reader, tenant, digest).await?;
        }
        self.reserved().add(tenant, digests);
        drop(reserving);
        Ok(Reservation { keystore: Some(self.clone()), tenant: tenant.clone(), digests: digests.to_vec() })
    }
}

impl Reservation {
    /// A reservation of no blob.
    pub fn none(tenant: &TenantId) -> Self {
        Self { keystore: None, tenant: tenant.clone(), digests: Vec::new() }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(keystore) = self.keystore.take() {
            keystore.reserved().remove(&self.tenant, &self.digests);
        }
    }
}
