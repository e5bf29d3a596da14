//! Tests of the emulator itself: the errors that it must find.

use cloakwork_cuda::gpu::{Driver as _, DriverError, Stream};
use cloakwork_tests_cuda::emulator::{Emulated, barrier, copied, fresh_shared_memory, given_in_clusters, products};

fn gpu() -> Emulated {
    Emulated::new(1 << 20)
}

#[test]
fn a_barrier_that_some_threads_miss_is_an_error() {
    let gpu = gpu();
    for comers in [1, 64, 127] {
        let error = barrier(&gpu, comers).expect_err("a mismatch");
        assert!(error.to_string().contains("barrier"), "{comers} of 128 threads: {error}");
    }
    assert_eq!(barrier(&gpu, 128), Ok(()), "and the threads of the next block are new ones");
    assert_eq!(barrier(&gpu, 0), Ok(()));
}

#[test]
fn blocks_of_a_cluster_run_together_and_access_each_other() {
    let gpu = gpu();
    assert_eq!(given_in_clusters(&gpu, 8, 4, 4, 0), Ok(vec![3.0, 0.0, 1.0, 2.0, 7.0, 4.0, 5.0, 6.0]));
    for (comers, givers) in [(3, 3), (4, 3)] {
        let error = given_in_clusters(&gpu, 8, comers, givers, 0).expect_err("a block that does not come, or give");
        assert!(error.to_string().contains("barrier"), "{error}");
    }
    let error = given_in_clusters(&gpu, 6, 4, 4, 0).expect_err("half a cluster");
    assert!(error.to_string().contains("6 blocks"), "{error}");
    assert!(given_in_clusters(&gpu, 4, 4, 4, 0).is_ok(), "and the threads of the next cluster are new ones");
    for fault in [1, 2] {
        let error = given_in_clusters(&gpu, 8, 4, 4, fault).expect_err("no count, or one that is expected twice");
        assert!(error.to_string().contains("arrivals"), "{error}");
    }
    let numbers = given_in_clusters(&gpu, 4, 4, 4, 3).expect("a launch that ends");
    assert_ne!(numbers[0], 3.0, "the first block reads before the last one has stored");
}

#[test]
fn an_asynchronous_copy_is_visible_only_after_a_wait() {
    assert_eq!(copied(&gpu(), 7.0, true), Ok(7.0));
    assert_ne!(copied(&gpu(), 7.0, false), Ok(7.0));
}

#[test]
fn shared_memory_is_poisoned_for_every_block() {
    let words = fresh_shared_memory(&gpu(), 100).expect("little enough");
    assert_eq!(words, [0xa5a5_a5a5_a5a5_a5a5; 100]);
    let error = fresh_shared_memory(&gpu(), 30_000).expect_err("more than there is");
    assert!(error.to_string().contains("240000 bytes"), "{error}");
}

#[test]
fn a_warp_multiplies_bytes_as_tensor_cores_do() {
    let digits = std::array::from_fn(|index| (index * 37 + index / 32) as i8);
    let key: [u8; 256] = std::array::from_fn(|index| (index * 91 + 255) as u8);
    let mut sums: [i32; 128] = std::array::from_fn(|index| index as i32 - 60);
    let before = sums;
    products(&gpu(), &digits, &key, &mut sums).expect("a launch");
    for (index, (sum, before)) in sums.iter().zip(before).enumerate() {
        let (row, column) = (index / 8, index % 8);
        let terms = (0..32).map(|k| i32::from(digits[row * 32 + k]) * i32::from(key[k * 8 + column]));
        assert_eq!(*sum, before + terms.sum::<i32>(), "row {row}, column {column}");
    }
}

#[test]
fn memory_is_limited_and_can_be_freed() {
    let gpu = gpu();
    let most = gpu.allocate(1 << 20).expect("all there is");
    assert_eq!(gpu.allocate(1), Err(DriverError::OutOfMemory { needed: 1, available: 0 }));
    // SAFETY: the memory was allocated above and nothing uses it.
    #[allow(unsafe_code)]
    unsafe {
        gpu.free(most).expect("an end");
    }
    assert_eq!(gpu.used(), 0);
}

#[test]
fn an_unknown_kernel_is_an_error() {
    // SAFETY: no kernel has this name, so none runs.
    #[allow(unsafe_code)]
    let error = unsafe { gpu().launch(Stream::Keys, "no_such", (1, 1), 32, 0, &mut []) };
    assert_eq!(error, Err(DriverError::Lost("there is no kernel no_such".to_owned())));
}
