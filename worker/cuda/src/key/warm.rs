//! Bodies of keys in the host's memory. A key that was evicted to make room is prepared again from
//! its copy. The client then does not send the key again, and the worker does not decode it again.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use bytemuck::Pod;
use cloakwork_device::KeySource;
use cloakwork_math::random::MaskSeed;
use cloakwork_params::{KeyId, SetId};
use cloakwork_residency::{Lease, Residents};

use super::Seeded;
use crate::{
    gpu::{Driver, DriverError, Pinned},
    locked::locked,
};

/// Copies of the keys that were loaded or evicted last, up to the limit. One copy serves all GPUs.
pub(crate) struct WarmKeys {
    limit_bytes: u64,
    /// Time for which a copy of an evicted key is kept after its last use, because the key may have
    /// been deleted.
    kept_for: Duration,
    copies: Mutex<Residents<KeyName, WarmCopy>>,
}

/// A copy. A GPU that loads the key leases it.
enum WarmCopy {
    /// Room that is taken while the copy is made.
    Coming,
    Kept {
        key: WarmKey,
        /// Time when the key was evicted from the GPUs; `None` while the GPUs have the key.
        evicted: Mutex<Option<Instant>>,
    },
}

/// A lease on a copy that is complete.
pub(crate) struct WarmLease(Lease<WarmCopy>);

/// Identifies a key by its set, its key id and its contents.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeyName {
    set: SetId,
    key_id: KeyId,
    contents: Vec<u8>,
}

impl KeyName {
    /// The name of a source's key; `None` if the source cannot identify its contents.
    pub(crate) fn of(source: &dyn KeySource) -> Option<Self> {
        Some(Self { set: source.set().id, key_id: source.key_id(), contents: source.contents()? })
    }
}

/// A key's bodies in pinned memory, and the seeds of its masks.
struct WarmKey {
    key_switch: Half,
    bootstrap: Half,
}

struct Half {
    seed: MaskSeed,
    bodies: Pinned,
}

impl Half {
    fn of<W: Pod>(driver: &Arc<dyn Driver>, seeded: Seeded<'_, W>) -> Result<Self, DriverError> {
        Ok(Self { seed: seeded.seed, bodies: Pinned::of(driver, seeded.bodies)? })
    }

    fn seeded<W: Pod>(&self) -> Result<Seeded<'_, W>, DriverError> {
        Ok(Seeded { seed: self.seed, bodies: self.bodies.items()? })
    }
}

impl WarmLease {
    pub(crate) fn key_switch<S: Pod>(&self) -> Result<Seeded<'_, S>, DriverError> {
        self.key()?.key_switch.seeded()
    }

    pub(crate) fn bootstrap<T: Pod>(&self) -> Result<Seeded<'_, T>, DriverError> {
        self.key()?.bootstrap.seeded()
    }

    fn key(&self) -> Result<&WarmKey, DriverError> {
        match &*self.0 {
            WarmCopy::Kept { key, .. } => Ok(key),
            WarmCopy::Coming => Err(DriverError::Misfit("a lease on a complete copy")),
        }
    }
}

impl WarmKeys {
    /// Copies of up to `limit_bytes` bytes in total, each kept for `kept_for` after its key's
    /// eviction.
    pub(crate) fn new(limit_bytes: u64, kept_for: Duration) -> Self {
        Self { limit_bytes, kept_for, copies: Mutex::default() }
    }

    pub(crate) fn kept_for(&self) -> Duration {
        self.kept_for
    }

    /// The copy of a key, if there is one.
    pub(crate) fn get(&self, name: &KeyName) -> Option<WarmLease> {
        let mut copies = self.copies();
        match copies.get(name)? {
            WarmCopy::Coming => None,
            WarmCopy::Kept { .. } => copies.lease(name, ()).map(WarmLease),
        }
    }

    /// Records that the key is on the GPUs again.
    pub(crate) fn was_loaded(&self, name: &KeyName) {
        self.used(name, None);
    }

    /// Records that the key was evicted.
    pub(crate) fn was_evicted(&self, name: &KeyName) {
        self.used(name, Some(Instant::now()));
    }

    /// Removes copies whose evicted keys were not loaded in time. Copies that a GPU is loading
    /// stay.
    pub(crate) fn give_up(&self) {
        let is_old = |copy: &WarmCopy| match copy {
            WarmCopy::Coming => false,
            WarmCopy::Kept { evicted, .. } => locked(evicted).is_some_and(|evicted| evicted.elapsed() >= self.kept_for),
        };
        let old = self.copies().evict_if(is_old);
        // Freeing pinned memory takes long, so the copies are dropped without the lock.
        drop(old);
    }

    /// Keeps a copy, if there is room once the least recently used copies are removed. Copies that
    /// a GPU is loading stay.
    pub(crate) fn keep<T: Pod, S: Pod>(
        &self,
        name: KeyName,
        driver: &Arc<dyn Driver>,
        key_switch: Seeded<'_, S>,
        bootstrap: Seeded<'_, T>,
    ) {
        let bytes = (size_of_val(key_switch.bodies) + size_of_val(bootstrap.bodies)) as u64;
        let Some(place) = self.reserve(&name, bytes) else { return };
        let key = Half::of(driver, key_switch)
            .and_then(|key_switch| Ok(WarmKey { key_switch, bootstrap: Half::of(driver, bootstrap)? }));
        match key {
            Ok(key) => {
                let copy = WarmCopy::Kept { key, evicted: Mutex::new(None) };
                self.copies().insert(name, copy, bytes, ());
            }
            Err(error) => {
                self.copies().remove(&name);
                tracing::debug!(%error, "a key's bodies are not kept in memory");
            }
        }
        drop(place);
    }

    /// Takes room for `bytes` bytes, if there is room and the key has no copy yet. The lock is not
    /// held while memory is allocated or freed.
    fn reserve(&self, name: &KeyName, bytes: u64) -> Option<Lease<WarmCopy>> {
        let mut copies = self.copies();
        if copies.get(name).is_some() {
            return None;
        }
        let gone = copies.make_room(self.limit_bytes, bytes, ()).ok()?;
        copies.insert(name.clone(), WarmCopy::Coming, bytes, ());
        let place = copies.lease(name, ());
        drop(copies);
        drop(gone);
        place
    }

    fn used(&self, name: &KeyName, evicted_now: Option<Instant>) {
        let lease = self.copies().lease(name, ());
        if let Some(WarmCopy::Kept { evicted, .. }) = lease.as_deref() {
            *locked(evicted) = evicted_now;
        }
    }

    fn copies(&self) -> MutexGuard<'_, Residents<KeyName, WarmCopy>> {
        locked(&self.copies)
    }
}
