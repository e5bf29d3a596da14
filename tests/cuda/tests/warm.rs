//! Reloaded keys: the device prepares them from the host's memory without reading the source, with
//! identical bits.

use std::{
    io::{self, Read},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use cloakwork_cuda::CudaDevice;
use cloakwork_device::{Device as _, DeviceError, KeySlot, KeySource, Term, Wave};
use cloakwork_params::{KeyId, ParameterSet};
use cloakwork_tests_cuda::emulator::Emulated;
use cloakwork_tests_device::host::{Bench, Keys};
use cloakwork_tfhe::{Lut, LweList};

/// Keys of one set, and the number of reads of their parts.
struct Counted {
    keys: Keys,
    contents: Option<Vec<u8>>,
    reads: AtomicUsize,
}

impl Counted {
    fn new(name: &str, seed: u8) -> Self {
        let keys = match name {
            "TOY_MESSAGE_2_CARRY_2_KS32" => Keys::generate::<u64, u32>(name, seed.into()),
            _ => Keys::generate::<u64, u64>(name, seed.into()),
        };
        Self { keys, contents: Some(vec![seed]), reads: AtomicUsize::new(0) }
    }

    /// Loads and evicts the key, and returns whether its source was read.
    fn is_read(&self, device: &CudaDevice) -> bool {
        let before = self.reads.load(Ordering::SeqCst);
        device.evict_key(self.load(device));
        self.reads.load(Ordering::SeqCst) > before
    }

    fn load(&self, device: &CudaDevice) -> KeySlot {
        device.load_key(self).expect("a key that fits")
    }

    /// Bytes of the bodies, plus a few bytes of their envelopes.
    fn bytes(&self) -> usize {
        self.keys.parts.iter().map(Vec::len).sum()
    }
}

impl KeySource for Counted {
    fn set(&self) -> &'static ParameterSet {
        self.keys.set
    }

    fn key_id(&self) -> KeyId {
        self.keys.key_id()
    }

    fn contents(&self) -> Option<Vec<u8>> {
        self.contents.clone()
    }

    fn parts(&self) -> usize {
        self.keys.parts()
    }

    fn open(&self, part: usize) -> io::Result<Box<dyn Read + '_>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.keys.open(part)
    }
}

const TOY: &str = "TOY_MESSAGE_2_CARRY_2";

fn device(gpus: usize, limit_bytes: usize) -> (Vec<Arc<Emulated>>, CudaDevice) {
    let gpus: Vec<_> = (0..gpus).map(|_| Arc::new(Emulated::new(512 << 20))).collect();
    let device = CudaDevice::new(gpus.iter().map(|gpu| gpu.clone() as _).collect()).expect("memory");
    (gpus, device.with_warm_keys(limit_bytes as u64, Duration::from_secs(3600)).expect("a thread"))
}

/// Results of bootstraps of some ciphertexts under a loaded key, for comparison bit by bit.
fn results(device: &CudaDevice, key: KeySlot, set: &'static ParameterSet, inputs: &LweList<u64>) -> LweList<u64> {
    let arena = device.create_arena(set, 1 << 20).expect("an arena");
    let bench = Bench { device, key, arena, set };
    bench.write(0, inputs);
    let (count, lut) = (inputs.len() as u32, bench.lut(&Lut::from_fn(set, |x| 15 - x).expect("a table")));
    let mut wave = Wave::default();
    let table = wave.table(lut);
    (0..count).for_each(|slot| wave.push([Term { slot, factor: 1 }], 0, table, &[count + slot]));
    bench.run(wave).expect("work that can be done");
    let results = bench.read(&(count..2 * count).collect::<Vec<_>>());
    device.evict_lut(lut);
    device.drop_arena(arena);
    results
}

#[test]
fn a_reloaded_key_is_not_read_again_and_is_identical() {
    for name in [TOY, "TOY_MESSAGE_2_CARRY_2_KS32", "TOY_MULTI_BIT_GROUP_3_MESSAGE_2_CARRY_2"] {
        // All GPUs share a wave, so each has the key again.
        let (gpus, device) = device(2, 64 << 20);
        let mut counted = Counted::new(name, 1);
        let inputs = counted.keys.encrypt::<u64>(&[1, 2, 3, 5, 8, 13, 0, 7, 15, 4]);
        let first = counted.load(&device);
        let expected = results(&device, first, counted.keys.set, &inputs);
        device.evict_key(first);
        assert_eq!(counted.reads.load(Ordering::SeqCst), 2, "{name}: two parts");
        let used: Vec<_> = gpus.iter().map(|gpu| gpu.used()).collect();
        let again = counted.load(&device);
        assert_eq!(counted.reads.load(Ordering::SeqCst), 2, "{name}: neither is read again");
        assert!(results(&device, again, counted.keys.set, &inputs) == expected, "{name}: other bits");
        assert_eq!(counted.keys.decrypt(&expected), [14, 13, 12, 10, 7, 2, 15, 8, 0, 11], "{name}");
        device.evict_key(again);
        assert_eq!(gpus.iter().map(|gpu| gpu.used()).collect::<Vec<_>>(), used, "{name}: it lies on no GPU");
    }
}

