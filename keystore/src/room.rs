//! Room for ciphertexts that nobody has pinned, shared evenly by tenants.
//!
//! When the space is exceeded, the tenant that has most of it gives, be it the one that asks or another. So a tenant
//! that keeps to an even share (the space by the number of tenants that have something in it) never loses anything and
//! is never refused: while there is too much in all, somebody else has more than that.

use std::collections::BTreeMap;

use crate::{
    Digest, Error, Keystore, TenantId,
    catalogue::{Connection, blobs},
};

/// What was done about a lack of room.
#[derive(Debug)]
#[must_use]
pub(crate) struct Room {
    /// Whose rows have gone, enough or not. Their bytes are the caller's to remove, once the transaction is through.
    pub(crate) evicted: Vec<(TenantId, Digest)>,
    /// The limit that is exceeded still, because the next one to give has nothing that may go.
    lacking: Option<u64>,
}

impl Room {
    /// What has to go along with a new blob; an error where that would still not fit, and then the transaction must
    /// come to nothing.
    pub(crate) fn enough(self) -> Result<Vec<(TenantId, Digest)>, Error> {
        match self.lacking {
            Some(limit) => Err(Error::CiphertextSpaceFull { limit }),
            None => Ok(self.evicted),
        }
    }
}

impl Keystore {
    /// Evicts until the unpinned ciphertexts fit their space, with those that `asker` is about to add, or until nothing
    /// more may go.
    pub(crate) async fn make_room(
        &self,
        sql: &mut Connection,
        now_ms: i64,
        asker: Option<(&TenantId, u64)>,
    ) -> Result<Room, Error> {
        let limit = self.limits().unpinned_bytes;
        let need = asker.map_or(0, |(_, need)| need);
        let mut evicted = Vec::new();
        // The cheap sum first: it counts what is pinned, too.
        if blobs::ciphertext_bytes(sql).await?.saturating_add(need) <= limit {
            return Ok(Room { evicted, lacking: None });
        }
        let mut held = blobs::unpinned_bytes(sql, now_ms).await?;
        if let Some((tenant, need)) = asker {
            let bytes = held.entry(tenant.clone()).or_default();
            *bytes = bytes.saturating_add(need);
        }
        while held.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes)) > limit {
            let Some(giver) = largest(&held, asker.map(|(tenant, _)| tenant)) else { break };
            let mut candidates = blobs::evictable(sql, &giver, now_ms, false).await?;
            // What a tenant was promised to be kept counts against itself, not against others.
            if candidates.is_empty() && asker.is_some_and(|(tenant, _)| *tenant != giver) {
                candidates = blobs::evictable(sql, &giver, now_ms, true).await?;
            }
            if candidates.is_empty() {
                return Ok(Room { evicted, lacking: Some(limit) });
            }
            let mut own = held.remove(&giver).unwrap_or(0);
            let others: u64 = held.values().fold(0, |sum, bytes| sum.saturating_add(*bytes));
            let next = held.values().copied().max().unwrap_or(0);
            for digest in candidates {
                if own.saturating_add(others) <= limit || own < next {
                    break;
                }
                blobs::remove(sql, &giver, &digest, false).await?;
                own = own.saturating_sub(digest.size_bytes);
                evicted.push((giver.clone(), digest));
            }
            held.insert(giver, own);
        }
        Ok(Room { evicted, lacking: None })
    }
}

/// Who has most; the one who asks, where several have the same.
fn largest(held: &BTreeMap<TenantId, u64>, asker: Option<&TenantId>) -> Option<TenantId> {
    let most = held.iter().max_by_key(|(tenant, bytes)| (**bytes, asker == Some(*tenant)));
    most.map(|(tenant, _)| tenant.clone())
}
