//! Pins one-core measurements to a core.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Runs `work` in a thread that is pinned to the last core that the process may use. Threads that
/// it starts are pinned too.
pub fn on_one_core<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let pinned = scope.spawn(|| {
            let allowed = sched_getaffinity(None).expect("a thread may ask where it runs");
            let last = (0..CpuSet::MAX_CPU).rfind(|&core| allowed.is_set(core)).expect("a thread runs somewhere");
            let mut one = CpuSet::new();
            one.set(last);
            sched_setaffinity(None, &one).expect("a thread may stay where it may run");
            work()
        });
        pinned.join().expect("the measured work does not panic")
    })
}