#[test]
fn all_gpus_share_one_copy_which_is_freed_with_the_device() {
    let (gpus, device) = device(2, 64 << 20);
    let before: Vec<_> = gpus.iter().map(|gpu| gpu.pinned()).collect();
    let counted = Counted::new(TOY, 1);
    counted.is_read(&device);
    let taken: Vec<_> = gpus.iter().zip(before).map(|(gpu, before)| gpu.pinned() - before).collect();
    assert!(taken[1] == 0 && taken[0] > counted.bytes() * 9 / 10 && taken[0] <= counted.bytes(), "{taken:?}");
    assert!(taken[0] as u64 <= device.key_bytes(counted.keys.set) / 2, "half of the key or less");
    drop(device);
    assert!(gpus.iter().all(|gpu| gpu.pinned() == 0));
}

#[test]
fn least_recently_used_copies_are_removed_and_an_eviction_counts_as_use() {
    let all: Vec<_> = (1..4).map(|seed| Counted::new(TOY, seed)).collect();
    let limit = 2 * all[0].bytes();
    let (gpus, device) = device(1, limit);
    let before = gpus[0].pinned();
    assert!(all.iter().all(|key| key.is_read(&device)));
    assert!(!all[1].is_read(&device) && !all[2].is_read(&device), "the last two are here");
    assert!(all[0].is_read(&device), "the first one was not");
    assert!(!all[2].is_read(&device) && all[1].is_read(&device), "and took the second one's place");
    // Copies of the third and the second key exist. The third key is still on the GPU when the
    // first is loaded.
    let third = all[2].load(&device);
    assert!(!all[1].is_read(&device));
    device.evict_key(third);
    assert!(all[0].is_read(&device) && !all[2].is_read(&device), "it was evicted after the second");
    assert!(gpus[0].pinned() - before <= limit);
}

#[test]
fn a_key_that_is_too_large_or_unnamed_or_corrupt_is_not_kept() {
    let mut counted = Counted::new(TOY, 1);
    for limit in [0, counted.bytes() / 2] {
        let (gpus, device) = device(1, limit);
        let before = gpus[0].pinned();
        assert!(counted.is_read(&device) && counted.is_read(&device));
        assert_eq!(gpus[0].pinned(), before);
    }
    let (gpus, device) = device(1, 64 << 20);
    let before = gpus[0].pinned();
    counted.contents = None;
    assert!(counted.is_read(&device) && counted.is_read(&device));
    counted.contents = Some(vec![1]);
    counted.keys.parts[1][5000] ^= 1;
    let refused = device.load_key(&counted);
    assert!(matches!(refused, Err(DeviceError::BadKeyPart { part: 1, .. })), "{refused:?}");
    assert_eq!(gpus[0].pinned(), before);
}

#[test]
fn other_contents_of_the_same_key_id_are_another_key() {
    let (_, device) = device(1, 64 << 20);
    let mut counted = Counted::new(TOY, 1);
    assert!(counted.is_read(&device));
    // For example, another tenant's key may have the same key id.
    counted.contents = Some(vec![2]);
    assert!(counted.is_read(&device));
    assert!(!counted.is_read(&device));
}

#[test]
fn keys_load_without_a_copy_when_no_memory_can_be_pinned() {
    let (gpus, device) = device(1, 64 << 20);
    let counted = Counted::new(TOY, 1);
    gpus[0].fail("pin", cloakwork_cuda::gpu::DriverError::OutOfMemory { needed: 1, available: 0 });
    assert!(counted.is_read(&device) && counted.is_read(&device));
    assert_eq!(device.lost(), None);
    assert!(!counted.is_read(&device));
}

#[test]
fn unused_copies_expire_but_not_while_their_key_is_on_the_gpu() {
    const KEPT_FOR: Duration = Duration::from_millis(200);
    let gpu = Arc::new(Emulated::new(512 << 20));
    let device = CudaDevice::new(vec![gpu.clone()]).expect("memory");
    let device = device.with_warm_keys(64 << 20, KEPT_FOR).expect("a thread");
    let before = gpu.pinned();
    let [one, other] = [1, 2].map(|seed| Counted::new(TOY, seed));
    let on_gpu = one.load(&device);
    assert!(other.is_read(&device));
    let began = Instant::now();
    // The copy of the evicted key expires.
    while gpu.pinned() - before > one.bytes() {
        assert!(began.elapsed() < Duration::from_secs(60), "the copy is never removed");
        std::thread::yield_now();
    }
    std::thread::sleep(2 * KEPT_FOR);
    assert!(gpu.pinned() > before, "it may have to make room any time");
    device.evict_key(on_gpu);
    while gpu.pinned() > before {
        assert!(began.elapsed() < Duration::from_secs(60), "the copy is never removed");
        std::thread::yield_now();
    }
    assert!(one.is_read(&device) && other.is_read(&device));
}
