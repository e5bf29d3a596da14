//! Cache of keys for vectors, by parts, so that programs under one key share their common parts.

use std::{
    collections::BTreeMap,
    fmt::Display,
    io::{ErrorKind, Read},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use cloakwork_ckks::{KeyPart, format::FormatError};
use cloakwork_device::{DeviceError, KeySlot, VectorUnit};
use cloakwork_params::{EnvelopeError, ckks::CkksSet};
use cloakwork_proto::v1;
use cloakwork_residency::{Full, Lease, Residents};
use cloakwork_vectors::{read_part, ring};
use tokio::{
    runtime::Handle,
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    task::JoinHandle,
};

use crate::{blob::BlobReader, failure::JobFailure, group::GroupId, locked::Locked as _};

/// Parts of keys by group. Parts in use stay resident. Of the unused parts, the least recently used
/// is evicted first.
pub(crate) struct VectorKeys {
    unit: Arc<dyn VectorUnit>,
    budget: u64,
    parts: Mutex<Residents<Name, Loaded>>,
    /// Notified when the set of resident parts has changed.
    changed: Arc<Notify>,
    /// Limits loading to one key at a time. Two loads that each hold some parts could otherwise
    /// wait for each other forever.
    turn: Arc<Semaphore>,
    /// Time since which a key has been waiting for room.
    waiting_since: Mutex<Option<Instant>>,
}

/// Name of a part: its group and the hash of its bytes.
type Name = (GroupId, Bytes);

/// A part on the unit, evicted on drop.
struct Loaded {
    set: &'static CkksSet,
    slot: KeySlot,
    unit: Arc<dyn VectorUnit>,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.unit.evict_part(self.slot);
    }
}

/// A key to load.
#[derive(Clone)]
pub(crate) struct VectorKeyRequest {
    pub(crate) group: GroupId,
    pub(crate) set: &'static CkksSet,
    pub(crate) parts: Vec<v1::Digest>,
    pub(crate) blobs: BlobReader,
}

/// A lease on parts, which stay resident while the lease lives.
pub(crate) struct VectorLease {
    parts: Vec<Lease<Loaded>>,
}

/// Upper bound of the ratio of a part's size in memory to its stored size. The masks double the
/// size, and residues of 45 bits take 64.
const EXPANSION_FACTOR: u64 = 3;

/// Polling interval of a load that waits for keys of other jobs to be released.
const ROOM_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Wait for room after which the waiting key has priority. Jobs with resident keys then queue
/// behind it. Otherwise a steady stream of such jobs would keep the key out.
const PRIORITY_AFTER_WAIT: Duration = Duration::from_secs(10);

impl VectorKeys {
    pub(super) fn new(unit: Arc<dyn VectorUnit>, budget: u64, changed: Arc<Notify>) -> Self {
        Self {
            unit,
            budget,
            parts: Mutex::default(),
            changed,
            turn: Arc::new(Semaphore::new(1)),
            waiting_since: Mutex::default(),
        }
    }

    /// Refuses a key of these parts early if it exceeds the memory for keys. With its masks, a key
    /// takes more than twice its stored size.
    pub(super) fn check(&self, parts: &[v1::Digest]) -> Result<(), JobFailure> {
        let stored: u64 = parts.iter().map(|part| part.size_bytes).fold(0, u64::saturating_add);
        let (needed, most) = (stored.saturating_mul(2), self.budget);
        match needed > most {
            true => Err(super::too_large(DeviceError::TooLarge { what: "its key", needed, most })),
            false => Ok(()),
        }
    }

