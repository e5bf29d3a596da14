//! The unfinished jobs, each in a seat that everything else knows it by.
//!
//! A seat is four bytes where an id has sixteen, and finding the job in it takes no search. With a hundred thousand jobs
//! the time of a step is that of fetching what the step touches from memory, so that small indexes are fast ones.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::job::Job;
use crate::types::JobId;

/// Where a job is kept until it ends. Then the next that comes may have the seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seat(u32);

/// Every unfinished job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Jobs {
    seats: Vec<Option<Job>>,
    /// Empty seats. The last to be left is the first to be taken: its memory is still at hand.
    free: Vec<Seat>,
    by_id: HashMap<JobId, Seat, BuildHasherDefault<IdHasher>>,
}

impl Jobs {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(crate) fn seat(&self, id: &JobId) -> Option<Seat> {
        self.by_id.get(id).copied()
    }

    pub(crate) fn get(&self, seat: Seat) -> Option<&Job> {
        self.seats.get(seat.0 as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, seat: Seat) -> Option<&mut Job> {
        self.seats.get_mut(seat.0 as usize)?.as_mut()
    }

    /// Finds a seat for a job whose id no other has.
    pub(crate) fn insert(&mut self, job: Job) -> Seat {
        let seat = self.free.pop().unwrap_or_else(|| {
            self.seats.push(None);
            Seat(u32::try_from(self.seats.len() - 1).expect("memory ends before the seats do"))
        });
        let before = self.by_id.insert(job.spec.id, seat);
        debug_assert!(before.is_none(), "a job has one seat");
        self.seats[seat.0 as usize] = Some(job);
        seat
    }

    pub(crate) fn remove(&mut self, seat: Seat) -> Option<Job> {
        let job = self.seats.get_mut(seat.0 as usize)?.take()?;
        self.by_id.remove(&job.spec.id);
        self.free.push(seat);
        Some(job)
    }

    /// All of them, in no order that means anything.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Seat, &Job)> {
        self.seats.iter().zip(0..).filter_map(|(job, seat)| Some((Seat(seat), job.as_ref()?)))
    }

    /// Panics where seats and ids disagree.
    pub(crate) fn check(&self) {
        for (seat, job) in self.iter() {
            assert_eq!(self.seat(&job.spec.id), Some(seat), "seat of {:?}", job.spec.id);
        }
        assert_eq!(self.iter().count(), self.len(), "a job for each id");
        assert_eq!(self.seats.len() - self.free.len(), self.len(), "a seat is free or taken");
    }
}

/// Hashes job ids, the same way in every process. The server draws them at random, so that nobody can choose them to
/// collide; and nothing walks the jobs in the order that comes of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0.rotate_left(32) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}
