//! Keys on the device: loaded once, verified before use, kept while there is memory.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use cloakwork_device::{Device, DeviceError, KeySlot};
use cloakwork_params::{KeyId, ParameterSet};
use cloakwork_proto::v1;
use tokio::sync::{Notify, Semaphore, watch};

use crate::{
    blob::{BlobReader, RemoteKey},
    engine::{GroupId, JobFailure},
    locked::Locked as _,
};

/// Keys by group. Those that a job uses stay; of the others, the ones longest unused make room.
pub(crate) struct KeyCache {
    device: Arc<dyn Device>,
    budget: u64,
    entries: Mutex<Entries>,
    /// Told when a key is no longer in use.
    freed: Notify,
    /// Told when what is resident has changed.
    changed: Arc<Notify>,
    /// Of loads that run.
    loads: Semaphore,
}

/// Keys that are loaded at the same time: each takes all threads, and holds its parts beside what they become.
const LOADS_AT_ONCE: usize = 2;

#[derive(Default)]
struct Entries {
    by_group: HashMap<GroupId, Entry>,
    clock: u64,
}

enum Entry {
    Loading { bytes: u64, load: watch::Receiver<Load> },
    Ready(Arc<Resident>),
}

struct Resident {
    slot: KeySlot,
    set: &'static ParameterSet,
    key_id: KeyId,
    users: AtomicUsize,
    last_use: Mutex<u64>,
}

/// How far loading a key has come.
enum Load {
    Queued,
    Running,
    Ended(Result<(), KeyFailure>),
}

/// Why a key was not loaded, and whether whoever asks next should try again.
#[derive(Clone)]
struct KeyFailure {
    failure: JobFailure,
    /// It could not be read, which may have been the fault of the lease that it was read under.
    unreadable: bool,
}

/// A key in use. It stays resident for as long as a lease on it lives.
pub(crate) struct KeyLease {
    key: Arc<Resident>,
    cache: Arc<KeyCache>,
}

/// What to load.
#[derive(Clone)]
pub(crate) struct KeyRequest {
    pub(crate) group: GroupId,
    pub(crate) set: &'static ParameterSet,
    pub(crate) parts: Vec<v1::Digest>,
    pub(crate) blobs: BlobReader,
}

/// What a caller has to do next.
enum Step {
    Done(KeyLease),
    Wait(watch::Receiver<Load>),
    Load(watch::Sender<Load>),
    Full,
}

impl KeyCache {
    pub(crate) fn new(device: Arc<dyn Device>, budget: u64, changed: Arc<Notify>) -> Self {
        let loads = Semaphore::new(LOADS_AT_ONCE);
        Self { device, budget, entries: Mutex::default(), freed: Notify::new(), changed, loads }
    }

    /// A lease on a key, loaded first if need be, and whether it was there already. Of several who ask for the same
    /// key at once, one loads it and all wait. `waits` hears when this begins to wait for other jobs' keys, for the room
    /// that they take up or for their loading, and when that is over.
    pub(crate) async fn get(
        self: &Arc<Self>,
        request: &KeyRequest,
        waits: impl Fn(bool),
    ) -> Result<(KeyLease, bool), JobFailure> {
        let needed = self.device.key_bytes(request.set);
        if needed > self.budget {
            let message = format!("the key takes {needed} bytes; the worker may use {} for keys", self.budget);
            return Err(JobFailure::passing("WORKER_OUT_OF_MEMORY", message));
        }
        let mut resident = true;
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // From here on, no notification is missed.
            freed.as_mut().enable();
            let (load, mine) = match self.step(request, needed) {
                Step::Done(lease) => return Ok((lease, resident)),
                Step::Wait(load) => (load, false),
                Step::Load(sender) => {
                    let load = sender.subscribe();
                    // On its own, so that it ends even if this job is taken away: others may be waiting.
                    tokio::spawn(self.clone().load(request.clone(), sender));
                    (load, true)
                }
                Step::Full => {
                    resident = false;
                    waits(true);
                    freed.await;
                    waits(false);
                    continue;
                }
            };
            resident = false;
            match outcome(load, &waits).await {
                Ok(()) => {}
                Err(failure) if failure.unreadable && !mine => {}
                Err(failure) => return Err(failure.failure),
            }
        }
    }

    /// Keys on the device.
    pub(crate) fn resident(&self) -> Vec<v1::ResidentKey> {
        let entries = self.entries.locked();
        let ready = entries.by_group.iter().filter_map(|(group, entry)| match entry {
            Entry::Ready(key) => Some(v1::ResidentKey {
                key_id: key.key_id.0.to_vec().into(),
                parameter_set: key.set.name.to_owned(),
                bytes: key.slot.bytes,
                group: group.group.clone(),
            }),
            Entry::Loading { .. } => None,
        });
        ready.collect()
    }

    /// Sets of the resident keys.
    pub(crate) fn sets(&self) -> Vec<&'static ParameterSet> {
        let entries = self.entries.locked();
        let set = |entry: &Entry| if let Entry::Ready(key) = entry { Some(key.set) } else { None };
        entries.by_group.values().filter_map(set).collect()
    }

    fn step(self: &Arc<Self>, request: &KeyRequest, needed: u64) -> Step {
        let mut entries = self.entries.locked();
        match entries.by_group.get(&request.group) {
            Some(Entry::Ready(key)) => {
                let key = key.clone();
                key.users.fetch_add(1, Ordering::AcqRel);
                entries.clock += 1;
                *key.last_use.locked() = entries.clock;
                return Step::Done(KeyLease { key, cache: self.clone() });
            }
            Some(Entry::Loading { load, .. }) => return Step::Wait(load.clone()),
            None => {}
        }
        let evicted = entries.make_room(self.budget - needed);
        let full = evicted.is_none();
        let (sender, load) = watch::channel(Load::Queued);
        if !full {
            entries.by_group.insert(request.group.clone(), Entry::Loading { bytes: needed, load });
        }
        drop(entries);
        for slot in evicted.unwrap_or_default() {
            self.device.evict_key(slot);
            self.changed.notify_one();
        }
        if full { Step::Full } else { Step::Load(sender) }
    }

    async fn load(self: Arc<Self>, request: KeyRequest, sender: watch::Sender<Load>) {
        let turn = self.loads.acquire().await.expect("nobody closes it");
        sender.send_replace(Load::Running);
        let source = RemoteKey::new(&request);
        let device = self.device.clone();
        let loaded = tokio::task::spawn_blocking(move || device.load_key(&source)).await;
        let loaded = loaded.unwrap_or_else(|error| Err(DeviceError::Lost { message: error.to_string() }));
        drop(turn);
        let mut entries = self.entries.locked();
        let result = match loaded {
            Ok(slot) => {
                entries.clock += 1;
                let key = Resident {
                    slot,
                    set: request.set,
                    key_id: request.group.key_id,
                    users: AtomicUsize::new(0),
                    last_use: Mutex::new(entries.clock),
                };
                entries.by_group.insert(request.group, Entry::Ready(Arc::new(key)));
                self.changed.notify_one();
                Ok(())
            }
            Err(error) => {
                entries.by_group.remove(&request.group);
                Err(failure(&error, &request.parts))
            }
        };
        drop(entries);
        if result.is_err() {
            self.freed.notify_waiters();
        }
        sender.send_replace(Load::Ended(result));
    }
}