    /// Leases the parts that a job needs, and returns whether all were already resident. Missing
    /// parts are loaded first. `progress` is called for each part that is resident. `waits` is
    /// called with true when this call begins to wait for other jobs' keys, and with false at the
    /// end of that wait.
    pub(crate) async fn get(
        &self,
        request: &VectorKeyRequest,
        progress: impl Fn(),
        waits: impl Fn(bool),
    ) -> Result<(VectorLease, bool), JobFailure> {
        if !self.is_overdue() {
            let (lease, missing) = self.lease_all(&request.group, &request.parts);
            if missing.is_empty() {
                return Ok((lease, true));
            }
        }
        waits(true);
        let turn = Arc::new(self.turn.clone().acquire_owned().await.expect("the semaphore is never closed"));
        waits(false);
        // Resident parts are leased first, because the prefetch of missing parts must not evict
        // them.
        let (mut lease, missing) = self.lease_all(&request.group, &request.parts);
        let was_resident = missing.is_empty();
        lease.parts.iter().for_each(|_| progress());
        let mut coming: Option<PartRead> = None;
        for (index, digest) in missing.iter().enumerate() {
            let part = match coming.take() {
                Some(part) => part,
                None => {
                    self.make_room(room_for(digest), &lease, &waits).await?;
                    read(request, digest, &turn)
                }
            };
            let part = ended(part).await?;
            // Prefetch: the next part is read while this part gets its masks.
            let next = missing.get(index + 1).filter(|next| self.may_come([digest, next], &lease));
            coming = next.map(|next| read(request, next, &turn));
            lease.parts.push(self.load(request, digest, part, &turn).await?);
            progress();
        }
        Ok((lease, was_resident))
    }

    /// Resident keys, each with the bytes of its resident parts.
    pub(crate) fn resident(&self) -> Vec<v1::ResidentKey> {
        let parts = self.parts.locked();
        let mut keys: BTreeMap<&GroupId, (&'static CkksSet, u64)> = BTreeMap::new();
        for part in parts.iter() {
            let (_, bytes) = keys.entry(&part.name.0).or_insert((part.value.set, 0));
            *bytes += part.bytes;
        }
        let describe = |(group, (set, bytes)): (&GroupId, (&'static CkksSet, u64))| v1::ResidentKey {
            key_id: group.key_id.0.to_vec().into(),
            parameter_set: set.name.to_owned(),
            bytes,
            group: group.group.clone(),
        };
        keys.into_iter().map(describe).collect()
    }

    /// Whether a key has waited too long for room.
    fn is_overdue(&self) -> bool {
        self.waiting_since.locked().is_some_and(|since| since.elapsed() >= PRIORITY_AFTER_WAIT)
    }

    /// Leases the resident parts, and lists the missing parts, each once.
    fn lease_all<'a>(&self, group: &GroupId, parts: &'a [v1::Digest]) -> (VectorLease, Vec<&'a v1::Digest>) {
        let mut lease = VectorLease { parts: Vec::with_capacity(parts.len()) };
        let mut missing = Vec::new();
        for digest in parts {
            let resident = self.parts.locked().lease(&name(group, digest), ());
            match resident {
                Some(resident) => lease.parts.push(resident),
                None if !missing.contains(&digest) => missing.push(digest),
                None => {}
            }
        }
        (lease, missing)
    }

    /// Whether the second of two missing parts may be prefetched. The first part has room but is
    /// not resident yet, so the room for both is checked. The prefetch never waits for room.
    fn may_come(&self, [first, second]: [&v1::Digest; 2], own: &VectorLease) -> bool {
        let wanted = room_for(first).saturating_add(room_for(second));
        matches!(self.try_room(wanted, own), Room::Made)
    }

    /// Hands a part to the unit, makes the part resident and leases it.
    async fn load(
        &self,
        request: &VectorKeyRequest,
        digest: &v1::Digest,
        part: KeyPart,
        turn: &Arc<OwnedSemaphorePermit>,
    ) -> Result<Lease<Loaded>, JobFailure> {
        let (set, unit, turn) = (request.set, self.unit.clone(), turn.clone());
        let load = move || {
            let _turn = turn;
            let slot = unit.load_part(set, part).map_err(load_failure)?;
            Ok(Loaded { set, slot, unit })
        };
        let loaded = ended(tokio::task::spawn_blocking(load)).await?;
        let (name, bytes) = (name(&request.group, digest), loaded.slot.bytes);
        let mut parts = self.parts.locked();
        parts.insert(name.clone(), loaded, bytes, ());
        let lease = parts.lease(&name, ()).expect("inserted just now");
        drop(parts);
        self.changed.notify_one();
        Ok(lease)
    }

    /// Makes room for `bytes` more bytes, if that is possible without waiting.
    fn try_room(&self, bytes: u64, own: &VectorLease) -> Room {
        // Parts often take less than their upper bound. A part whose bound exceeds the budget may
        // come if all else is evicted.
        let made = self.parts.locked().make_room(self.budget, bytes.min(self.budget), ());
        match made {
            Ok(gone) => {
                if !gone.is_empty() {
                    self.changed.notify_one();
                }
                // Parts are dropped here, without the lock: freeing that much memory takes long.
                Room::Made
            }
            Err(Full { staying_bytes }) => {
                let taken = own.parts.iter().map(|loaded| loaded.slot.bytes).sum();
                if staying_bytes <= taken { Room::Never { taken } } else { Room::Later }
            }
        }
    }

    /// Waits until there is room for `bytes` more bytes. Fails if only this job's own parts occupy
    /// the room.
    async fn make_room(&self, bytes: u64, own: &VectorLease, waits: &impl Fn(bool)) -> Result<(), JobFailure> {
        let mut is_waiting = false;
        // The guard resets the time on every exit, including a drop of this future.
        let since = ResetOnDrop(&self.waiting_since);
        let freed = self.parts.locked().freed().clone();
        loop {
            let freed = freed.notified();
            match self.try_room(bytes, own) {
                Room::Made => {
                    if is_waiting {
                        waits(false);
                    }
                    return Ok(());
                }
                Room::Never { taken } => {
                    let message = format!(
                        "the key takes {} bytes and more: of its memory for vectors, this worker has {} for keys",
                        taken.saturating_add(bytes),
                        self.budget
                    );
                    return Err(JobFailure::passing("WORKER_OUT_OF_MEMORY", message));
                }
                Room::Later => {
                    if !is_waiting {
                        is_waiting = true;
                        *since.0.locked() = Some(Instant::now());
                        waits(true);
                    }
                    let _ = tokio::time::timeout(ROOM_POLL_INTERVAL, freed).await;
                }
            }
        }
    }
}

/// A part that is being read.
type PartRead = JoinHandle<Result<KeyPart, JobFailure>>;

/// Reads a part without its masks. The permit lives until the read ends, even if the requesting job
/// is gone by that time. No other key loads meanwhile.
fn read(request: &VectorKeyRequest, digest: &v1::Digest, turn: &Arc<OwnedSemaphorePermit>) -> PartRead {
    let (set, key_id) = (request.set, request.group.key_id);
    let mut source = request.blobs.open(digest, &Handle::current());
    let (turn, wanted) = (turn.clone(), digest.clone());
    tokio::task::spawn_blocking(move || {
        let _turn = turn;
        read_part(&mut source, ring(set), key_id).map_err(|problem| part_failure(&wanted, &problem, source))
    })
}

async fn ended<T>(task: JoinHandle<Result<T, JobFailure>>) -> Result<T, JobFailure> {
    task.await.map_err(|error| JobFailure::passing("DEVICE_FAILED", error))?
}

/// Upper bound of the bytes that a part takes.
fn room_for(digest: &v1::Digest) -> u64 {
    digest.size_bytes.saturating_mul(EXPANSION_FACTOR)
}

/// Resets on drop the time since which a key waits for room.
struct ResetOnDrop<'a>(&'a Mutex<Option<Instant>>);

