//! Faults of a GPU. A fault in any call is reported by all later calls, and memory that the GPU may
//! still use is kept.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cloakwork_cuda::{
    CudaDevice,
    gpu::{Buffer, Driver, DriverError, Staging, Stream},
};
use cloakwork_device::{Device as _, DeviceError, HostLut, Term, Ticket, Wave, WorkStats};
use cloakwork_tests_cuda::emulator::Emulated;
use cloakwork_tests_device::host::{Bench, Keys};
use cloakwork_tfhe::Lut;

const SET: &str = "TOY_MESSAGE_2_CARRY_2";

fn device(gpus: usize) -> (Vec<Arc<Emulated>>, CudaDevice) {
    let gpus: Vec<_> = (0..gpus).map(|_| Arc::new(Emulated::new(512 << 20))).collect();
    let device = CudaDevice::new(gpus.iter().map(|gpu| gpu.clone() as _).collect()).expect("memory");
    (gpus, device)
}

fn fault() -> DriverError {
    DriverError::Lost("it fell off the bus".to_owned())
}

/// A device with a key, a table, and ciphertexts in slots 0, 1 and 2.
struct Site<'d> {
    bench: Bench<'d>,
    keys: Keys,
    table: cloakwork_device::LutSlot,
}

impl<'d> Site<'d> {
    fn new(device: &'d CudaDevice) -> Self {
        let mut keys = Keys::generate::<u64, u64>(SET, 1);
        let bench = Bench::new(device, &keys, 100);
        let table = bench.lut(&Lut::from_fn(keys.set, |x| 15 - x).expect("a table"));
        bench.write(0, &keys.encrypt::<u64>(&[1, 2, 3]));
        Self { bench, keys, table }
    }

    fn submit(&self) -> Result<Ticket, DeviceError> {
        let mut wave = Wave::default();
        let table = wave.table(self.table);
        (0..3).for_each(|slot| wave.push([Term { slot, factor: 1 }], 0, table, &[slot + 3]));
        self.bench.device.submit(self.bench.key, self.bench.arena, wave)
    }

    fn compute(&self) -> Result<WorkStats, DeviceError> {
        self.bench.device.wait(self.submit()?, Instant::now() + Duration::from_secs(60))
    }
}

fn is_lost<R: std::fmt::Debug>(result: Result<R, DeviceError>, why: &str) {
    assert!(matches!(&result, Err(DeviceError::Lost { message }) if message.contains(why)), "{result:?}");
}

