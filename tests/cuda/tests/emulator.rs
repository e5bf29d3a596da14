//! The emulator finds what it is there to find.

use cloakwork_tests_cuda::emulator::{self, LaunchError, Sums};

#[test]
fn a_barrier_that_some_threads_miss_is_an_error() {
    assert_eq!(emulator::barrier(128), Ok(()));
    assert_eq!(emulator::barrier(0), Ok(()));
    for comers in [1, 64, 127] {
        assert_eq!(emulator::barrier(comers), Err(LaunchError::BarrierMismatch), "{comers} of 128 threads");
    }
}

#[test]
fn a_slot_outside_the_arena_is_refused() {
    let work = Sums { terms_end: &[1], slots: &[2], factors: &[1], constants: &[0] };
    let refused = emulator::sums_64(&[0; 8], 3, work, &mut [0; 4]);
    assert_eq!(refused, Err(LaunchError::Shape("slots of the arena")));
}
