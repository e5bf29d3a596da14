//! The unfinished jobs, each in a numbered seat by which all other indexes refer to it.
//!
//! A seat takes four bytes where an ID takes sixteen, and the job in a seat is found without a
//! search. With a hundred thousand jobs, a step takes the time of its memory accesses, so small
//! indexes are fast indexes.

use hashbrown::HashTable;

use crate::job::Job;
use crate::seat::Seat;
use crate::types::JobId;

/// Every unfinished job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Jobs {
    seats: Vec<Kept>,
    /// Empty seats. The seat that was freed last is reused first, because its memory is likely
    /// still in the cache.
    free: Vec<Seat>,
    /// Seats by the ID of the job in them. The table does not store the ID a second time.
    by_id: HashTable<Seat>,
}

/// The content of a seat.
#[derive(Clone, Debug, Default)]
struct Kept {
    job: Option<Job>,
    /// Position of the job's entry in the alarms, beside the job because its readers have fetched
    /// that.
    place: u32,
}

impl Jobs {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(crate) fn seat(&self, id: &JobId) -> Option<Seat> {
        self.by_id.find(hash(id), |seat| self.get(*seat).is_some_and(|job| job.spec.id == *id)).copied()
    }

    pub(crate) fn get(&self, seat: Seat) -> Option<&Job> {
        self.seats.get(seat.index())?.job.as_ref()
    }

    pub(crate) fn get_mut(&mut self, seat: Seat) -> Option<&mut Job> {
        self.seats.get_mut(seat.index())?.job.as_mut()
    }

    /// Puts a job into a seat. No other job may have the same ID.
    pub(crate) fn insert(&mut self, job: Job) -> Seat {
        let seat = self.free.pop().unwrap_or_else(|| {
            self.seats.push(Kept::default());
            Seat::at(self.seats.len() - 1)
        });
        debug_assert!(self.seat(&job.spec.id).is_none(), "a job has one seat");
        let id = job.spec.id;
        self.seats[seat.index()].job = Some(job);
        let hash_at = |seat: &Seat| self.seats[seat.index()].job.as_ref().map_or(0, |job| hash(&job.spec.id));
        self.by_id.insert_unique(hash(&id), seat, hash_at);
        seat
    }

    pub(crate) fn remove(&mut self, seat: Seat) -> Option<Job> {
        let job = self.seats.get_mut(seat.index())?.job.take()?;
        if let Ok(entry) = self.by_id.find_entry(hash(&job.spec.id), |other| *other == seat) {
            entry.remove();
        }
        self.free.push(seat);
        Some(job)
    }

    /// Position of the job's entry in the alarms.
    pub(crate) fn place(&self, seat: Seat) -> u32 {
        self.seats[seat.index()].place
    }

    pub(crate) fn set_place(&mut self, seat: Seat, place: u32) {
        self.seats[seat.index()].place = place;
    }

    /// All jobs, in arbitrary order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Seat, &Job)> {
        self.seats.iter().zip(0..).filter_map(|(kept, index)| Some((Seat::at(index), kept.job.as_ref()?)))
    }

    /// Panics where seats and IDs disagree.
    pub(crate) fn check(&self) {
        for (seat, job) in self.iter() {
            assert_eq!(self.seat(&job.spec.id), Some(seat), "seat of {:?}", job.spec.id);
        }
        assert_eq!(self.iter().count(), self.len(), "a job for each id");
        assert_eq!(self.seats.len() - self.free.len(), self.len(), "a seat is free or taken");
    }
}

/// Hashes an ID, equally in every process. The server draws IDs at random, so clients cannot choose
/// colliding IDs. No code iterates over the jobs in hash order.
fn hash(id: &JobId) -> u64 {
    let mix = |word: u64| word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (high, low) = ((id.0 >> 64) as u64, id.0 as u64);
    let mixed = mix(mix(low).rotate_left(32) ^ high);
    mixed ^ (mixed >> 32)
}
