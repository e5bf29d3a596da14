//! What bootstraps need that no key is in: rings, and matrices, made once for everybody.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use cloakwork_circuit::ckks::{Bootstrap as Kind, KeySize};
use cloakwork_ckks::{self as ckks, Bootstrap, CkksError, Ring};
use cloakwork_params::{
    ckks::{CKKS_SETS, CkksSet},
    set::SetId,
};

/// The ring of a set: made when it is first asked for, and kept for as long as the process lives. There are as many as sets.
pub fn ring(set: &'static CkksSet) -> &'static Ring {
    static RINGS: OnceLock<Vec<OnceLock<Ring>>> = OnceLock::new();
    let rings = RINGS.get_or_init(|| CKKS_SETS.iter().map(|_| OnceLock::new()).collect());
    let place = CKKS_SETS.iter().position(|other| other.id == set.id).expect("a set is a row of the table");
    rings[place].get_or_init(|| Ring::new(set))
}

/// Bootstraps with their matrices, the latest ones used, up to a number of bytes; one that takes more is alone. What a job is
/// using stays until it has done with it, wherever it has gone from here.
pub struct Matrices {
    bytes_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    by_kind: HashMap<(SetId, Kind), Entry>,
    clock: u64,
}

struct Entry {
    bootstrap: Arc<OnceLock<Result<Arc<Bootstrap<'static>>, CkksError>>>,
    last_use: u64,
}

impl Matrices {
    /// Up to so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, kept: Mutex::default() }
    }

    /// A kind of bootstrap. Of several who ask for the same one, one makes it and all wait.
    pub fn get(&self, set: &'static CkksSet, kind: Kind) -> Result<Arc<Bootstrap<'static>>, CkksError> {
        let place = self.place(set, kind);
        let made = place.get_or_init(|| {
            let size = match kind.size {
                KeySize::Medium => ckks::KeySize::Medium,
                KeySize::Large => ckks::KeySize::Large,
            };
            Bootstrap::new(ring(set), kind.slots_log2, kind.stages, size).map(Arc::new)
        });
        let made = made.clone();
        self.kept().shrink(self.bytes_max, (set.id, kind));
        made
    }

    /// What it guards is changed in single steps, so that a panic leaves nothing half done.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, set: &'static CkksSet, kind: Kind) -> Arc<OnceLock<Result<Arc<Bootstrap<'static>>, CkksError>>> {
        let mut kept = self.kept();
        kept.clock += 1;
        let last_use = kept.clock;
        let entry = kept.by_kind.entry((set.id, kind)).or_insert_with(|| Entry { bootstrap: Arc::default(), last_use });
        entry.last_use = last_use;
        entry.bootstrap.clone()
    }
}

impl Kept {
    /// Forgets the longest unused, but not the one that was just asked for.
    fn shrink(&mut self, bytes_max: usize, latest: (SetId, Kind)) {
        let bytes =
            |entry: &Entry| entry.bootstrap.get().and_then(|made| made.as_ref().ok()).map_or(0, |made| made.bytes());
        let mut held: usize = self.by_kind.values().map(bytes).sum();
        while held > bytes_max {
            let others = self.by_kind.iter().filter(|(kind, _)| **kind != latest);
            let Some(oldest) = others.min_by_key(|(_, entry)| entry.last_use).map(|(kind, _)| *kind) else { break };
            held -= self.by_kind.remove(&oldest).as_ref().map_or(0, bytes);
        }
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        let made = self.by_kind.values().filter_map(|entry| entry.bootstrap.get()?.as_ref().ok());
        made.map(|made| made.bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_params::ckks::by_name;

    use super::*;

    fn kind(stages: usize) -> Kind {
        Kind { slots_log2: 5, stages, size: KeySize::Medium }
    }

    #[test]
    fn one_copy_serves_everybody_and_the_longest_unused_goes() {
        let set = by_name("TOY_CKKS_45_60_50").expect("a set");
        let all = Matrices::new(usize::MAX);
        let [first, second, third] = [2, 3, 4].map(|stages| all.get(set, kind(stages)).expect("a bootstrap"));
        assert!(Arc::ptr_eq(&first, &all.get(set, kind(2)).expect("a bootstrap")));
        let two = Matrices::new(first.bytes() + second.bytes().max(third.bytes()));
        let kept = two.get(set, kind(2)).expect("a bootstrap");
        two.get(set, kind(3)).expect("a bootstrap");
        assert!(Arc::ptr_eq(&kept, &two.get(set, kind(2)).expect("a bootstrap")));
        two.get(set, kind(4)).expect("a bootstrap");
        assert!(Arc::ptr_eq(&kept, &two.get(set, kind(2)).expect("a bootstrap")), "it was used after the other");
        assert!(two.kept().bytes() <= two.bytes_max);
        let none = Matrices::new(0);
        assert!(none.get(set, kind(2)).is_ok() && none.get(set, kind(3)).is_ok());
        assert_eq!(none.kept().by_kind.len(), 1, "one that takes more is alone");
    }
}
