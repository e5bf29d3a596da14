//! Cache of keys on the device. A key is loaded once, verified before use, and kept while there is
//! memory.

mod remote;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use cloakwork_device::{Device, DeviceError, KeySlot};
use cloakwork_params::ParameterSet;
use cloakwork_proto::v1;
use cloakwork_residency::{Lease, Resident, Residents};
use tokio::sync::{Notify, Semaphore, watch};

use remote::RemoteKey;

use crate::{blob::BlobReader, failure::JobFailure, group::GroupId, locked::Locked as _, metrics::Metrics};

/// Keys by group. Keys in use stay resident. Among unused keys, companions are evicted first, and
/// within each kind the least recently used key is first.
///
/// A companion is a key that no job needs. A companion may occupy free room only, and any other key
/// may evict it.
pub(crate) struct KeyCache {
    device: Arc<dyn Device>,
    uses_companions: bool,
    budget: u64,
    keys: Mutex<Residents<GroupId, Key, Purpose>>,
    /// Notified when the set of resident keys has changed.
    changed: Arc<Notify>,
    /// Permits for concurrent loads.
    loads: Semaphore,
    /// Number of keys that jobs need and that wait for room which companions occupy.
    keys_waiting: AtomicUsize,
    /// Groups whose companion must not be loaded before the given time.
    companion_retry_after: Mutex<HashMap<GroupId, Instant>>,
    metrics: Option<Arc<Metrics>>,
}

/// Maximum number of concurrent loads. A load uses all threads, and holds the parts beside the
/// expanded key.
const LOADS_AT_ONCE: usize = 2;
/// Pause after a failed load of a companion, because each attempt delays a job.
const COMPANION_RETRY_PAUSE: Duration = Duration::from_secs(60);

/// Purpose of a resident key. The order of the variants is the order of eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
    /// Companion, used for waves of another set where it is faster.
    Companion,
    /// Key that jobs of its own set need.
    Jobs,
}

/// A key on the device, or on its way there. The task that loads a key leases it, so that its room
/// stays taken.
enum Key {
    /// Only the task owns the sender: it ends the load when nobody listens any more.
    Loading(Weak<watch::Sender<Load>>),
    Ready {
        slot: KeySlot,
        set: &'static ParameterSet,
    },
}

/// Progress of loading a key.
enum Load {
    Queued,
    Running,
    Ended(Result<(), KeyFailure>),
}

/// Why a key was not loaded, and whether the next caller should try again.
#[derive(Clone)]
struct KeyFailure {
    failure: JobFailure,
    /// Whether reading failed, possibly because of the lease under which the key was read.
    unreadable: bool,
}

/// A lease on a key, which stays resident while the lease lives.
pub(crate) struct KeyLease {
    slot: KeySlot,
    cache: Arc<KeyCache>,
    _key: Lease<Key>,
}

/// A key to load.
#[derive(Clone)]
pub(crate) struct KeyRequest {
    pub(crate) group: GroupId,
    pub(crate) set: &'static ParameterSet,
    pub(crate) parts: Vec<v1::Digest>,
    pub(crate) blobs: BlobReader,
}

/// Next step of a caller.
enum Step {
    Done(KeyLease),
    Wait(watch::Receiver<Load>),
    Load(Loader),
    Full { companions_are_in_the_way: bool },
}

/// The right and duty to load a key.
struct Loader {
    sender: Arc<watch::Sender<Load>>,
    /// Room for the key. Other calls that wait for room are notified when this lease ends.
    place: Lease<Key>,
}

impl KeyCache {
    pub(crate) fn new(
        device: Arc<dyn Device>,
        budget: u64,
        changed: Arc<Notify>,
        metrics: Option<Arc<Metrics>>,
    ) -> Self {
        let uses_companions = device.describe().capabilities.uses_companions;
        Self {
            device,
            uses_companions,
            budget,
            keys: Mutex::default(),
            changed,
            loads: Semaphore::new(LOADS_AT_ONCE),
            keys_waiting: AtomicUsize::new(0),
            companion_retry_after: Mutex::default(),
            metrics,
        }
    }