impl Drop for ResetOnDrop<'_> {
    fn drop(&mut self) {
        *self.0.locked() = None;
    }
}

/// Result of a request for room.
enum Room {
    /// The room is available.
    Made,
    /// The room becomes available when other jobs release their parts.
    Later,
    /// The room can never be available: the job's own parts take `taken` bytes.
    Never { taken: u64 },
}

impl VectorLease {
    /// The parts on the unit.
    pub(crate) fn slots(&self) -> Vec<KeySlot> {
        self.parts.iter().map(|loaded| loaded.slot).collect()
    }
}

fn name(group: &GroupId, digest: &v1::Digest) -> Name {
    // A copy, because the slice would keep the whole message in memory.
    (group.clone(), Bytes::copy_from_slice(&digest.blake3))
}

/// Classifies a part that cannot be decoded. The bytes were unavailable, or differ from their
/// digest. If the rest of the stream matches the digest, the part was already invalid when it was
/// uploaded.
fn part_failure(digest: &v1::Digest, problem: &FormatError, mut left: impl Read) -> JobFailure {
    match problem {
        FormatError::Envelope(EnvelopeError::Io { kind, .. }) if *kind != ErrorKind::InvalidData => {
            JobFailure::passing("BLOB_UNAVAILABLE", problem)
        }
        problem => match std::io::copy(&mut left, &mut std::io::sink()) {
            Ok(_) => uploaded_like_this(problem),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                JobFailure { bad_key_part: Some(digest.clone()), ..JobFailure::lasting("KEY_CORRUPT", problem) }
            }
            Err(error) => JobFailure::passing("BLOB_UNAVAILABLE", error),
        },
    }
}

