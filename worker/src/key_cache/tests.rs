//! Eviction of keys. On the device of these tests, a key takes one byte.

use std::{pin::pin, time::Duration};

use bytes::Bytes;
use cloakwork_params::{
    KeyId,
    table::{by_name, companion_of},
};
use tonic::transport::Endpoint;

use super::*;
use crate::{
    connection::{Uplink, client},
    test_device::TestDevice,
};

const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

fn cache(budget: u64) -> (Arc<TestDevice>, Arc<KeyCache>) {
    let device = Arc::new(TestDevice::new(1));
    (device.clone(), Arc::new(KeyCache::new(device, budget, Arc::default(), None)))
}

fn set() -> &'static ParameterSet {
    by_name("TOY_MESSAGE_2_CARRY_2_N2048").expect("a set")
}

fn request(key: u8, set: &'static ParameterSet) -> KeyRequest {
    let channel = Endpoint::from_static("http://127.0.0.1:1").connect_lazy();
    let blobs = BlobReader {
        client: client(Uplink::new(channel), None).expect("a client"),
        worker_id: Bytes::new(),
        lease: v1::Lease::default(),
        store: None,
        trace: None,
    };
    let group = GroupId { group: Bytes::new(), key_id: KeyId([key; 16]), set: set.id, parts: [0; 32] };
    KeyRequest { group, set, parts: Vec::new(), blobs }
}

async fn key(cache: &Arc<KeyCache>, key: u8) -> KeyLease {
    cache.get(&request(key, set()), |_| ()).await.expect("a key").0
}

async fn companion(cache: &Arc<KeyCache>, key: u8) -> Option<KeyLease> {
    let companion = companion_of(set()).expect("a companion").set;
    let lease = cache.companion(&request(key, companion), |_| ()).await.expect("no failure");
    lease.map(|(lease, _)| lease)
}

/// Polls the future once. Returns whether the future is still pending.
async fn begins(load: &mut (impl Future<Output = KeyLease> + Unpin)) -> bool {
    tokio::select! {
        biased;
        _ = load => false,
        () = std::future::ready(()) => true,
    }
}

/// Numbers of the resident keys and companions.
fn resident(cache: &KeyCache) -> [Vec<u8>; 2] {
    let mut resident = [Vec::new(), Vec::new()];
    for key in cache.resident() {
        resident[usize::from(key.parameter_set != set().name)].push(key.key_id[0]);
    }
    resident.iter_mut().for_each(|keys| keys.sort_unstable());
    resident
}

#[tokio::test]
async fn companions_take_free_room_only_and_are_evicted_first() {
    let (_, cache) = cache(3);
    drop(key(&cache, 1).await);
    drop(companion(&cache, 1).await.expect("there is room"));
    drop(key(&cache, 2).await);
    assert_eq!(cache.sets(), [set(); 2], "the sets of the keys that jobs need");
    drop(companion(&cache, 1).await.expect("it is there"));
    drop(key(&cache, 3).await);
    assert_eq!(resident(&cache), [vec![1, 2, 3], vec![]], "although used last, the companion is evicted first");
    assert!(companion(&cache, 3).await.is_none(), "unused keys stay");
    drop(key(&cache, 4).await);
    assert_eq!(resident(&cache), [vec![2, 3, 4], vec![]]);
}

#[tokio::test]
async fn an_unused_companion_is_evicted_for_another_companion() {
    let (_, cache) = cache(3);
    let _keys = [key(&cache, 1).await, key(&cache, 2).await];
    let used = companion(&cache, 1).await.expect("there is room");
    assert!(companion(&cache, 2).await.is_none(), "the other one is in use");
    drop(used);
    let _used = companion(&cache, 2).await.expect("there is room");
    assert_eq!(resident(&cache), [vec![1, 2], vec![2]]);
}

#[tokio::test]
async fn no_companion_is_leased_while_a_key_waits_for_room() {
    let (_, cache) = cache(2);
    let _one = key(&cache, 1).await;
    let used = companion(&cache, 1).await.expect("there is room");
    {
        let mut two = pin!(key(&cache, 2));
        assert!(tokio::time::timeout(Duration::from_millis(50), &mut two).await.is_err(), "it waits");
        assert!(companion(&cache, 1).await.is_none() && used.is_wanted_back(), "the resident companion is wanted back");
        drop(used);
        tokio::time::timeout(WAIT_TIMEOUT, two).await.expect("room");
    }
    assert_eq!(resident(&cache), [vec![1, 2], vec![]]);
    // A job that is cancelled stops waiting.
    let (_, cache) = self::cache(2);
    let _keys = [key(&cache, 1).await, key(&cache, 2).await];
    assert!(tokio::time::timeout(Duration::from_millis(50), key(&cache, 3)).await.is_err());
    assert!(!cache.is_key_waiting());
}

