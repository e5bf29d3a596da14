//! The CUDA device on an emulated GPU: the conformance suite of all devices, and memory, parts and
//! copies.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cloakwork_cuda::{
    CudaDevice,
    gpu::{Buffer, Description, Driver, Staging, Stream, View},
};
use cloakwork_device::{Device as _, DeviceError, Term, Wave};
use cloakwork_tests_cuda::emulator::{self, Emulated};
use cloakwork_tests_device::{
    conformance,
    host::{Bench, Keys},
};
use cloakwork_tfhe::Lut;

/// Memory of the emulated GPU, in KiB: more than any test takes.
const MEMORY_KIB: u64 = 512 << 10;
/// Upper bound of waits that should be short.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// A device on a GPU with `kibibytes` KiB.
fn device(kibibytes: u64) -> (Arc<Emulated>, CudaDevice) {
    let gpu = Arc::new(Emulated::new(kibibytes << 10));
    let device = CudaDevice::new(vec![gpu.clone()]).expect("memory for the workspace");
    (gpu, device)
}

#[test]
fn toy_sets_pass_the_conformance_suite() {
    conformance::on_toys(&device(MEMORY_KIB).1);
}

#[test]
fn toy_sets_of_other_shapes_pass_the_conformance_suite() {
    let (_, device) = device(MEMORY_KIB);
    for name in ["TOY_MULTI_BIT_GROUP_2_MESSAGE_2_CARRY_2", "TOY_MULTI_BIT_GROUP_4_MESSAGE_2_CARRY_2"] {
        conformance::shortint::<u64>(&device, name, 1, 20);
    }
    // Few and many ciphertexts, which different kernels rotate.
    for count in [6, 21] {
        conformance::shortint::<u64>(&device, "TOY_MESSAGE_2_CARRY_2_N2048", 1, count);
    }
    conformance::boolean(&device, "TOY_BOOLEAN_KS_PBS_N1024", 1, 14);
}

/// Number of launches on one of a device's GPUs that prepare a key.
fn launches_of_key(gpu: &Emulated, device: &CudaDevice, keys: &Keys) -> u64 {
    let before = gpu.launches();
    device.evict_key(device.load_key(keys).expect("a key"));
    gpu.launches() - before
}

/// Runs a wave of bootstraps of a set for two bits a ciphertext, and checks the decrypted results.
fn two_bits(device: &CudaDevice, name: &str, lanes: u32) {
    let mut keys = Keys::generate::<u64, u64>(name, 1);
    let bench = Bench::new(device, &keys, 4 * u64::from(lanes));
    let messages: Vec<u64> = (0..u64::from(lanes)).map(|lane| lane % 4).collect();
    bench.write(0, &keys.encrypt::<u64>(&messages));
    let lut = bench.lut(&Lut::from_fn(keys.set, |x| (3 * x + 2) % 4).expect("a table"));
    let mut wave = Wave::default();
    let table = wave.table(lut);
    (0..lanes).for_each(|slot| wave.push([Term { slot, factor: 1 }], 0, table, &[slot + lanes]));
    bench.run(wave).expect("work that can be done");
    let results = bench.read::<u64>(&(lanes..2 * lanes).collect::<Vec<_>>());
    assert_eq!(keys.decrypt(&results), messages.iter().map(|x| (3 * x + 2) % 4).collect::<Vec<_>>(), "{name}");
}

/// A set with N = 512 and four mask polynomials.
const SET_OF_N512: &str = "V1_8_PARAM_MESSAGE_1_CARRY_1_KS_PBS_GAUSSIAN_2M128";

/// The sets are full size, because no toy sets have these shapes.
#[test]
fn sets_with_dedicated_kernels_compute_correctly() {
    let (_, device) = device(MEMORY_KIB);
    two_bits(&device, SET_OF_N512, 4);
    two_bits(&device, "V1_8_PARAM_GPU_MULTI_BIT_GROUP_4_MESSAGE_1_CARRY_1_KS_PBS_GAUSSIAN_2M128", 2);
}