    /// Leases a key, and returns whether the key was already resident. A missing key is loaded
    /// first. Of several concurrent callers for one key, one loads the key and all wait. `waits` is
    /// called with true when this call begins to wait for keys of other jobs, and with false at the
    /// end of that wait. The call waits for room that other keys occupy, or for their loading.
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
        // The receiver lives until this call has a lease. Meanwhile, `load` does not notify the
        // calls that wait for room, so that none of them evicts the key.
        let mut last_load = None;
        let freed = self.keys.locked().freed().clone();
        loop {
            let freed = freed.notified();
            tokio::pin!(freed);
            // From here on, no notification is missed.
            freed.as_mut().enable();
            let step = self.step(request, needed, Purpose::Jobs);
            drop(last_load.take());
            let (mut load, mine) = match step {
                Step::Done(lease) => {
                    if let Some(metrics) = &self.metrics {
                        metrics.key_lookups.add(1, [if resident { "hit" } else { "miss" }]);
                    }
                    return Ok((lease, resident));
                }
                Step::Wait(load) => (load, false),
                Step::Load(loader) => {
                    let load = loader.sender.subscribe();
                    // The load runs in a task of its own, so that it ends even if this job is
                    // cancelled. Other jobs may wait for the key.
                    tokio::spawn(self.clone().load(request.clone(), Purpose::Jobs, loader));
                    (load, true)
                }
                Step::Full { companions_are_in_the_way } => {
                    resident = false;
                    let _waiting = companions_are_in_the_way.then(|| WaitingKey::new(&self.keys_waiting));
                    waits(true);
                    freed.await;
                    waits(false);
                    continue;
                }
            };
            resident = false;
            let ended = outcome(&mut load, &waits).await;
            last_load = Some(load);
            match ended {
                Ok(()) => {}
                Err(failure) if failure.unreadable && !mine => {}
                Err(failure) => return Err(failure.failure),
            }
        }
    }

    /// Leases the key of a companion like [`Self::get`], but only if the device benefits from
    /// companions. Returns `None` rather than wait for another job's load or for room. No companion
    /// is leased while a key that jobs need waits for room. A load that fails also returns `None`,
    /// unless the bytes of the key are corrupt.
    pub(crate) async fn companion(
        self: &Arc<Self>,
        request: &KeyRequest,
        waits: impl Fn(bool),
    ) -> Result<Option<(KeyLease, bool)>, JobFailure> {
        let needed = self.device.key_bytes(request.set);
        let is_served = || self.device.describe().sets.iter().any(|set| set.id == request.set.id);
        let has_use = self.uses_companions && needed <= self.budget && is_served();
        if !has_use || self.is_paused(&request.group) || self.is_key_waiting() {
            return Ok(None);
        }
        let loader = match self.step(request, needed, Purpose::Companion) {
            Step::Done(lease) => return Ok(Some((lease, true))),
            Step::Wait(_) | Step::Full { .. } => return Ok(None),
            Step::Load(loader) => loader,
        };
        // The receiver lives until there is a lease, as in `get`.
        let mut load = loader.sender.subscribe();
        tokio::spawn(self.clone().load(request.clone(), Purpose::Companion, loader));
        match outcome(&mut load, waits).await {
            Ok(()) => {
                let lease = self.lease(&mut self.keys.locked(), &request.group, Purpose::Companion);
                Ok(lease.map(|lease| (lease, false)))
            }
            Err(KeyFailure { failure, .. }) if failure.bad_key_part.is_some() => Err(failure),
            Err(KeyFailure { failure, .. }) => {
                let (set, reason, cause) = (request.set.name, failure.reason, failure.message);
                tracing::warn!(set, reason, cause, "continuing without the companion's key");
                let mut pauses = self.companion_retry_after.locked();
                let now = Instant::now();
                pauses.retain(|_, until| now < *until);
                pauses.insert(request.group.clone(), now + COMPANION_RETRY_PAUSE);
                Ok(None)
            }
        }
    }

    fn is_paused(&self, group: &GroupId) -> bool {
        self.companion_retry_after.locked().get(group).is_some_and(|until| Instant::now() < *until)
    }

    /// Whether a key that jobs need waits for room which companions occupy.
    fn is_key_waiting(&self) -> bool {
        self.keys_waiting.load(Ordering::Acquire) > 0
    }

    /// Keys on the device.
    pub(crate) fn resident(&self) -> Vec<v1::ResidentKey> {
        let keys = self.keys.locked();
        let ready = keys.iter().filter_map(|key| match key.value {
            Key::Ready { slot, set } => Some(v1::ResidentKey {
                key_id: key.name.key_id.0.to_vec().into(),
                parameter_set: set.name.to_owned(),
                bytes: slot.bytes,
                group: key.name.group.clone(),
            }),
            Key::Loading(_) => None,
        });
        ready.collect()
    }

    /// Sets of the resident keys that jobs need.
    pub(crate) fn sets(&self) -> Vec<&'static ParameterSet> {
        let keys = self.keys.locked();
        let set = |key: Resident<'_, GroupId, Key, Purpose>| match key.value {
            Key::Ready { set, .. } if key.rank == Purpose::Jobs => Some(*set),
            _ => None,
        };
        keys.iter().filter_map(set).collect()
    }

    fn step(self: &Arc<Self>, request: &KeyRequest, needed: u64, purpose: Purpose) -> Step {
        let mut keys = self.keys.locked();
        if let Some(Key::Loading(load)) = keys.get(&request.group) {
            match load.upgrade() {
                Some(sender) => return Step::Wait(sender.subscribe()),
                // The task panicked. This caller loads the key.
                None => drop(keys.remove(&request.group)),
            }
        }
        if let Some(lease) = self.lease(&mut keys, &request.group, purpose) {
            return Step::Done(lease);
        }
        // A companion never evicts keys that jobs need.
        let Ok(evicted) = keys.make_room(self.budget, needed, purpose) else {
            return Step::Full { companions_are_in_the_way: needed_by_jobs(&keys) <= self.budget - needed };
        };
        let sender = Arc::new(watch::Sender::new(Load::Queued));
        keys.insert(request.group.clone(), Key::Loading(Arc::downgrade(&sender)), needed, purpose);
        let place = keys.lease(&request.group, purpose).expect("inserted just now");
        drop(keys);
        for key in evicted {
            if let Key::Ready { slot, .. } = *key {
                self.device.evict_key(slot);
                self.changed.notify_one();
                if let Some(metrics) = &self.metrics {
                    metrics.key_evictions.add(1, []);
                }
            }
        }
        Step::Load(Loader { sender, place })
    }

    /// Leases a key that is ready. A companion that a job has needed counts as that job's key from
    /// then on.
    fn lease(
        self: &Arc<Self>,
        keys: &mut Residents<GroupId, Key, Purpose>,
        group: &GroupId,
        purpose: Purpose,
    ) -> Option<KeyLease> {
        let Some(Key::Ready { slot, .. }) = keys.get(group) else { return None };
        let slot = *slot;
        keys.lease(group, purpose).map(|key| KeyLease { slot, cache: self.clone(), _key: key })
    }

    async fn load(self: Arc<Self>, request: KeyRequest, purpose: Purpose, loader: Loader) {
        let Loader { sender, place } = loader;
        let turn = self.loads.acquire().await.expect("the semaphore is never closed");
        sender.send_replace(Load::Running);
        let began = Instant::now();
        let source = RemoteKey::new(&request);
        let device = self.device.clone();
        let loaded = tokio::task::spawn_blocking(move || device.load_key(&source)).await;
        let loaded = loaded.unwrap_or_else(|error| Err(DeviceError::Lost { message: error.to_string() }));
        drop(turn);
        if let Some(metrics) = self.metrics.as_ref().filter(|_| loaded.is_ok()) {
            metrics.key_load.record(began.elapsed().as_secs_f64(), []);
        }
        let result = self.keep(&request, purpose, loaded);
        sender.send_replace(Load::Ended(result));
        // `closed` returns when every caller of this load has its lease or is gone. Only then are
        // the calls that wait for room notified, so that they cannot evict the key before its first
        // use.
        sender.closed().await;
        drop(place);
    }

    /// Inserts a loaded key as resident, or removes the entry of a failed load.
    fn keep(
        &self,
        request: &KeyRequest,
        purpose: Purpose,
        loaded: Result<KeySlot, DeviceError>,
    ) -> Result<(), KeyFailure> {
        let mut keys = self.keys.locked();
        let slot = loaded.map_err(|error| {
            keys.remove(&request.group);
            failure(&error, &request.parts)
        })?;
        keys.insert(request.group.clone(), Key::Ready { slot, set: request.set }, slot.bytes, purpose);
        self.changed.notify_one();
        Ok(())
    }
}

