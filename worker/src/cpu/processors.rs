//! CPU affinity of threads.

use std::io;

/// The processors that this process may use.
#[cfg(target_os = "linux")]
pub(super) fn allowed() -> io::Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|&processor| set.is_set(processor)).collect())
}

/// Pins the calling thread to one processor.
#[cfg(target_os = "linux")]
pub(super) fn stay_on(processor: usize) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn allowed() -> io::Result<Vec<usize>> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "threads can only be pinned on Linux"))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn stay_on(_: usize) -> io::Result<()> {
    allowed().map(drop)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_where_it_is_put() {
        let before = allowed().expect("a list");
        let last = *before.last().expect("a processor");
        // The affinity changes in a separate thread, so that the test's thread keeps its own.
        let seen = std::thread::spawn(move || stay_on(last).and_then(|()| allowed())).join().expect("no panic");
        assert_eq!(seen.expect("a list"), [last]);
        assert_eq!(allowed().expect("a list"), before);
    }
}