fn load_failure(error: DeviceError) -> JobFailure {
    match error {
        DeviceError::WrongPart(problem) => uploaded_like_this(problem),
        DeviceError::OutOfMemory { .. } => JobFailure::passing("WORKER_OUT_OF_MEMORY", error),
        DeviceError::TooLarge { .. } => super::too_large(error),
        error => JobFailure::passing("DEVICE_FAILED", error),
    }
}

fn uploaded_like_this(problem: impl Display) -> JobFailure {
    JobFailure::lasting("ENVELOPE_INVALID", format!("a part of the key was uploaded in an invalid form: {problem}"))
}

#[cfg(test)]
mod tests {
    use cloakwork_ckks::{
        Basis, Gadget,
        key::{MaskSeed, SeededSwitchKey},
    };
    use cloakwork_params::{
        KeyId,
        ckks::{by_name, layout::Purpose},
    };

    use cloakwork_vectors::Processors;

    use super::*;

    const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

    /// Bytes of a part in these tests: two polynomials of 2^10 words modulo two primes.
    const PART_BYTES: u64 = 2 * 2 * (8 << 10);

    fn cache(parts: u64) -> Arc<VectorKeys> {
        Arc::new(VectorKeys::new(Arc::new(Processors::new(1, 0, 0)), parts * PART_BYTES, Arc::default()))
    }

    fn group(name: u8) -> GroupId {
        let set = by_name("TOY_CKKS_45_60_50").expect("a set");
        GroupId { group: Bytes::copy_from_slice(&[name]), key_id: KeyId([name; 16]), set: set.id, parts: [0; 32] }
    }

    /// Makes a part resident, and leases it.
    fn put(cache: &VectorKeys, group: u8, part: u8) -> Lease<Loaded> {
        let set = by_name("TOY_CKKS_45_60_50").expect("a set");
        let basis = Basis { level: 0, special: 1 };
        let (seed, bodies) = (MaskSeed { key: 1, block: 0, byte: 0 }, vec![ring(set).zero(basis)]);
        let key = SeededSwitchKey { basis, gadget: Gadget::Whole, seed, bodies };
        let key = KeyPart { purpose: Purpose::ToSparse, key };
        let name = (self::group(group), Bytes::copy_from_slice(&[part]));
        let slot = cache.unit.load_part(set, key).expect("a part");
        assert_eq!(slot.bytes, PART_BYTES);
        let loaded = Loaded { set, slot, unit: cache.unit.clone() };
        let mut parts = cache.parts.locked();
        parts.insert(name.clone(), loaded, PART_BYTES, ());
        parts.lease(&name, ()).expect("inserted just now")
    }

    fn lease(parts: Vec<Lease<Loaded>>) -> VectorLease {
        VectorLease { parts }
    }

    /// A task that waits for room. Its output says whether it got the room.
    async fn waiter(cache: &Arc<VectorKeys>) -> tokio::task::JoinHandle<bool> {
        let waiter = cache.clone();
        let waiting = tokio::spawn(async move {
            let own = lease(Vec::new());
            waiter.make_room(PART_BYTES, &own, &|_| ()).await.is_ok()
        });
        while cache.waiting_since.locked().is_none() {
            tokio::task::yield_now().await;
        }
        waiting
    }