/// Bytes of keys in use by jobs, and of keys being loaded.
fn needed_by_jobs(keys: &Residents<GroupId, Key, Purpose>) -> u64 {
    let is_needed = |key: &Resident<'_, GroupId, Key, Purpose>| match key.value {
        Key::Loading(_) => key.is_leased,
        Key::Ready { .. } => key.is_leased && key.rank == Purpose::Jobs,
    };
    keys.iter().filter(is_needed).map(|key| key.bytes).sum()
}

impl KeyLease {
    pub(crate) fn slot(&self) -> KeySlot {
        self.slot
    }

    /// Whether a key that jobs need waits for room which companions occupy. The lease on a
    /// companion should then be dropped.
    pub(crate) fn is_wanted_back(&self) -> bool {
        self.cache.is_key_waiting()
    }
}

/// Marks that a key which jobs need waits for room, as long as this guard lives.
struct WaitingKey<'c>(&'c AtomicUsize);

impl<'c> WaitingKey<'c> {
    fn new(count: &'c AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for WaitingKey<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

async fn outcome(load: &mut watch::Receiver<Load>, waits: impl Fn(bool)) -> Result<(), KeyFailure> {
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
    let failure = JobFailure::passing("DEVICE_FAILED", "loading the key did not end");
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

#[cfg(test)]
mod tests;
