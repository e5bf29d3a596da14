//! The workers that have room for jobs, by the parameter sets that they serve.
//!
//! A fresh job looks for its worker here. Most fresh jobs of a busy service find that all workers
//! are full. A look at each worker would then cost more than the rest of the step.

use std::collections::{BTreeMap, BTreeSet};

use cloakwork_params::SetId;

use super::Scheduler;
use crate::types::WorkerId;

/// The workers that have room for jobs. Workers that serve the same sets share an entry. A worker
/// that gains or loses room therefore changes one entry, however many sets the worker serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rooms(BTreeMap<BTreeSet<SetId>, BTreeSet<WorkerId>>);

impl Rooms {
    pub(super) fn insert(&mut self, worker: WorkerId, sets: &BTreeSet<SetId>) {
        match self.0.get_mut(sets) {
            Some(workers) => drop(workers.insert(worker)),
            None => drop(self.0.insert(sets.clone(), BTreeSet::from([worker]))),
        }
    }

    pub(super) fn remove(&mut self, worker: WorkerId, sets: &BTreeSet<SetId>) {
        let Some(workers) = self.0.get_mut(sets) else { return };
        workers.remove(&worker);
        if workers.is_empty() {
            self.0.remove(sets);
        }
    }

    /// The workers with room that serve a set, in groups.
    pub(super) fn of(&self, set: SetId) -> impl Iterator<Item = &BTreeSet<WorkerId>> + Clone {
        self.0.iter().filter(move |(sets, _)| sets.contains(&set)).map(|(_, workers)| workers)
    }
}

impl Scheduler {
    /// Enters a worker that has room, and removes a worker that has none.
    pub(super) fn renew_room(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let has_room = worker.has_room(&self.config);
        match (std::mem::replace(&mut worker.in_rooms, has_room), has_room) {
            (false, true) => self.rooms.insert(id, &worker.sets),
            (true, false) => self.rooms.remove(id, &worker.sets),
            _ => {}
        }
    }

    /// Removes a worker whose sets are about to change. The next fill enters the worker again.
    pub(super) fn leave_room(&mut self, id: WorkerId) {
        if let Some(worker) = self.workers.get_mut(&id)
            && std::mem::take(&mut worker.in_rooms)
        {
            self.rooms.remove(id, &worker.sets);
        }
    }
}
