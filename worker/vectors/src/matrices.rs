//! Data of bootstraps that does not depend on a key: rings and matrices. The whole process shares
//! them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use cloakwork_ckks::{Bootstrap, BootstrapShape, CkksError, Ring};
use cloakwork_params::{
    ckks::{CKKS_SETS, CkksSet},
    set::SetId,
};

/// The ring of a set. The ring is made on first use and kept until the process ends, so that there
/// are at most as many rings as sets.
pub fn ring(set: &'static CkksSet) -> &'static Ring {
    static RINGS: OnceLock<Vec<OnceLock<Ring>>> = OnceLock::new();
    let rings = RINGS.get_or_init(|| CKKS_SETS.iter().map(|_| OnceLock::new()).collect());
    let place = CKKS_SETS.iter().position(|other| other.id == set.id).expect("a set is a row of the table");
    rings[place].get_or_init(|| Ring::new(set))
}

/// An LRU cache of bootstraps with their matrices, limited in bytes. An entry larger than the limit
/// is kept alone. A job that uses an evicted bootstrap keeps it alive until the job is done.
pub struct Matrices {
    bytes_max: usize,
    threads: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    by_shape: HashMap<(SetId, BootstrapShape), Entry>,
    clock: u64,
}

struct Entry {
    bootstrap: Arc<OnceLock<Result<Arc<Bootstrap<'static>>, CkksError>>>,
    last_use: u64,
}

impl Matrices {
    /// A cache of at most `bytes_max` bytes, whose entries are made on `threads` threads.
    pub fn new(bytes_max: usize, threads: usize) -> Self {
        Self { bytes_max, threads, kept: Mutex::default() }
    }

    /// The bootstrap of a shape. Of several concurrent callers for one shape, the first makes the
    /// bootstrap and the others wait.
    pub fn get(&self, set: &'static CkksSet, shape: BootstrapShape) -> Result<Arc<Bootstrap<'static>>, CkksError> {
        let place = self.place(set, shape);
        let made = place.get_or_init(|| {
            // Make room beforehand, so that the new entry does not exceed the limit together with
            // the old ones.
            let bytes = usize::try_from(shape.matrix_bytes(set)).unwrap_or(usize::MAX);
            self.kept().shrink(self.bytes_max.saturating_sub(bytes), (set.id, shape));
            Bootstrap::of(ring(set), shape, self.threads).map(Arc::new)
        });
        let made = made.clone();
        self.kept().shrink(self.bytes_max, (set.id, shape));
        made
    }

    /// Each statement under this lock leaves the map consistent, so that a poisoned lock is safe to
    /// use.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(
        &self,
        set: &'static CkksSet,
        shape: BootstrapShape,
    ) -> Arc<OnceLock<Result<Arc<Bootstrap<'static>>, CkksError>>> {
        let mut kept = self.kept();
        kept.clock += 1;
        let last_use = kept.clock;
        let entry =
            kept.by_shape.entry((set.id, shape)).or_insert_with(|| Entry { bootstrap: Arc::default(), last_use });
        entry.last_use = last_use;
        entry.bootstrap.clone()
    }
}

impl Kept {
    /// Evicts the least recently used entries, except `latest`.
    fn shrink(&mut self, bytes_max: usize, latest: (SetId, BootstrapShape)) {
        let bytes =
            |entry: &Entry| entry.bootstrap.get().and_then(|made| made.as_ref().ok()).map_or(0, |made| made.bytes());
        let mut held: usize = self.by_shape.values().map(bytes).sum();
        while held > bytes_max {
            let others = self.by_shape.iter().filter(|(shape, _)| **shape != latest);
            let Some(oldest) = others.min_by_key(|(_, entry)| entry.last_use).map(|(shape, _)| *shape) else { break };
            held -= self.by_shape.remove(&oldest).as_ref().map_or(0, bytes);
        }
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        let made = self.by_shape.values().filter_map(|entry| entry.bootstrap.get()?.as_ref().ok());
        made.map(|made| made.bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_ckks::{BootstrapKind, KeySize};
    use cloakwork_params::ckks::by_name;

    use super::*;

    fn shape(stages: usize) -> BootstrapShape {
        BootstrapShape { slots_log2: 5, stages, size: KeySize::Medium, kind: BootstrapKind::Regular }
    }

    #[test]
    fn all_callers_share_one_copy_and_the_least_recently_used_is_evicted() {
        let set = by_name("TOY_CKKS_45_60_50").expect("a set");
        let all = Matrices::new(usize::MAX, 1);
        let [first, second, third] = [2, 3, 4].map(|stages| all.get(set, shape(stages)).expect("a bootstrap"));
        assert!(Arc::ptr_eq(&first, &all.get(set, shape(2)).expect("a bootstrap")));
        let two = Matrices::new(first.bytes() + second.bytes().max(third.bytes()), 2);
        let kept = two.get(set, shape(2)).expect("a bootstrap");
        two.get(set, shape(3)).expect("a bootstrap");
        assert!(Arc::ptr_eq(&kept, &two.get(set, shape(2)).expect("a bootstrap")));
        two.get(set, shape(4)).expect("a bootstrap");
        assert!(
            Arc::ptr_eq(&kept, &two.get(set, shape(2)).expect("a bootstrap")),
            "the entry was used after the other entry"
        );
        assert!(two.kept().bytes() <= two.bytes_max);
        let none = Matrices::new(0, 1);
        assert!(none.get(set, shape(2)).is_ok() && none.get(set, shape(3)).is_ok());
        assert_eq!(none.kept().by_shape.len(), 1, "one that takes more is alone");
    }
}
