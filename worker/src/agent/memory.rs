//! Memory for the inputs and outputs of jobs, shared so that no large job blocks the small jobs of
//! others.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A job is small if it needs at most the whole memory divided by this number.
const SMALL_JOB_DIVISOR: u32 = 64;
/// The whole memory divided by this number is kept for small jobs. That share holds sixteen of the
/// largest small jobs, and a worker holds the long jobs of fewer tenants at once.
const SMALL_JOBS_SHARE_DIVISOR: u32 = 4;

/// Memory in two parts. A job may hold its memory for hours, and each semaphore is a FIFO queue.
/// With a single part, a job that holds all memory, or waits for all memory at the head of the
/// queue, would block every other job.
pub(super) struct JobMemory {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    /// Largest small job, in KiB.
    small_max: u32,
    /// Largest large job, in KiB.
    large_max: u32,
}

/// The job needs more memory than this worker has for one job.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the inputs and outputs of the job take {wanted} KiB: this worker has at most {most} KiB for one job")]
pub(super) struct TooLarge {
    wanted: u32,
    most: u32,
}

impl JobMemory {
    pub(super) fn new(bytes: u64) -> Self {
        let whole = kib(bytes);
        let kept = (whole / SMALL_JOBS_SHARE_DIVISOR).max(1);
        let large_max = (whole - kept.min(whole)).max(1);
        let part = |kib: u32| Arc::new(Semaphore::new(kib as usize));
        Self { small: part(kept), large: part(large_max), small_max: whole / SMALL_JOB_DIVISOR, large_max }
    }

    /// Waits for the given number of bytes. A request that this worker can never satisfy fails
    /// immediately.
    pub(super) async fn reserve(&self, bytes: u64) -> Result<OwnedSemaphorePermit, TooLarge> {
        let (wanted, most) = (kib(bytes).max(1), self.large_max);
        if wanted > most {
            return Err(TooLarge { wanted, most });
        }
        let part = if wanted <= self.small_max { &self.small } else { &self.large };
        Ok(part.clone().acquire_many_owned(wanted).await.expect("the semaphore is never closed"))
    }

    /// Bytes of the largest job.
    #[cfg(test)]
    pub(super) fn most(&self) -> u64 {
        u64::from(self.large_max) << 10
    }
}

/// Bytes in KiB, the unit of the semaphores' permits.
fn kib(bytes: u64) -> u32 {
    bytes.div_ceil(1024).min(u64::from(u32::MAX) >> 4) as u32
}

#[cfg(test)]
mod tests {
    use std::future::Future;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// The output of a future that is ready at its first poll; `None` if the future has to wait.
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
    fn small_jobs_do_not_wait_for_large_jobs_that_hold_or_want_memory() {
        let memory = JobMemory::new(64 * MIB);
        let giant = try_reserve(&memory, memory.most()).expect("all memory is free");
        let mut second = Box::pin(memory.reserve(memory.most()));
        assert!(now(second.as_mut()).is_none(), "it waits for the first");
        let small: Vec<_> = (0..16).map(|_| try_reserve(&memory, MIB).expect("a place")).collect();
        assert!(try_reserve(&memory, MIB).is_none(), "a quarter is kept for small jobs");
        drop(small);
        assert!(try_reserve(&memory, MIB).is_some());
        drop(giant);
        assert!(now(second).is_some());
    }

    #[test]
    fn large_jobs_do_not_wait_for_small_jobs() {
        let memory = JobMemory::new(64 * MIB);
        let _small: Vec<_> = (0..16).map(|_| try_reserve(&memory, MIB).expect("a place")).collect();
        assert!(try_reserve(&memory, MIB + 1).is_some());
    }

    #[test]
    fn impossible_requests_fail_at_once_and_all_others_succeed() {
        for bytes in [1, 1024, 1025, 4096, 65 << 10, 64 * MIB] {
            let memory = JobMemory::new(bytes);
            for wanted in [0, 1, memory.most()] {
                assert!(try_reserve(&memory, wanted).is_some(), "{wanted} bytes of {bytes}");
            }
            // This also holds while other jobs have all memory: a request that can never succeed
            // does not wait.
            let _all = try_reserve(&memory, memory.most());
            for wanted in [memory.most() + 1, u64::MAX] {
                let refused = now(memory.reserve(wanted)).expect("it does not wait");
                assert!(refused.is_err(), "{wanted} bytes of {bytes}");
            }
        }
    }
}
