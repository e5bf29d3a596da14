//! Room for unpinned ciphertexts, shared evenly by tenants.
//!
//! When the space is exceeded, the tenant with the most unpinned bytes loses ciphertexts, whether
//! or not it asked for the space. An even share is the space divided by the number of tenants that
//! have unpinned ciphertexts. A tenant within an even share never loses ciphertexts and is never
//! refused: while the total is too large, another tenant has more than an even share.

use std::collections::{BTreeMap, BTreeSet};

use cloakwork_storage::Write;

use crate::{
    Digest, Error, Keystore, TenantId,
    catalogue::{Connection, blobs},
    store::Object,
};

/// Result of an attempt to make room.
#[derive(Debug)]
#[must_use]
pub(crate) struct Room {
    /// Objects of blobs whose rows were removed, whether or not the room is enough. The caller
    /// removes the objects after the transaction's commit.
    pub(crate) evicted: Vec<Object>,
    /// Limit that is still exceeded, because the tenant that must give next has nothing to evict.
    lacking: Option<u64>,
}

impl Room {
    /// Objects of the blobs that are evicted along with the insertion of a new blob. Returns an
    /// error if the new blob still does not fit; the caller must then roll back the transaction.
    pub(crate) fn enough(self) -> Result<Vec<Object>, Error> {
        match self.lacking {
            Some(limit) => Err(Error::CiphertextSpaceFull { limit }),
            None => Ok(self.evicted),
        }
    }
}

impl Keystore {
    /// Evicts unpinned ciphertexts until they fit the space, together with the bytes that `asker`
    /// is about to add, or until no more may be evicted.
    pub(crate) async fn make_room(
        &self,
        tx: &mut Write,
        now_micros: i64,
        asker: Option<(&TenantId, u64)>,
    ) -> Result<Room, Error> {
        let limit = self.limits().unpinned_bytes;
        let need = asker.map_or(0, |(_, need)| need);
        let mut evicted = Vec::new();
        // The cheap sum, which also counts pinned ciphertexts, comes first.
        if blobs::ciphertext_bytes(tx, self.shard()).await?.saturating_add(need) <= limit {
            return Ok(Room { evicted, lacking: None });
        }
        self.reserved().exclude(tx).await;
        let mut in_use = BTreeSet::new();
        let mut held = blobs::unpinned_bytes(tx, self.shard(), now_micros).await?;
        if let Some((tenant, need)) = asker {
            let bytes = held.entry(tenant.clone()).or_default();
            *bytes = bytes.saturating_add(need);
        }
        while held.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes)) > limit {
            let Some(giver) = largest(&held, asker.map(|(tenant, _)| tenant)) else { break };
            let (mut candidates, mut reserved) = self.evictable(tx, &giver, now_micros, false).await?;
            if candidates.is_empty() {
                let (recent, more) = self.evictable(tx, &giver, now_micros, true).await?;
                reserved = reserved.saturating_add(more);
                // The keep time of ciphertexts protects them from their own tenant's uploads, not
                // from those of other tenants.
                if asker.is_some_and(|(tenant, _)| *tenant != giver) {
                    candidates = recent;
                }
            }
            if candidates.is_empty() && reserved > 0 && in_use.insert(giver.clone()) {
                // Jobs are about to pin these ciphertexts, and pinned ones do not count.
                held.entry(giver).and_modify(|bytes| *bytes = bytes.saturating_sub(reserved));
                continue;
            }
            if candidates.is_empty() {
                return Ok(Room { evicted, lacking: Some(limit) });
            }
            let mut own = held.remove(&giver).unwrap_or(0);
            let others: u64 = held.values().fold(0, |sum, bytes| sum.saturating_add(*bytes));
            let next = held.values().copied().max().unwrap_or(0);
            // Evicts until the total fits or another tenant holds more.
            for (digest, generation) in candidates {
                if own.saturating_add(others) <= limit || own < next {
                    break;
                }
                blobs::remove(tx, &giver, &digest, false).await?;
                own = own.saturating_sub(digest.size_bytes);
                evicted.push(Object::new(&giver, &digest, generation));
            }
            held.insert(giver, own);
        }
        Ok(Room { evicted, lacking: None })
    }

    /// Some of the tenant's ciphertexts that may be evicted, least recently used first, and the
    /// bytes of those that are reserved.
    async fn evictable(
        &self,
        sql: &mut Connection,
        tenant: &TenantId,
        now_micros: i64,
        kept: bool,
    ) -> Result<(Vec<(Digest, i64)>, u64), Error> {
        let most = EVICTED_AT_ONCE.saturating_add(self.reserved().count(tenant));
        let unpinned = blobs::evictable(sql, tenant, now_micros, kept, most).await?;
        let (reserved, free): (Vec<_>, _) =
            unpinned.into_iter().partition(|(digest, _)| self.reserved().holds(tenant, digest));
        Ok((free, reserved.iter().map(|(digest, _)| digest.size_bytes).sum()))
    }
}

/// Number of ciphertexts that one query for eviction is to find.
const EVICTED_AT_ONCE: u32 = 256;

/// The tenant with the most bytes. A tie goes to the asker.
fn largest(held: &BTreeMap<TenantId, u64>, asker: Option<&TenantId>) -> Option<TenantId> {
    let most = held.iter().max_by_key(|(tenant, bytes)| (**bytes, asker == Some(*tenant)));
    most.map(|(tenant, _)| tenant.clone())
}