#[test]
fn a_gpu_loss_in_any_call_makes_the_device_lost() {
    type Attempt = fn(&mut Site<'_>) -> Result<(), DeviceError>;
    let key: Attempt = |site| site.bench.device.load_key(&site.keys).map(|_| ());
    let table: Attempt = |site| {
        let lut = Lut::from_fn(site.keys.set, |x| x).expect("a table");
        site.bench.device.load_lut(site.keys.set, HostLut::U64(&lut)).map(|_| ())
    };
    let arena: Attempt = |site| site.bench.device.create_arena(site.keys.set, 1 << 20).map(|_| ());
    let write: Attempt = |site| {
        let list = site.keys.encrypt::<u64>(&[1]);
        site.bench.device.write(site.bench.arena, &[90], cloakwork_device::Words::U64(list.words()))
    };
    let read: Attempt = |site| {
        let mut words = vec![0; site.keys.set.input_dimension() + 1];
        site.bench.device.read(site.bench.arena, &[0], cloakwork_device::WordsMut::U64(&mut words))
    };
    let wave: Attempt = |site| site.compute().map(|_| ());
    let cases: [(&'static str, Attempt); 14] = [
        ("allocate", key),
        ("upload", key),
        ("launch", key),
        ("mark", key),
        ("wait", key),
        ("upload", table),
        ("reserve", arena),
        ("back", write),
        ("upload", write),
        ("download", read),
        ("send", wave),
        ("mark", wave),
        ("wait", wave),
        ("between", wave),
    ];
    for (call, attempt) in cases {
        let (gpus, device) = device(2);
        let mut site = Site::new(&device);
        // Both GPUs fail, because an arena lies on either. Slots beyond the first mapped range have
        // no memory yet.
        gpus.iter().for_each(|gpu| gpu.fail(call, fault()));
        is_lost(attempt(&mut site), "off the bus");
        let why = device.lost().unwrap_or_else(|| panic!("{call}: the device does not report the loss"));
        assert!(why.contains("emulated GPU: it fell off the bus"), "{call}: {why}");
        // The GPU gets no further calls, although it would answer.
        for again in [key, table, arena, write, read, wave] {
            is_lost(again(&mut site), "off the bus");
        }
        assert!(!device.describe().name.is_empty(), "a lost device still describes itself");
    }
}

#[test]
fn a_hung_gpu_is_lost_and_memory_it_may_still_use_is_kept() {
    let (gpus, device) = device(2);
    let site = Site::new(&device);
    let before: Vec<_> = gpus.iter().map(|gpu| gpu.used()).collect();
    gpus[0].hang();
    is_lost(device.load_key(&site.keys), "did not end");
    assert!(device.lost().is_some());
    let during: Vec<_> = gpus.iter().map(|gpu| gpu.used()).collect();
    let key_bytes = device.key_bytes(site.keys.set);
    // The other GPU may be using the first GPU's memory.
    for (before, during) in before.iter().zip(&during) {
        assert!(*during > before + key_bytes, "a key's place, and the room for its parts: {before} {during}");
    }
    device.evict_key(site.bench.key);
    device.evict_lut(site.table);
    device.drop_arena(site.bench.arena);
    drop(device);
    for (gpu, during) in gpus.iter().zip(during) {
        assert_eq!(gpu.used(), during, "a lost GPU frees no memory");
        assert!(gpu.pinned() > 0);
    }
}

#[test]
fn a_hung_wave_makes_the_device_lost() {
    let (gpus, device) = device(1);
    let site = Site::new(&device);
    let used = gpus[0].used();
    gpus[0].hang();
    is_lost(site.compute(), "did not end");
    assert!(device.lost().is_some());
    device.drop_arena(site.bench.arena);
    assert_eq!(gpus[0].used(), used);
}

#[test]
fn a_partly_launched_part_is_waited_for_and_releases_its_slots() {
    let (gpus, device) = device(1);
    let site = Site::new(&device);
    let short = DriverError::OutOfMemory { needed: 2, available: 1 };
    gpus[0].fail("launch", short);
    let refused = site.compute();
    assert!(matches!(refused, Err(DeviceError::OutOfMemory { .. })), "{refused:?}");
    assert_eq!(gpus[0].pending(), 0, "its numbers were on their way");
    // Misfitting arguments are an error of this crate and do not make the GPU lost.
    gpus[0].fail("launch", DriverError::Misfit("as the test asked"));
    let refused = site.compute();
    assert!(matches!(refused, Err(DeviceError::Misfit { what: "as the test asked" })), "{refused:?}");
    assert_eq!(device.lost(), None);
    site.compute().expect("everything is there");
    assert_eq!(site.keys.decrypt(&site.bench.read::<u64>(&[3, 4, 5])), [14, 13, 12]);
}

#[test]
fn memory_of_a_copy_whose_end_is_unknown_is_not_refilled() {
    let gpu = Arc::new(Emulated::new(1 << 20));
    let driver: Arc<dyn Driver> = gpu.clone();
    let room = Buffer::new(&driver, 64).expect("room");
    let mut staging = Staging::new(&driver, Stream::Waves, 64).expect("memory");
    gpu.fail("mark", fault());
    staging.send(&[1; 64], room.all().expect("bytes")).expect_err("no mark");
    staging.send(&[2; 64], room.all().expect("bytes")).expect_err("the first copy may be under way");
    drop(staging);
    assert!(gpu.pinned() > 0, "a copy whose end is unknown keeps its memory");
}