    fn names(cache: &VectorKeys) -> Vec<u8> {
        let mut names: Vec<u8> = cache.parts.locked().iter().map(|part| part.name.1[0]).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn a_key_that_exceeds_the_memory_with_its_masks_is_refused_early() {
        let cache = cache(2);
        let parts = |bytes: u64| {
            [
                v1::Digest { size_bytes: bytes / 2, ..Default::default() },
                v1::Digest { size_bytes: bytes - bytes / 2, ..Default::default() },
            ]
        };
        assert!(cache.check(&parts(PART_BYTES)).is_ok(), "twice its stored size is the whole memory");
        let refused = cache.check(&parts(PART_BYTES + 1)).expect_err("more than the whole memory");
        assert_eq!((refused.reason, refused.retryable), ("WORKER_OUT_OF_MEMORY", true));
        assert!(refused.message.contains("its key") && refused.message.contains("memory for vectors"), "{refused:?}");
    }

    #[tokio::test]
    async fn resident_parts_of_a_job_stay_while_missing_parts_are_loaded() {
        let cache = cache(3);
        let digest = |part: u8| v1::Digest { blake3: Bytes::copy_from_slice(&[part]), size_bytes: PART_BYTES / 3 };
        drop(lease(vec![put(&cache, 1, 1)]));
        drop(lease(vec![put(&cache, 2, 2)]));
        let parts = [3, 1, 3, 1].map(digest);
        let (own, missing) = cache.lease_all(&group(1), &parts);
        assert_eq!(missing, [&digest(3)]);
        assert!(cache.may_come([&digest(3), &digest(4)], &own), "the unused part of the other key is evicted");
        assert_eq!(names(&cache), [1], "its own part is in use and stays");
        drop(own);
        let (own, missing) = cache.lease_all(&group(2), &parts);
        assert!(own.parts.is_empty() && missing.len() == 2, "parts of another key");
    }

    #[tokio::test]
    async fn the_least_recently_used_parts_are_evicted_and_parts_in_use_stay() {
        let cache = cache(3);
        let first = lease(vec![put(&cache, 1, 1)]);
        drop(lease(vec![put(&cache, 1, 2)]));
        drop(lease(vec![put(&cache, 2, 3)]));
        let own = lease(Vec::new());
        cache.make_room(PART_BYTES, &own, &|_| ()).await.expect("room");
        assert_eq!(names(&cache), [1, 3], "2 is unused for longer than 3, and 1 is in use");
        cache.make_room(2 * PART_BYTES, &own, &|_| ()).await.expect("room");
        assert_eq!(names(&cache), [1]);
        let resident = cache.resident();
        assert!(resident.len() == 1 && resident[0].bytes == PART_BYTES, "{resident:?}");
        drop(first);
    }

    #[tokio::test]
    async fn a_waiter_gets_room_from_others_and_is_refused_if_only_its_own_parts_remain() {
        let cache = cache(2);
        let others = lease(vec![put(&cache, 1, 1), put(&cache, 1, 2)]);
        let waiting = waiter(&cache).await;
        assert!(!cache.is_overdue(), "the waiter has only begun to wait");
        drop(others);
        let made = tokio::time::timeout(WAIT_TIMEOUT, waiting).await.expect("in time").expect("no panic");
        assert!(made && cache.waiting_since.locked().is_none());

        let own = lease(vec![put(&cache, 2, 3), put(&cache, 2, 4)]);
        let refused = cache.make_room(PART_BYTES, &own, &|_| ()).await.expect_err("no other job holds parts");
        assert!(refused.reason == "WORKER_OUT_OF_MEMORY" && refused.retryable, "{refused:?}");
    }

    /// A reader that ends as the test says.
    struct End(Option<ErrorKind>);

    impl Read for End {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            self.0.map_or(Ok(0), |kind| Err(kind.into()))
        }
    }

    #[test]
    fn only_bytes_that_differ_from_their_digest_count_as_corrupt() {
        let digest = v1::Digest::default();
        let failure = |end| part_failure(&digest, &FormatError::WrongBasis, End(end));
        for (end, reason, is_damaged, retryable) in [
            (None, "ENVELOPE_INVALID", false, false),
            (Some(ErrorKind::InvalidData), "KEY_CORRUPT", true, false),
            (Some(ErrorKind::Other), "BLOB_UNAVAILABLE", false, true),
        ] {
            let failure = failure(end);
            assert_eq!(
                (failure.reason, failure.bad_key_part.is_some(), failure.retryable),
                (reason, is_damaged, retryable)
            );
        }
    }

    #[tokio::test]
    async fn an_aborted_waiter_no_longer_has_priority() {
        let cache = cache(1);
        let _others = lease(vec![put(&cache, 1, 1)]);
        let waiting = waiter(&cache).await;
        *cache.waiting_since.locked() = Instant::now().checked_sub(PRIORITY_AFTER_WAIT);
        assert!(cache.is_overdue(), "jobs with resident keys now wait behind the waiter");
        waiting.abort();
        assert!(waiting.await.is_err());
        assert!(cache.waiting_since.locked().is_none() && !cache.is_overdue());
    }
}
