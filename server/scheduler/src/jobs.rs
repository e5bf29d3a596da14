//! The unfinished jobs, each in a seat that everything else knows it by.
//!
//! A seat is four bytes where an id has sixteen, and finding the job in it takes no search. With a hundred thousand jobs
//! the time of a step is that of fetching what the step touches from memory, so that small indexes are fast ones.

use hashbrown::HashTable;

use crate::job::Job;
use crate::seat::Seat;
use crate::types::JobId;

/// Every unfinished job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Jobs {
    seats: Vec<Kept>,
    /// Empty seats. The last to be left is the first to be taken: its memory is still at hand.
    free: Vec<Seat>,
    /// Seats by the id of the job in them, which is not kept here again.
    by_id: HashTable<Seat>,
}

/// What is in a seat.
#[derive(Clone, Debug, Default)]
struct Kept {
    job: Option<Job>,
    /// Where the alarms have the job's entry. It is here because whoever asks for it has just fetched the job.
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

    /// Finds a seat for a job whose id no other has.
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

    /// Where the alarms have the entry of the job in a seat.
    pub(crate) fn place(&self, seat: Seat) -> u32 {
        self.seats[seat.index()].place
    }

    pub(crate) fn set_place(&mut self, seat: Seat, place: u32) {
        self.seats[seat.index()].place = place;
    }

    /// All of them, in no order that means anything.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Seat, &Job)> {
        self.seats.iter().zip(0..).filter_map(|(kept, index)| Some((Seat::at(index), kept.job.as_ref()?)))
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

/// Hashes an id, the same way in every process. The server draws ids at random, so that nobody can choose them to
/// collide; and nothing walks the jobs in the order that comes of it.
fn hash(id: &JobId) -> u64 {
    let mix = |word: u64| word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (high, low) = ((id.0 >> 64) as u64, id.0 as u64);
    let mixed = mix(mix(low).rotate_left(32) ^ high);
    mixed ^ (mixed >> 32)
}
