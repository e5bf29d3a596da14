//! Locks on blobs, each for one blob of one tenant.
//!
//! A commit into a bucket takes minutes, and holds the lock for as long. If blobs or tenants shared
//! locks, one tenant's commits would therefore hold up those of other tenants.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Mutex as Turns, OwnedMutexGuard};

use crate::{Digest, TenantId};

/// The locks of blobs. A lock exists only while a call holds it or waits for it.
#[derive(Debug, Default)]
pub(crate) struct Changing(Mutex<HashMap<Name, Arc<Turns<()>>>>);

/// Tenant and hash of a blob, as in the name of its object.
type Name = (TenantId, [u8; 32]);

/// The lock on a blob, until dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Change<'c> {
    changing: &'c Changing,
    name: Name,
    /// `None` while the call waits.
    turn: Option<OwnedMutexGuard<()>>,
}

impl Changing {
    /// Waits until no other call changes the blob.
    pub(crate) async fn lock(&self, tenant: &TenantId, digest: &Digest) -> Change<'_> {
        let name: Name = (tenant.clone(), digest.blake3);
        let turns = self.locks().entry(name.clone()).or_default().clone();
        // A call that stops waiting drops this value, which removes an entry without other calls.
        let mut change = Change { changing: self, name, turn: None };
        change.turn = Some(turns.lock_owned().await);
        change
    }

    /// Whether a call changes the blob of this hash, or waits to do so.
    pub(crate) fn has(&self, tenant: &TenantId, blake3: &[u8; 32]) -> bool {
        self.locks().contains_key(&(tenant.clone(), *blake3))
    }

    /// Whether no call changes a blob of the tenant.
    pub(crate) fn is_free(&self, tenant: &TenantId) -> bool {
        !self.locks().keys().any(|(name, _)| name == tenant)
    }

    fn locks(&self) -> MutexGuard<'_, HashMap<Name, Arc<Turns<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        drop(self.turn.take());
        let mut locks = self.changing.locks();
        // Calls copy the handle under the map's lock. A single handle is therefore the map's own,
        // and no call holds or awaits the blob's lock.
        if locks.get(&self.name).is_some_and(|turns| Arc::strong_count(turns) == 1) {
            locks.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;

    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).expect("a name")
    }

    /// Digests with equal first bytes.
    fn digest(last: u8) -> Digest {
        let mut blake3 = [7; 32];
        blake3[31] = last;
        Digest { blake3, size_bytes: 1 }
    }

    #[tokio::test]
    async fn a_lock_excludes_calls_for_its_own_blob_only() {
        let changing = Changing::default();
        let (alice, bob, blob) = (tenant("alice"), tenant("bob"), digest(1));
        let held = changing.lock(&alice, &blob).await;
        let mut again = pin!(changing.lock(&alice, &blob));
        assert!((&mut again).now_or_never().is_none(), "the blob is being changed");
        let other_tenant = changing.lock(&bob, &blob).now_or_never().expect("a lock of its own");
        let other_blob = changing.lock(&alice, &digest(2)).now_or_never().expect("a lock of its own");
        drop((other_tenant, other_blob, held));
        drop(again.now_or_never().expect("the lock is free"));
        assert!(changing.locks().is_empty());
    }

    #[tokio::test]
    async fn a_call_that_stops_waiting_leaves_nothing_behind() {
        let changing = Changing::default();
        let (alice, blob) = (tenant("alice"), digest(1));
        let held = changing.lock(&alice, &blob).await;
        {
            let mut given_up = pin!(changing.lock(&alice, &blob));
            assert!((&mut given_up).now_or_never().is_none());
        }
        assert_eq!(changing.locks().len(), 1, "the holder keeps its lock");
        drop(held);
        assert!(changing.locks().is_empty());
    }
}