impl Entries {
    /// Takes unused keys out, the longest unused first, until what is left takes up at most `bytes`. Nothing is taken
    /// out if that cannot be reached.
    fn make_room(&mut self, bytes: u64) -> Option<Vec<KeySlot>> {
        let size = |entry: &Entry| match entry {
            Entry::Loading { bytes, .. } => *bytes,
            Entry::Ready(key) => key.slot.bytes,
        };
        let mut held: u64 = self.by_group.values().map(size).sum();
        let unused = |(name, entry): (&GroupId, &Entry)| match entry {
            Entry::Ready(key) if key.users.load(Ordering::Acquire) == 0 => {
                Some((*key.last_use.locked(), name.clone(), key.slot))
            }
            _ => None,
        };
        let mut unused: Vec<_> = self.by_group.iter().filter_map(unused).collect();
        unused.sort_unstable_by_key(|(last_use, ..)| *last_use);
        let mut victims = Vec::new();
        for (_, name, slot) in unused {
            if held <= bytes {
                break;
            }
            held -= slot.bytes;
            victims.push((name, slot));
        }
        if held > bytes {
            return None;
        }
        let take = |(name, slot): (GroupId, KeySlot)| {
            self.by_group.remove(&name);
            slot
        };
        Some(victims.into_iter().map(take).collect())
    }
}

impl KeyLease {
    pub(crate) fn slot(&self) -> KeySlot {
        self.key.slot
    }
}

impl Drop for KeyLease {
    fn drop(&mut self) {
        if self.key.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.cache.freed.notify_waiters();
        }
    }
}

async fn outcome(mut load: watch::Receiver<Load>, waits: impl Fn(bool)) -> Result<(), KeyFailure> {
    let is_queued = matches!(*load.borrow(), Load::Queued);
    if is_queued {
        waits(true);
        let _ = load.wait_for(|load| !matches!(load, Load::Queued)).await;
        waits(false);
    }
    if let Ok(load) = load.wait_for(|load| matches!(load, Load::Ended(_))).await
        && let Load::Ended(result) = &*load
    {
        return result.clone();
    }
    let failure = JobFailure::passing("DEVICE_FAILED", "loading the key came to no end");
    Err(KeyFailure { failure, unreadable: false })
}

fn failure(error: &DeviceError, parts: &[v1::Digest]) -> KeyFailure {
    let failure = match error {
        DeviceError::BadKeyPart { part, .. } => {
            JobFailure { bad_key_part: parts.get(*part).cloned(), ..JobFailure::lasting("KEY_CORRUPT", error) }
        }
        DeviceError::MissingKeyPart { .. } => JobFailure::lasting("KEY_INCOMPLETE", error),
        DeviceError::UnsupportedSet { .. } => JobFailure::passing("SET_NOT_SERVED", error),
        DeviceError::Unreadable { .. } => JobFailure::passing("BLOB_UNAVAILABLE", error),
        DeviceError::OutOfMemory { .. } => JobFailure::passing("WORKER_OUT_OF_MEMORY", error),
        _ => JobFailure::passing("DEVICE_FAILED", error),
    };
    KeyFailure { failure, unreadable: matches!(error, DeviceError::Unreadable { .. }) }
}