#[tokio::test]
async fn a_loaded_key_is_not_evicted_before_its_job_has_leased_it() {
    let (_, cache) = cache(1);
    let (mut one, mut two) = (pin!(key(&cache, 1)), pin!(key(&cache, 2)));
    assert!(begins(&mut one).await, "it is being loaded");
    let lease = tokio::select! {
        biased;
        _ = &mut two => panic!("there is room for one"),
        lease = &mut one => lease,
    };
    assert!(!cache.is_key_waiting(), "no companion is in the way");
    drop(lease);
    tokio::time::timeout(WAIT_TIMEOUT, two).await.expect("room");
    // A key is evictable if its job is gone before the load ends.
    let (_, cache) = self::cache(1);
    assert!(begins(&mut pin!(key(&cache, 1))).await);
    tokio::time::timeout(WAIT_TIMEOUT, key(&cache, 2)).await.expect("room");
}

#[tokio::test]
async fn a_key_that_fails_to_load_leaves_its_room_and_no_task() {
    let (device, cache) = cache(1);
    device.refuse_keys();
    let (failing, waiting) = (request(1, set()), request(2, set()));
    let mut failing = pin!(cache.get(&failing, |_| ()));
    let began = tokio::select! { biased; _ = &mut failing => false, () = std::future::ready(()) => true };
    assert!(began, "the first key is being loaded, and takes all room");
    let both = async { tokio::join!(failing, cache.get(&waiting, |_| ())) };
    let (one, two) = tokio::time::timeout(WAIT_TIMEOUT, both).await.expect("the second key gets its turn");
    assert!(one.is_err() && two.is_err(), "the device refuses both");
    let ended = async {
        while Arc::strong_count(&cache) > 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, ended).await.expect("no task is left");
}

#[tokio::test]
async fn a_load_that_ends_without_a_result_is_begun_again() {
    let (_, cache) = cache(1);
    let request = request(1, set());
    let Step::Load(loader) = cache.step(&request, 1, Purpose::Jobs) else { panic!("no other load runs") };
    assert!(matches!(cache.step(&request, 1, Purpose::Jobs), Step::Wait(_)));
    drop(loader);
    tokio::time::timeout(WAIT_TIMEOUT, key(&cache, 1)).await.expect("a load of its own");
}

#[tokio::test]
async fn jobs_go_on_without_a_companion_that_fails_to_load() {
    let (device, cache) = cache(3);
    let _key = key(&cache, 1).await;
    device.refuse_keys();
    assert!(companion(&cache, 1).await.is_none());
    let pauses = cache.companion_retry_after.locked().clone();
    assert!(
        pauses.len() == 1 && pauses.values().all(|until| *until > Instant::now()),
        "the next jobs do not try it again"
    );
    assert!(companion(&cache, 1).await.is_none());
    assert_eq!(*cache.companion_retry_after.locked(), pauses);
}

#[tokio::test]
async fn a_companion_that_a_job_has_needed_is_evicted_like_any_key() {
    let (_, cache) = cache(2);
    drop(key(&cache, 1).await);
    drop(companion(&cache, 1).await.expect("there is room"));
    let set = companion_of(self::set()).expect("a companion").set;
    let (lease, was_resident) = cache.get(&request(1, set), |_| ()).await.expect("a key");
    assert!(was_resident);
    drop(lease);
    drop(key(&cache, 2).await);
    assert_eq!(resident(&cache), [vec![2], vec![1]], "the other one was unused for longer");
}

#[test]
fn corrupt_key_bytes_are_reported_with_their_part() {
    let digest = v1::Digest { size_bytes: 7, ..Default::default() };
    let problem =
        cloakwork_tfhe::format::FormatError::Envelope(cloakwork_params::EnvelopeError::WrongMagic { got: [0; 8] });
    let failure =
        failure(&DeviceError::BadKeyPart { part: 1, problem }, &[v1::Digest::default(), digest.clone()]).failure;
    assert_eq!((failure.reason, failure.bad_key_part), ("KEY_CORRUPT", Some(digest)));
}
