//! Bodies of keys in the host's memory. A key that was evicted to make room is prepared again from
//! its copy, so that the client does not send it and the worker does not decode it again.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytemuck::Pod;
use cloakwork_device::KeySource;
use cloakwork_math::random::MaskSeed;
use cloakwork_params::{KeyId, SetId};

use super::Seeded;
use crate::gpu::{Driver, DriverError, Pinned};

/// Copies of the keys that were loaded or evicted last, up to the limit. One copy serves all GPUs.
pub(crate) struct WarmKeys {
    limit_bytes: u64,
    /// Time for which a copy of an evicted key is kept after its last use, because the key may have
    /// been deleted.
    kept_for: Duration,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_name: HashMap<KeyName, Entry>,
    held_bytes: u64,
    /// Incremented at each use of a key. Orders the entries by their last use.
    clock: u64,
}

struct Entry {
    key: Arc<WarmKey>,
    bytes: u64,
    last_use: u64,
    /// Time when the key was evicted from the GPUs; none while it is there.
    evicted: Option<Instant>,
}

/// Identifies a key by its set, its key id and its contents.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeyName {
    set: SetId,
    key_id: KeyId,
    contents: Vec<u8>,
}

impl KeyName {
    /// The name of a source's key; none if the source cannot identify its contents.
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
    /// Copies of up to `limit_bytes` bytes in total, each kept for `kept_for` after its key's
    /// eviction.
    pub(crate) fn new(limit_bytes: u64, kept_for: Duration) -> Self {
        Self { limit_bytes, kept_for, entries: Mutex::default() }
    }

    pub(crate) fn kept_for(&self) -> Duration {
        self.kept_for
    }

    /// The copy of a key, if there is one.
    pub(crate) fn get(&self, name: &KeyName) -> Option<Arc<WarmKey>> {
        self.entries().by_name.get(name).map(|entry| entry.key.clone())
    }

    /// Records that the key is on the GPUs again.
    pub(crate) fn was_loaded(&self, name: &KeyName) {
        self.entries().used(name, None);
    }

    /// Records that the key was evicted.
    pub(crate) fn was_evicted(&self, name: &KeyName) {
        self.entries().used(name, Some(Instant::now()));
    }

    /// Removes copies whose evicted keys were not loaded in time. Copies that a GPU is loading
    /// stay.
    pub(crate) fn give_up(&self) {
        let is_old = |entry: &Entry| entry.evicted.is_some_and(|evicted| evicted.elapsed() >= self.kept_for);
        let mut entries = self.entries();
        let old: Vec<Entry> =
            entries.by_name.extract_if(|_, entry| entry.is_unused() && is_old(entry)).map(|(_, entry)| entry).collect();
        entries.held_bytes -= old.iter().map(|entry| entry.bytes).sum::<u64>();
        drop(entries);
        // Freeing pinned memory takes long, so the lock is released first.
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
        if !self.reserve(&name, bytes) {
            return;
        }
        let key = Half::of(driver, key_switch)
            .and_then(|key_switch| Ok(WarmKey { key_switch, bootstrap: Half::of(driver, bootstrap)? }));
        let mut entries = self.entries();
        match key {
            Ok(key) if !entries.by_name.contains_key(&name) => {
                let last_use = entries.now();
                entries.by_name.insert(name, Entry { key: Arc::new(key), bytes, last_use, evicted: None });
            }
            not_kept => {
                entries.held_bytes -= bytes;
                drop(entries);
                if let Err(error) = not_kept {
                    tracing::debug!(%error, "a key's bodies are not kept in memory");
                }
            }
        }
    }

    /// Counts `bytes` bytes as held, if there is room and the key has no copy yet. The lock is not
    /// held while memory is allocated or freed.
    fn reserve(&self, name: &KeyName, bytes: u64) -> bool {
        let mut entries = self.entries();
        if entries.by_name.contains_key(name) {
            return false;
        }
        let mut gone = Vec::new();
        let has_room = entries.make_room(self.limit_bytes, bytes, &mut gone);
        if has_room {
            entries.held_bytes += bytes;
        }
        drop(entries);
        drop(gone);
        has_room
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

    fn used(&mut self, name: &KeyName, evicted: Option<Instant>) {
        let last_use = self.now();
        if let Some(entry) = self.by_name.get_mut(name) {
            (entry.last_use, entry.evicted) = (last_use, evicted);
        }
    }

    /// Makes room for `bytes` bytes, and returns whether there is room. If removing all unused
    /// copies would not suffice, none is removed. The caller drops `gone` without the lock. Until
    /// then slightly more memory is in use than is counted.
    fn make_room(&mut self, limit: u64, bytes: u64, gone: &mut Vec<Entry>) -> bool {
        let unused_bytes: u64 = self.by_name.values().filter(|entry| entry.is_unused()).map(|entry| entry.bytes).sum();
        let Some(most) = limit.checked_sub(bytes).filter(|most| self.held_bytes - unused_bytes <= *most) else {
            return false;
        };
        while self.held_bytes > most {
            let unused = self.by_name.iter().filter(|(_, entry)| entry.is_unused());
            let oldest = unused.min_by_key(|(_, entry)| entry.last_use).map(|(name, _)| name.clone());
            let Some(entry) = oldest.and_then(|name| self.by_name.remove(&name)) else { return false };
            self.held_bytes -= entry.bytes;
            gone.push(entry);
        }
        true
    }
}

impl Entry {
    /// Whether no GPU is loading this copy.
    fn is_unused(&self) -> bool {
        Arc::strong_count(&self.key) == 1
    }
}
