//! The store as the invariants see it: only the permitted changes of a job.

use std::collections::BTreeMap;

use super::plan::{Kind, Wish};
use crate::event::{Attempt, Effect, End};
use crate::types::{JobId, SuspectId, Time, WorkerId};

/// A job in the store.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) wish: Wish,
    pub(super) request: usize,
    pub(super) submitted: Time,
    pub(super) attempts: u32,
    pub(super) epoch: u64,
    pub(super) suspect: Option<SuspectId>,
    pub(super) solo_crashes: u32,
    pub(super) holder: Option<WorkerId>,
    /// Fencing epoch of the attempt whose commit was accepted.
    pub(super) accepted: Option<u64>,
    pub(super) end: Option<End>,
    /// Crashes of the job's holder that no held job caused.
    pub(super) innocent_crashes: u32,
    /// Crashes that the job caused.
    pub(super) own_crashes: u32,
    /// Maximum number of jobs on its worker at one of these crashes, itself included.
    pub(super) company: usize,
}

/// A change in a transaction. For a commit, `from` names the worker that handed it in.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) effect: Effect,
    pub(super) from: Option<WorkerId>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    pub(super) rows: BTreeMap<JobId, Row>,
    pub(super) requests: BTreeMap<usize, JobId>,
}

impl Store {
    pub(super) fn insert(&mut self, id: JobId, request: usize, wish: Wish, submitted: Time) {
        let row = Row {
            wish,
            request,
            submitted,
            attempts: 0,
            epoch: 0,
            suspect: None,
            solo_crashes: 0,
            holder: None,
            accepted: None,
            end: None,
            innocent_crashes: 0,
            own_crashes: 0,
            company: 0,
        };
        assert!(self.rows.insert(id, row).is_none(), "I4: {id:?} is made twice");
        assert!(self.requests.insert(request, id).is_none(), "I4: request {request} makes two jobs");
    }

    /// Applies a change, and panics if it is not permitted.
    pub(super) fn apply(&mut self, change: &Change) {
        match &change.effect {
            Effect::Record(attempt) => self.record(attempt),
            Effect::Requeued { job, attempts, epoch, suspect, solo_crashes, .. } => {
                let row = self.live(*job);
                assert!(*epoch >= row.epoch && *attempts >= row.attempts, "{job:?} goes back in time");
                row.holder = None;
                (row.attempts, row.epoch, row.suspect, row.solo_crashes) = (*attempts, *epoch, *suspect, *solo_crashes);
            }
            Effect::Accept { job, epoch } => {
                let row = self.live(*job);
                assert_eq!(row.holder, change.from, "I2: {job:?} is committed by someone else");
                assert_eq!(row.epoch, *epoch, "I2: {job:?} is committed by a stale lease");
                row.accepted = Some(*epoch);
            }
            Effect::Finished { job, end } => {
                let row = self.live(*job);
                if *end == End::Succeeded {
                    assert_eq!(row.accepted, Some(row.epoch), "I2: {job:?} succeeds without a commit");
                }
                row.holder = None;
                row.end = Some(end.clone());
            }
            Effect::Assign { .. } | Effect::Refuse { .. } | Effect::CheckEnded { .. } => {}
        }
    }

    fn record(&mut self, attempt: &Attempt) {
        let row = self.live(attempt.job);
        assert!(attempt.epoch > row.epoch, "I2: {:?} has two attempts {}", attempt.job, attempt.epoch);
        assert_eq!(attempt.group, row.wish.group, "I5: {:?} has changed its group", attempt.job);
        assert_eq!(row.holder, None, "{:?} is handed out twice", attempt.job);
        row.holder = Some(attempt.worker);
        (row.attempts, row.epoch, row.suspect) = (attempt.attempts, attempt.epoch, attempt.suspect);
        row.solo_crashes = attempt.solo_crashes;
    }

    /// The row of a job that has not ended.
    pub(super) fn live(&mut self, id: JobId) -> &mut Row {
        let row = self.rows.get_mut(&id).unwrap_or_else(|| panic!("{id:?} was never stored"));
        assert_eq!(row.end, None, "I1: something follows the end of {id:?}");
        row
    }

    pub(super) fn unfinished(&self) -> impl Iterator<Item = (&JobId, &Row)> {
        self.rows.iter().filter(|(_, row)| row.end.is_none())
    }

    /// Records a crash before any job is blamed. `culprits` are the poison jobs and the deadly
    /// checks that the worker ran, whether it was allowed to or not. `excused` means that the
    /// server knows of a check that may be the culprit: no job may take the blame then.
    pub(super) fn crashed(&mut self, worker: WorkerId, culprits: &[(JobId, u64)], excused: bool) {
        let held = self.rows.values().filter(|row| row.holder == Some(worker)).count();
        let is_guilty = |id: &JobId, row: &Row| row.wish.kind == Kind::Poison && culprits.contains(&(*id, row.epoch));
        let holds = |row: &Row| row.holder == Some(worker);
        let any_guilty = self.rows.iter().any(|(id, row)| holds(row) && is_guilty(id, row));
        for (id, row) in self.rows.iter_mut().filter(|(_, row)| holds(row)) {
            if is_guilty(id, row) {
                row.own_crashes += 1;
                row.company = row.company.max(held);
            } else if !any_guilty && !excused {
                row.innocent_crashes += 1;
            }
        }
    }
}
