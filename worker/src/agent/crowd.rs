//! Statistics of the held jobs on blocks: the rows that could share waves, and the depth of the
//! work.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use crate::{group::GroupId, locked::Locked as _};

/// Statistics of the held jobs on blocks.
#[derive(Default)]
pub(super) struct Crowd(Mutex<Totals>);

#[derive(Default)]
struct Totals {
    rows: HashMap<GroupId, u64>,
    /// Total work of all jobs whose plans are known.
    work: Work,
}

/// Bootstraps, and the number of lanes that could be computed at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Work {
    bootstraps: f64,
    lanes: f64,
}

/// A job's entry in the statistics, removed on drop.
pub(super) struct Place {
    crowd: Arc<Crowd>,
    group: GroupId,
    rows: u64,
    work: Work,
}

impl Crowd {
    /// Adds a job. Returns its entry and the rows of all jobs of its group, including its own.
    pub(super) fn join(self: &Arc<Self>, group: GroupId, rows: u64) -> (Place, u64) {
        let all = {
            let mut totals = self.0.locked();
            let all = totals.rows.entry(group.clone()).or_default();
            *all += rows;
            *all
        };
        (Place { crowd: self.clone(), group, rows, work: Work::default() }, all)
    }

    /// Average number of bootstraps that depend on one another in a chain, over the held work; at
    /// least 1.
    pub(super) fn depth(&self) -> f64 {
        let Work { bootstraps, lanes } = self.0.locked().work;
        if lanes > 0.0 { (bootstraps / lanes).max(1.0) } else { 1.0 }
    }
}

impl Place {
    /// Records the work of a row: `pbs_count` bootstraps, of which `depth` follow one another.
    pub(super) fn record_work(&mut self, pbs_count: u64, depth: u32) {
        let bootstraps = self.rows as f64 * pbs_count as f64;
        self.work = Work { bootstraps, lanes: bootstraps / f64::from(depth.max(1)) };
        let mut totals = self.crowd.0.locked();
        totals.work.bootstraps += self.work.bootstraps;
        totals.work.lanes += self.work.lanes;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut totals = self.crowd.0.locked();
        totals.work.bootstraps -= self.work.bootstraps;
        totals.work.lanes -= self.work.lanes;
        if let Some(all) = totals.rows.get_mut(&self.group) {
            *all -= self.rows;
            if *all == 0 {
                totals.rows.remove(&self.group);
            }
        }
        if totals.rows.is_empty() {
            // Repeated addition and subtraction of floats leaves rounding errors, so an empty crowd
            // resets the sums.
            totals.work = Work::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use cloakwork_params::{KeyId, table::SETS};

    use super::*;

    #[test]
    fn rows_of_a_group_are_counted_while_its_jobs_live() {
        let group = |key| GroupId { group: Bytes::new(), key_id: KeyId([key; 16]), set: SETS[0].id, parts: [0; 32] };
        let crowd = Arc::<Crowd>::default();
        let (first, all) = crowd.join(group(1), 3);
        assert_eq!(all, 3);
        let (_second, all) = crowd.join(group(1), 4);
        assert_eq!(all, 7);
        assert_eq!(crowd.join(group(2), 1).1, 1);
        drop(first);
        assert_eq!(crowd.join(group(1), 1).1, 5);
        assert_eq!(crowd.0.locked().rows.len(), 1, "nothing stays of a group without jobs");
    }

    #[test]
    fn depth_is_the_average_over_the_held_work() {
        let group = GroupId { group: Bytes::new(), key_id: KeyId([1; 16]), set: SETS[0].id, parts: [0; 32] };
        let crowd = Arc::<Crowd>::default();
        assert_eq!(crowd.depth(), 1.0);
        let (mut deep, _) = crowd.join(group.clone(), 1);
        deep.record_work(64, 32);
        assert_eq!(crowd.depth(), 32.0);
        let (mut flat, _) = crowd.join(group, 1000);
        flat.record_work(1, 1);
        assert!((1.0..1.1).contains(&crowd.depth()), "{}", crowd.depth());
        drop(flat);
        assert_eq!(crowd.depth(), 32.0);
        drop(deep);
        assert_eq!(crowd.depth(), 1.0);
    }
}
