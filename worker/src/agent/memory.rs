//! Memory for the inputs and outputs of jobs, shared so that no large job keeps everybody's small ones waiting.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A job is small when it takes at most this part of the whole.
const SMALL_PART: u32 = 64;
/// This part of the whole is kept for small jobs. That is room for sixteen of the largest of them, and a worker is given
/// the long jobs of fewer tenants at once.
const KEPT_PART: u32 = 4;

/// Memory in two parts. A job may hold what it takes for hours, and whoever waits for memory waits in a line: with one
/// part, a job that takes all of it, or is first in the line for that, would stop all others.
pub(super) struct JobMemory {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    /// KiB that a small job takes at most.
    small_max: u32,
    /// KiB that a large one may take at most.
    large_max: u32,
}

/// A job takes more than this worker ever has for one.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the inputs and outputs of the job take {wanted} KiB: this worker has at most {most} KiB for one job")]
pub(super) struct TooLarge {
    wanted: u32,
    most: u32,
}

impl JobMemory {
    pub(super) fn new(bytes: u64) -> Self {
        let whole = kib(bytes);
        let kept = (whole / KEPT_PART).max(1);
        let large_max = (whole - kept.min(whole)).max(1);
        let part = |kib: u32| Arc::new(Semaphore::new(kib as usize));
        Self { small: part(kept), large: part(large_max), small_max: whole / SMALL_PART, large_max }
    }

    /// Waits for so many bytes. What this worker can never hold is refused at once.
    pub(super) async fn reserve(&self, bytes: u64) -> Result<OwnedSemaphorePermit, TooLarge> {
        let (wanted, most) = (kib(bytes).max(1), self.large_max);
        if wanted > most {
            return Err(TooLarge { wanted, most });
        }
        let part = if wanted <= self.small_max { &self.small } else { &self.large };
        Ok(part.clone().acquire_many_owned(wanted).await.expect("nobody closes it"))
    }

    /// Bytes that the largest job may take.
    #[cfg(test)]
    pub(super) fn most(&self) -> u64 {
        u64::from(self.large_max) << 10
    }
}

/// Bytes in units that a semaphore can count.
fn kib(bytes: u64) -> u32 {
    bytes.div_ceil(1024).min(u64::from(u32::MAX) >> 4) as u32
}

#[cfg(test)]
mod tests {
    use std::future::Future;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// What is to be had at once; None where one has to wait.
    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        let mut future = std::pin::pin!(future);
        match future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        }
    }

    fn try_reserve(memory: &JobMemory, bytes: u64) -> Option<OwnedSemaphorePermit> {
        now(memory.reserve(bytes)).map(|permit| permit.expect("it is not too large"))
    }

    #[test]
    fn small_jobs_wait_for_no_large_one_whether_it_has_its_memory_or_waits_for_it() {
        let memory = JobMemory::new(64 * MIB);
        let giant = try_reserve(&memory, memory.most()).expect("nobody else is here");
        let mut second = Box::pin(memory.reserve(memory.most()));
        assert!(now(second.as_mut()).is_none(), "it waits for the first");
        let small: Vec<_> = (0..16).map(|_| try_reserve(&memory, MIB).expect("a place")).collect();
        assert!(try_reserve(&memory, MIB).is_none(), "what is kept for small jobs is a quarter");
        drop(small);
        assert!(try_reserve(&memory, MIB).is_some());
        drop(giant);
        assert!(now(second).is_some());
    }

    #[test]
    fn small_jobs_keep_no_large_one_waiting() {
        let memory = JobMemory::new(64 * MIB);
        let _small: Vec<_> = (0..16).map(|_| try_reserve(&memory, MIB).expect("a place")).collect();
        assert!(try_reserve(&memory, MIB + 1).is_some());
    }

    #[test]
    fn what_is_too_large_is_refused_at_once_and_all_else_gets_its_turn() {
        for bytes in [1, 1024, 1025, 4096, 65 << 10, 64 * MIB] {
            let memory = JobMemory::new(bytes);
            for wanted in [0, 1, memory.most()] {
                assert!(try_reserve(&memory, wanted).is_some(), "{wanted} bytes of {bytes}");
            }
            // Also while others have all of it: nobody waits for what never comes.
            let _all = try_reserve(&memory, memory.most());
            for wanted in [memory.most() + 1, u64::MAX] {
                let refused = now(memory.reserve(wanted)).expect("it does not wait");
                assert!(refused.is_err(), "{wanted} bytes of {bytes}");
            }
        }
    }
}
