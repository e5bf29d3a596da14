//! Bodies of keys in the host's memory: a key that had to make room for others is made ready again from there, and nobody
//! has to send or decode it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytemuck::Pod;
use cloakwork_device::KeySource;
use cloakwork_math::random::MaskSeed;
use cloakwork_params::{KeyId, SetId};

use super::Seeded;
use crate::gpu::{Driver, DriverError, Pinned};

/// The keys that were loaded or evicted last, as many as fit the limit: one copy for all GPUs.
pub(crate) struct WarmKeys {
    limit_bytes: u64,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_name: HashMap<KeyName, Entry>,
    held_bytes: u64,
    clock: u64,
}

struct Entry {
    key: Arc<WarmKey>,
    bytes: u64,
    last_use: u64,
}

/// Of which key these are the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeyName {
    set: SetId,
    key_id: KeyId,
    contents: Vec<u8>,
}

impl KeyName {
    /// Nothing, if nobody can tell.
    pub(crate) fn of(source: &dyn KeySource) -> Option<Self> {
        Some(Self { set: source.set().id, key_id: source.key_id(), contents: source.contents()? })
    }
}

/// A key's bodies in pinned memory, and the seeds of its masks.
pub(crate) struct WarmKey {
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

impl WarmKey {
    pub(crate) fn key_switch<S: Pod>(&self) -> Result<Seeded<'_, S>, DriverError> {
        self.key_switch.seeded()
    }

    pub(crate) fn bootstrap<T: Pod>(&self) -> Result<Seeded<'_, T>, DriverError> {
        self.bootstrap.seeded()
    }
}

impl WarmKeys {
    /// Of so many bytes together.
    pub(crate) fn new(limit_bytes: u64) -> Self {
        Self { limit_bytes, entries: Mutex::default() }
    }

    /// A key, if it is here. It counts as used now.
    pub(crate) fn get(&self, name: &KeyName) -> Option<Arc<WarmKey>> {
        let mut entries = self.entries();
        let now = entries.now();
        let entry = entries.by_name.get_mut(name)?;
        entry.last_use = now;
        Some(entry.key.clone())
    }

    /// Keeps a copy, if there is room when those that were not used for longest make way. Those that a GPU is being given
    /// stay.
    pub(crate) fn keep<T: Pod, S: Pod>(
        &self,
        name: KeyName,
        driver: &Arc<dyn Driver>,
        key_switch: Seeded<'_, S>,
        bootstrap: Seeded<'_, T>,
    ) {
        let bytes = (size_of_val(key_switch.bodies) + size_of_val(bootstrap.bodies)) as u64;
        let mut entries = self.entries();
        if entries.by_name.contains_key(&name) || !entries.make_room(self.limit_bytes, bytes) {
            return;
        }
        let key = Half::of(driver, key_switch)
            .and_then(|key_switch| Ok(WarmKey { key_switch, bootstrap: Half::of(driver, bootstrap)? }));
        match key {
            Ok(key) => {
                let last_use = entries.now();
                entries.held_bytes += bytes;
                entries.by_name.insert(name, Entry { key: Arc::new(key), bytes, last_use });
            }
            Err(error) => tracing::debug!(%error, "a key's bodies are not kept in memory"),
        }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn now(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Is there room for so many bytes, now that others have made way?
    fn make_room(&mut self, limit: u64, bytes: u64) -> bool {
        let Some(most) = limit.checked_sub(bytes) else { return false };
        while self.held_bytes > most {
            let unused = self.by_name.iter().filter(|(_, entry)| Arc::strong_count(&entry.key) == 1);
            let oldest = unused.min_by_key(|(_, entry)| entry.last_use).map(|(name, _)| name.clone());
            let Some(entry) = oldest.and_then(|name| self.by_name.remove(&name)) else { return false };
            self.held_bytes -= entry.bytes;
        }
        true
    }
}
