//! Named values in limited memory, such as keys on a device. A leased value stays. Room for others
//! comes from values without a lease: those of the lowest rank first, and within a rank those whose
//! last lease is longest ago.

#![forbid(unsafe_code)]

use std::{
    collections::HashMap,
    hash::Hash,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::Notify;

/// The values, by name. The owner holds a lock for each call, and drops evicted values without the
/// lock.
#[derive(Debug)]
pub struct Residents<K, V, R = ()> {
    by_name: HashMap<K, Entry<V, R>>,
    clock: u64,
    freed: Arc<Notify>,
}

#[derive(Debug)]
struct Entry<V, R> {
    shared: Arc<Shared<V>>,
    bytes: u64,
    rank: R,
    last_use: u64,
}

#[derive(Debug)]
struct Shared<V> {
    value: V,
    leases: AtomicUsize,
}

/// A value in use, which stays resident, or at least alive, while the lease lives.
#[derive(Debug)]
pub struct Lease<V> {
    shared: Arc<Shared<V>>,
    freed: Arc<Notify>,
}

/// A value that was resident. Its memory is freed when this and the last lease are dropped.
#[derive(Debug)]
pub struct Evicted<V>(Arc<Shared<V>>);

/// Too many bytes would stay, even if all values that may be evicted were. Nothing was evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Bytes that would stay.
    pub staying_bytes: u64,
}

/// A resident value, as [`Residents::iter`] shows it.
#[derive(Debug)]
pub struct Resident<'r, K, V, R> {
    /// Its name.
    pub name: &'r K,
    /// The value.
    pub value: &'r V,
    /// Bytes that it takes.
    pub bytes: u64,
    /// Its rank.
    pub rank: R,
    /// Whether a lease lives.
    pub is_leased: bool,
}

impl<K, V, R> Default for Residents<K, V, R> {
    fn default() -> Self {
        Self { by_name: HashMap::new(), clock: 0, freed: Arc::default() }
    }
}

impl<K: Clone + Eq + Hash, V, R: Copy + Ord> Residents<K, V, R> {
    /// Notified when the last lease of a value has ended, and not for a removal or an insertion
    /// without a lease. A task that takes room for which others may wait therefore holds a lease.
    pub fn freed(&self) -> &Arc<Notify> {
        &self.freed
    }

    /// The value of a name. Does not count as a use.
    pub fn get(&self, name: &K) -> Option<&V> {
        self.by_name.get(name).map(|entry| &entry.shared.value)
    }

    /// All values, in any order.
    pub fn iter(&self) -> impl Iterator<Item = Resident<'_, K, V, R>> {
        self.by_name.iter().map(|(name, entry)| Resident {
            name,
            value: &entry.shared.value,
            bytes: entry.bytes,
            rank: entry.rank,
            is_leased: entry.is_leased(),
        })
    }

    /// Leases the value of a name, whose rank becomes at least `rank`.
    pub fn lease(&mut self, name: &K, rank: R) -> Option<Lease<V>> {
        let entry = self.by_name.get_mut(name)?;
        self.clock += 1;
        (entry.rank, entry.last_use) = (entry.rank.max(rank), self.clock);
        entry.shared.leases.fetch_add(1, Ordering::AcqRel);
        Some(Lease { shared: entry.shared.clone(), freed: self.freed.clone() })
    }

    /// Makes a value resident, without a lease. The value replaces one of the same name, whose
    /// leases stay valid but keep nothing resident any more. The caller has made room.
    pub fn insert(&mut self, name: K, value: V, bytes: u64, rank: R) {
        self.clock += 1;
        let shared = Arc::new(Shared { value, leases: AtomicUsize::new(0) });
        self.by_name.insert(name, Entry { shared, bytes, rank, last_use: self.clock });
    }

    /// Removes the value of a name, leased or not.
    pub fn remove(&mut self, name: &K) -> Option<Evicted<V>> {
        self.by_name.remove(name).map(|entry| Evicted(entry.shared))
    }

    /// Removes the values that have no lease and for which `is_unwanted` is true.
    pub fn evict_if(&mut self, mut is_unwanted: impl FnMut(&V) -> bool) -> Vec<Evicted<V>> {
        let gone = self.by_name.extract_if(|_, entry| !entry.is_leased() && is_unwanted(&entry.shared.value));
        gone.map(|(_, entry)| Evicted(entry.shared)).collect()
    }

    /// Makes room for `wanted` bytes below a limit, at the cost of values whose rank is at most
    /// `rank`.
    pub fn make_room(&mut self, limit: u64, wanted: u64, rank: R) -> Result<Vec<Evicted<V>>, Full> {
        let most = limit.saturating_sub(wanted);
        let mut staying_bytes: u64 = self.by_name.values().map(|entry| entry.bytes).sum();
        let unused = self.by_name.iter().filter(|(_, entry)| entry.rank <= rank && !entry.is_leased());
        let mut unused: Vec<_> =
            unused.map(|(name, entry)| (entry.rank, entry.last_use, entry.bytes, name.clone())).collect();
        unused.sort_unstable_by_key(|(rank, last_use, ..)| (*rank, *last_use));
        let mut going = Vec::new();
        for (_, _, bytes, name) in unused {
            if staying_bytes <= most {
                break;
            }
            staying_bytes -= bytes;
            going.push(name);
        }
        if staying_bytes > most || wanted > limit {
            return Err(Full { staying_bytes });
        }
        Ok(going.iter().filter_map(|name| self.remove(name)).collect())
    }
}

impl<V, R> Entry<V, R> {
    fn is_leased(&self) -> bool {
        self.shared.leases.load(Ordering::Acquire) > 0
    }
}

impl<V> Deref for Lease<V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.shared.value
    }
}

impl<V> Drop for Lease<V> {
    fn drop(&mut self) {
        // The count goes down first, so that a notified task finds the value without a lease.
        if self.shared.leases.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.freed.notify_waiters();
        }
    }
}

impl<V> Deref for Evicted<V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.0.value
    }
}

#[cfg(test)]
mod tests;
