//! Scratch memory for the compute threads. Its amount depends on the threads and sets in use, not
//! on the number of keys.

use std::{
    any::Any,
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
};

use cloakwork_params::{ParameterSet, set::SetId};

use crate::locked::Locked as _;

/// Workspaces by set. A workspace is freed with the last key of its set.
#[derive(Default)]
pub(super) struct Workspaces(Mutex<HashMap<SetId, Weak<dyn Any + Send + Sync>>>);

impl Workspaces {
    /// The workspace that all keys of `set` share.
    pub(super) fn of<W: Send + 'static>(&self, set: &ParameterSet) -> Arc<Workspace<W>> {
        let mut all = self.0.locked();
        let shared = all.get(&set.id).and_then(Weak::upgrade).and_then(|shared| shared.downcast().ok());
        shared.unwrap_or_else(|| {
            let new = Arc::new(Workspace(Mutex::default()));
            let any: Arc<dyn Any + Send + Sync> = new.clone();
            all.insert(set.id, Arc::downgrade(&any));
            new
        })
    }
}

/// Pool of scratch buffers, as many as threads have ever worked at the same time.
pub(super) struct Workspace<W>(Mutex<Vec<W>>);

impl<W> Workspace<W> {
    /// Takes a free buffer, or makes a new one.
    pub(super) fn take(&self, new: impl FnOnce() -> W) -> W {
        let free = self.0.locked().pop();
        free.unwrap_or_else(new)
    }

    pub(super) fn give_back(&self, used: W) {
        self.0.locked().push(used);
    }
}

#[cfg(test)]
mod tests {
    use cloakwork_params::table::SETS;

    use super::*;

    #[test]
    fn keys_of_a_set_share_a_workspace_that_the_last_key_frees() {
        let workspaces = Workspaces::default();
        let (one, another) = (workspaces.of::<u32>(&SETS[0]), workspaces.of::<u32>(&SETS[0]));
        one.give_back(7);
        assert_eq!(workspaces.of::<u32>(&SETS[1]).take(|| 0), 0);
        assert_eq!(another.take(|| 0), 7);
        assert_eq!(another.take(|| 0), 0);
        another.give_back(8);
        drop((one, another));
        assert_eq!(workspaces.of::<u32>(&SETS[0]).take(|| 0), 0);
    }
}
