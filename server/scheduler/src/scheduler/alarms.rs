//! The next time at which the scheduler must act on each job.
//!
//! Few jobs live until their deadline, so the order of deadlines matters only once they are near.
//! Until then, a job's entry takes four bytes in an unordered list of jobs with about equal times.
//! Insertion and removal there need no search.

use std::collections::{BTreeMap, BTreeSet};

use crate::jobs::Jobs;
use crate::seat::Seat;
use crate::types::Time;

/// Span of times that share a list, in microseconds: about 17 seconds. Most leases are renewed or
/// over by that time.
const SPAN_MICROS: u64 = 1 << 24;
/// The place of entries in `near`.
const NEAR: u32 = u32::MAX;

/// One time for each job.
#[derive(Clone, Debug, Default)]
pub(super) struct Alarms {
    near: BTreeSet<(Time, Seat)>,
    /// The other jobs, by the number of their span.
    far: BTreeMap<u64, Vec<Seat>>,
    /// Times up to the end of this span are near.
    reached: u64,
}

impl Alarms {
    /// Adds an entry for a job that has none, and stores the time in the job.
    pub(super) fn insert(&mut self, time: Time, seat: Seat, jobs: &mut Jobs) {
        let Some(job) = jobs.get_mut(seat) else { return };
        job.timer = time;
        let span = time / SPAN_MICROS;
        if span <= self.reached {
            self.near.insert((time, seat));
            return jobs.set_place(seat, NEAR);
        }
        let list = self.far.entry(span).or_default();
        jobs.set_place(seat, u32::try_from(list.len()).expect("a seat is listed once"));
        list.push(seat);
    }

    /// Removes a job's entry.
    pub(super) fn remove(&mut self, seat: Seat, jobs: &mut Jobs) {
        let Some(time) = jobs.get(seat).map(|job| job.timer) else { return };
        let place = jobs.place(seat);
        if place == NEAR {
            self.near.remove(&(time, seat));
        } else if let Some(list) = self.far.get_mut(&(time / SPAN_MICROS)) {
            list.swap_remove(place as usize);
            if let Some(&moved) = list.get(place as usize) {
                jobs.set_place(moved, place);
            } else if list.is_empty() {
                self.far.remove(&(time / SPAN_MICROS));
            }
        }
    }

    /// A lower bound of all times: nothing is due before.
    pub(super) fn next(&self) -> Option<Time> {
        let near = self.near.first().map(|(time, _)| *time);
        let far = self.far.first_key_value().map(|(span, _)| span * SPAN_MICROS);
        near.into_iter().chain(far).min()
    }

    /// The first job, if its time has come.
    pub(super) fn first_due(&self, now: Time) -> Option<(Time, Seat)> {
        self.near.first().copied().filter(|(time, _)| *time <= now)
    }

    /// Moves the entries that have become near into the ordered set, for at most `most` jobs per
    /// call.
    pub(super) fn approach(&mut self, now: Time, most: usize, jobs: &mut Jobs) {
        let mut left = most;
        while let Some(mut list) = self.far.first_entry().filter(|list| *list.key() <= now / SPAN_MICROS) {
            let kept = list.get().len().saturating_sub(left);
            left -= list.get().len() - kept;
            for seat in list.get_mut().drain(kept..) {
                self.near.extend(jobs.get(seat).map(|job| (job.timer, seat)));
                jobs.set_place(seat, NEAR);
            }
            if kept > 0 {
                return;
            }
            list.remove();
        }
        self.reached = self.reached.max(now / SPAN_MICROS);
    }

    /// Panics where an entry is not in its place. `times` holds every expected entry.
    pub(super) fn check(&self, times: &BTreeMap<Seat, Time>, jobs: &Jobs) {
        for (&seat, &time) in times {
            let is_here = match jobs.place(seat) {
                NEAR => self.near.contains(&(time, seat)),
                place => self.far[&(time / SPAN_MICROS)][place as usize] == seat,
            };
            assert!(is_here, "{seat:?} has no entry at {time}");
        }
        let far = self.far.values().map(Vec::len);
        assert!(far.clone().all(|len| len > 0), "an empty list is forgotten");
        assert_eq!(self.near.len() + far.sum::<usize>(), times.len(), "an entry for each job");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use cloakwork_params::{KeyId, SetId};

    use super::*;
    use crate::job::{Job, State};
    use crate::sim::random::Random;
    use crate::types::{Group, JobId, NewJob, TenantId};

    fn job(id: u128) -> Job {
        let group = Group { tenant: TenantId(1), key: KeyId([1; 16]), set: SetId(1) };
        Job {
            spec: NewJob { id: JobId(id), group, cost: 1, rows: 1, bytes: 0, priority: 0, deadline: 0 },
            submitted: 0,
            sequence: 0,
            attempts: 0,
            epoch: 0,
            suspect: None,
            solo_crashes: 0,
            refused_by: Box::default(),
            rests_until: None,
            state: State::Queued,
            timer: 0,
        }
    }

    #[test]
    fn alarms_ring_in_order_and_none_is_forgotten() {
        let mut random = Random(11);
        let (mut alarms, mut jobs, mut times) = (Alarms::default(), Jobs::default(), BTreeMap::new());
        let seats: Vec<Seat> = (0..100).map(|id| jobs.insert(job(id))).collect();
        let (mut now, mut rung) = (0, 0);
        for _ in 0..20_000 {
            let seat = seats[random.range(0, 99) as usize];
            if times.remove(&seat).is_some() {
                alarms.remove(seat, &mut jobs);
            } else {
                let time = now + random.range(0, 8 * SPAN_MICROS);
                times.insert(seat, time);
                alarms.insert(time, seat, &mut jobs);
            }
            now += random.range(0, SPAN_MICROS / 8);
            alarms.approach(now, 3, &mut jobs);
            while let Some((time, seat)) = alarms.first_due(now) {
                assert_eq!(times.remove(&seat), Some(time));
                alarms.remove(seat, &mut jobs);
                rung += 1;
            }
            alarms.check(&times, &jobs);
            let first = times.values().min().copied();
            assert_eq!(alarms.next().is_some(), first.is_some());
            assert!(alarms.next() <= first, "{:?} would miss {first:?}", alarms.next());
        }
        assert!(rung > 1000, "{rung} rang");
    }
}