/// Sets whose kernels need the most shared memory, on GPUs like those of compute capability 8.0 and
/// 8.9.
#[test]
fn gpus_with_less_shared_memory_and_no_clusters_compute_correctly() {
    for kibibytes in [163, 99] {
        let like = Emulated::new(MEMORY_KIB << 10).describe().clone();
        let gpu = Description { shared_bytes: kibibytes << 10, has_clusters: false, ..like };
        let device = CudaDevice::new(vec![Arc::new(Emulated::described(gpu))]).expect("memory for the workspace");
        conformance::shortint::<u64>(&device, "TOY_MESSAGE_2_CARRY_2_N2048", 1, 21);
        two_bits(&device, SET_OF_N512, 4);
    }
}

#[test]
fn several_gpus_share_waves() {
    let gpus: Vec<_> = (0..3).map(|_| Arc::new(Emulated::new(MEMORY_KIB << 10))).collect();
    let device = CudaDevice::new(gpus.iter().map(|gpu| gpu.clone() as _).collect()).expect("memory");
    let of_a_key = launches_of_key(&gpus[0], &device, &Keys::generate::<u64, u64>("TOY_MESSAGE_2_CARRY_2", 0));
    let of_booleans = launches_of_key(&gpus[0], &device, &Keys::generate::<u32, u32>("TOY_BOOLEAN", 0));
    let before: Vec<u64> = gpus.iter().map(|gpu| gpu.launches()).collect();
    for seed in 0..3 {
        conformance::shortint::<u64>(&device, "TOY_MESSAGE_2_CARRY_2", seed, 300);
    }
    conformance::boolean(&device, "TOY_BOOLEAN", 0, 200);
    for (gpu, before) in gpus.iter().zip(before) {
        let of_waves = gpu.launches() - before - 3 * of_a_key - of_booleans;
        assert!(of_waves > 8, "each has done more than make keys ready");
    }
    drop(device);
    assert!(gpus.iter().all(|gpu| gpu.used() == 0));
}

#[test]
fn a_wave_wider_than_the_workspace_is_computed_in_parts() {
    // A sixteenth of this memory holds fewer lanes than the wave has.
    conformance::shortint::<u64>(&device(8 << 10).1, "TOY_MESSAGE_2_CARRY_2", 4, 300);
}

#[test]
fn a_key_is_prepared_in_parts_when_memory_is_scarce() {
    let keys = Keys::generate::<u64, u64>("TOY_MESSAGE_2_CARRY_2", 0);
    let [few, many] = [MEMORY_KIB, 8 << 10].map(|kibibytes| {
        let (gpu, device) = device(kibibytes);
        let launches = launches_of_key(&gpu, &device, &keys);
        conformance::shortint::<u64>(&device, "TOY_MESSAGE_2_CARRY_2", 5, 20);
        launches
    });
    // Both halves are expanded, and then converted into the form that computations read.
    assert!(few == 4 && many == 16 * few, "{few} launches, {many} launches");
}

#[test]
fn a_dropped_device_frees_all_memory() {
    let (gpu, device) = device(MEMORY_KIB);
    let empty = gpu.used();
    conformance::shortint::<u64>(&device, "TOY_MESSAGE_2_CARRY_2", 2, 30);
    let roots = 4 * 256 * 16;
    assert!(gpu.used() <= empty + roots, "{} bytes more than before", gpu.used() - empty);
    drop(device);
    assert_eq!((gpu.used(), gpu.pinned()), (0, 0));
}

#[test]
fn sent_bytes_arrive_before_the_next_kernel_even_through_a_small_staging_buffer() {
    let driver: Arc<dyn Driver> = Arc::new(Emulated::new(MEMORY_KIB << 10));
    let (bytes, room): (Vec<u8>, _) =
        ((0..1000u32).map(|x| x as u8).collect(), Buffer::new(&driver, 1000).expect("room"));
    let room: View<'_, u8> = room.all().expect("bytes");
    let mut staging = Staging::new(&driver, Stream::Waves, 64).expect("memory");
    staging.send(&bytes, room).expect("room");
    // The last chunk has not been copied yet.
    let mut there = vec![0; 1000];
    emulator::download(room, &mut there);
    assert_eq!(there[..960], bytes[..960]);
    assert_ne!(there[960..], bytes[960..]);
    driver.mark(Stream::Waves, 0).expect("a mark");
    driver.wait(Stream::Waves, 0).expect("an end");
    emulator::download(room, &mut there);
    assert_eq!(there, bytes);
    assert!(staging.send(&[0; 1001], room).is_err(), "more than there is room for");
}

