//! The calls that a worker makes under one lease, and their limits.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU32, Ordering},
};

use tokio_util::sync::CancellationToken;

/// Maximum number of blobs that a worker reads at the same time under one lease. A worker reads one
/// part of a key and one input at a time. The rest is for calls on a broken connection, which the
/// server may take for alive until it has missed a ping.
const LEASE_READS_MAX: u32 = 8;

/// The calls of a worker under one lease.
#[derive(Debug, Default)]
pub struct LeaseCalls {
    reads: AtomicU32,
    /// Ends the newest call that hands in the result.
    newest: Mutex<CancellationToken>,
    /// Held by the call that hands in the result.
    turn: tokio::sync::Mutex<Announced>,
}

/// The turn to hand in the result of a lease, until dropped.
pub type Turn<'l> = tokio::sync::MutexGuard<'l, Announced>;

/// The outputs that a worker has announced under a lease.
#[derive(Debug, Default)]
pub struct Announced {
    /// Hash of the digests of the outputs that were announced first.
    first: Option<blake3::Hash>,
    /// The seed of the draw of rows that are computed a second time.
    seed: Option<[u8; 32]>,
}

/// A read of a blob under a lease, until dropped.
#[derive(Debug)]
pub struct LeaseRead(Arc<LeaseCalls>);

impl LeaseCalls {
    /// Begins to read a blob, or returns `None` if too many reads are running.
    pub fn begin_read(self: &Arc<Self>) -> Option<LeaseRead> {
        let more = |reads: u32| (reads < LEASE_READS_MAX).then_some(reads + 1);
        self.reads.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(LeaseRead(self.clone()))
    }

    /// Begins a call that hands in the result, and ends the older calls: a worker that repeats the
    /// call has lost the connection of the older one. The token ends the new call in the same way.
    pub fn begin_hand_in(&self) -> CancellationToken {
        let own = CancellationToken::new();
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *newest, own.clone()).cancel();
        own
    }

    /// The turn to hand in the result, or `None` while another call has it.
    pub fn try_turn(&self) -> Option<Turn<'_>> {
        self.turn.try_lock().ok()
    }

    /// Waits for the turn to hand in the result.
    pub async fn turn(&self) -> Turn<'_> {
        self.turn.lock().await
    }
}

impl Announced {
    /// Whether these are the outputs that were announced first. An attempt has one result, so a
    /// worker that repeats a call announces the same outputs again. Other outputs would each take
    /// the tenant's room.
    pub fn is_first(&mut self, digests: &[cloakwork_keystore::Digest]) -> bool {
        let mut hasher = blake3::Hasher::new();
        for digest in digests {
            hasher.update(&digest.blake3).update(&digest.size_bytes.to_le_bytes());
        }
        let announced = hasher.finalize();
        *self.first.get_or_insert(announced) == announced
    }

    /// The seed of the draw of rows that are computed a second time. A lease has one seed. A worker
    /// that could have the rows drawn again, by repeating its call, could wait for a draw that it
    /// likes.
    pub fn seed<E>(&mut self, make: impl FnOnce() -> Result<[u8; 32], E>) -> Result<[u8; 32], E> {
        match self.seed {
            Some(seed) => Ok(seed),
            None => Ok(*self.seed.insert(make()?)),
        }
    }
}

impl Drop for LeaseRead {
    fn drop(&mut self) {
        self.0.reads.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_keystore::Digest;

    use super::*;

    #[test]
    fn reads_under_one_lease_are_limited_and_come_back() {
        let calls = Arc::<LeaseCalls>::default();
        let mut reads: Vec<_> = (0..LEASE_READS_MAX).map(|_| calls.begin_read().unwrap()).collect();
        assert!(calls.begin_read().is_none());
        drop(reads.pop());
        reads.extend(calls.begin_read());
        assert!(calls.begin_read().is_none());
        drop(reads);
        assert_eq!(calls.reads.load(Ordering::Acquire), 0);
    }

    #[test]
    fn the_newest_call_ends_the_older_ones() {
        let calls = LeaseCalls::default();
        let tokens: Vec<_> = (0..3).map(|_| calls.begin_hand_in()).collect();
        assert_eq!([true, true, false], [0, 1, 2].map(|call: usize| tokens[call].is_cancelled()));
        let turn = calls.try_turn().unwrap();
        assert!(calls.try_turn().is_none());
        drop(turn);
        assert!(calls.try_turn().is_some());
    }

    #[test]
    fn an_attempt_has_one_result() {
        let [one, two] = [b"one", b"two"].map(|bytes| Digest::of(bytes));
        let mut announced = Announced::default();
        assert!(announced.is_first(&[one, two]));
        assert!(announced.is_first(&[one, two]));
        assert!(!announced.is_first(&[two, one]));
        assert!(!announced.is_first(&[one]));
        // Its rows are drawn once, unless the draw fails.
        assert_eq!(announced.seed(|| Err(())), Err(()));
        for seed in [[3; 32], [4; 32]] {
            assert_eq!(announced.seed(|| Ok::<_, ()>(seed)), Ok([3; 32]));
        }
    }
}
