//! Which requests may have made a job. Nearly all are new, and need not be looked for in the database.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Bits, one for each request by a hash of it: 16 MiB. A new request is taken for an old one, and looked for in vain,
/// as often as the bits are set: one in 135 with a million jobs, one in 14 with 10 million, half with 93 million, three
/// quarters with 186 million.
///
/// Nothing is ever removed, also where the jobs themselves are forgotten: the numbers are those of all jobs that the
/// store had when the process began and that came since. A full filter is never wrong, but spares nobody the look into
/// the database; a restart makes a new one of the jobs that are still there.
const REQUEST_BITS: usize = 1 << 27;

/// Requests that the store has, and some that it has not. Whoever is not among them is new.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    bits: Arc<[AtomicU64]>,
    /// With a key of its own in each process, so that nobody can fill it with requests that look like another's.
    hasher: RandomState,
}

impl Default for Requests {
    fn default() -> Self {
        Self { bits: (0..REQUEST_BITS / 64).map(|_| AtomicU64::new(0)).collect(), hasher: RandomState::new() }
    }
}

impl Requests {
    pub(super) fn insert(&self, tenant: &str, request_id: &[u8; 16]) {
        let (word, bit) = self.place(tenant, request_id);
        self.bits[word].fetch_or(bit, Relaxed);
    }

    pub(super) fn may_hold(&self, tenant: &str, request_id: &[u8; 16]) -> bool {
        let (word, bit) = self.place(tenant, request_id);
        self.bits[word].load(Relaxed) & bit != 0
    }

    fn place(&self, tenant: &str, request_id: &[u8; 16]) -> (usize, u64) {
        let place = self.hasher.hash_one((tenant, request_id)) as usize % REQUEST_BITS;
        (place / 64, 1 << (place % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_inserted_is_found_and_hardly_anything_else() {
        let requests = Requests::default();
        let id = |number: u128| number.to_be_bytes();
        (0..10_000).for_each(|number| requests.insert("a", &id(number)));
        assert!((0..10_000).all(|number| requests.may_hold("a", &id(number))));
        let others = (0..10_000).filter(|&number| requests.may_hold("b", &id(number))).count();
        assert!(others < 20, "{others} of 10000 requests of another tenant");
    }
}