#[test]
fn a_key_or_an_arena_without_enough_memory_is_refused_and_leaks_none() {
    let (gpu, device) = device(256);
    let mut keys = Keys::generate::<u64, u64>("TOY_MESSAGE_2_CARRY_2", 1);
    let empty = gpu.used();
    let refused = device.load_key(&keys);
    assert!(matches!(refused, Err(DeviceError::OutOfMemory { .. })), "{refused:?}");
    // An arena takes memory when ciphertexts are written to it.
    let arena = device.create_arena(keys.set, 64 << 20).expect("addresses");
    let list = keys.encrypt::<u64>(&[1; 600]);
    let slots: Vec<u32> = (0..600).collect();
    let refused = device.write(arena, &slots, cloakwork_device::Words::U64(list.words()));
    assert!(matches!(refused, Err(DeviceError::OutOfMemory { .. })), "{refused:?}");
    device.write(arena, &slots[..5], cloakwork_device::Words::U64(&list.words()[..5 * 257])).expect("a little");
    device.drop_arena(arena);
    assert!(gpu.used() <= empty + 4 * 256 * 16, "roots may stay");
}

/// Submits a wave of three lanes on a device with a key.
fn submit(device: &CudaDevice, bench: &Bench<'_>, keys: &mut Keys) -> Result<cloakwork_device::Ticket, DeviceError> {
    let lut = bench.lut(&Lut::from_fn(keys.set, |x| x).expect("a table"));
    bench.write(0, &keys.encrypt::<u64>(&[1, 2, 3]));
    let mut wave = Wave::default();
    let table = wave.table(lut);
    (0..3).for_each(|slot| wave.push([Term { slot, factor: 1 }], 0, table, &[slot + 3]));
    device.submit(bench.key, bench.arena, wave)
}

/// Calls of a device's waker from now on.
fn waker_calls(device: &CudaDevice) -> std::sync::mpsc::Receiver<()> {
    let (told, hears) = std::sync::mpsc::channel();
    device.set_waker(Arc::new(move || {
        let _ = told.send(());
    }));
    hears
}

/// A wave of one part occupies one of two GPUs. The other GPU has room while the wave runs.
#[test]
fn the_waker_is_called_when_a_wave_leaves_a_gpu_idle() {
    let gpus = [0, 1].map(|_| Arc::new(Emulated::new(MEMORY_KIB << 10)));
    let device = CudaDevice::new(gpus.iter().map(|gpu| gpu.clone() as _).collect()).expect("memory");
    let hold = |hold| gpus.iter().for_each(|gpu| gpu.hold_launches(hold));
    let mut keys = Keys::generate::<u64, u64>("TOY_MESSAGE_2_CARRY_2", 1);
    let bench = Bench::new(&device, &keys, 100);
    let hears = waker_calls(&device);
    for _ in 0..20 {
        while hears.try_recv().is_ok() {}
        hold(true);
        let ticket = submit(&device, &bench, &mut keys).expect("room");
        hears.recv_timeout(WAIT_TIMEOUT).expect("a call while the wave runs");
        while !device.has_room() {
            hears.recv_timeout(WAIT_TIMEOUT).expect("a call when there is room");
        }
        let running = device.wait(ticket, Instant::now());
        assert!(matches!(running, Err(DeviceError::NotDone(_))), "{running:?}");
        hold(false);
        device.wait(ticket, Instant::now() + WAIT_TIMEOUT).expect("an end");
        while !device.has_room() {
            hears.recv_timeout(WAIT_TIMEOUT).expect("a call when there is room");
        }
    }
}

#[test]
fn the_waker_is_called_when_a_device_has_room_again() {
    let (_, device) = device(MEMORY_KIB);
    let mut keys = Keys::generate::<u64, u64>("TOY_MESSAGE_2_CARRY_2", 1);
    let bench = Bench::new(&device, &keys, 100);
    let hears = waker_calls(&device);
    for _ in 0..50 {
        let ticket = submit(&device, &bench, &mut keys).expect("room");
        device.wait(ticket, Instant::now() + Duration::from_secs(60)).expect("an end");
        while !device.has_room() {
            hears.recv_timeout(Duration::from_secs(60)).expect("it says when there is room");
        }
    }
}
