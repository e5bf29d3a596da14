//! A filter of the requests that may have created a job. Nearly all requests are new, and the
//! filter spares them a database query.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

/// Number of bits of the filter: 16 MiB, with one bit for each request, chosen by a hash. A new
/// request finds its bit set, and is looked up in vain, with the frequency of set bits. That is one
/// in 135 with a million jobs, one in 14 with 10 million, half with 93 million, three quarters with
/// 186 million.
///
/// Bits are never cleared, even when the jobs themselves are deleted. The numbers above count all
/// jobs in the store at the start of the process, plus all later jobs. A full filter is never
/// wrong, but it spares no query. A restart builds a new filter from the jobs that are still
/// stored.
const REQUEST_BITS: usize = 1 << 27;

/// The filter. A complete filter contains every request of the store, and some other requests by
/// collision. A request outside of it is new.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    bits: Arc<[AtomicU64]>,
    is_complete: Arc<AtomicBool>,
    /// A hasher with a random key in each process. Clients therefore cannot fill the filter with
    /// requests that collide with another tenant's.
    hasher: RandomState,
}

impl Default for Requests {
    fn default() -> Self {
        let bits = (0..REQUEST_BITS / 64).map(|_| AtomicU64::new(0)).collect();
        Self { bits, is_complete: Arc::default(), hasher: RandomState::new() }
    }
}

impl Requests {
    pub(super) fn insert(&self, tenant: &str, request_id: &[u8; 16]) {
        let (word, bit) = self.place(tenant, request_id);
        self.bits[word].fetch_or(bit, Relaxed);
    }

    pub(super) fn set_complete(&self, is_complete: bool) {
        self.is_complete.store(is_complete, Release);
    }

    /// Whether the store may hold a job of the request.
    pub(super) fn may_hold(&self, tenant: &str, request_id: &[u8; 16]) -> bool {
        if !self.is_complete.load(Acquire) {
            return true;
        }
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
    fn the_filter_finds_every_inserted_request_and_few_others() {
        let requests = Requests::default();
        let id = |number: u128| number.to_be_bytes();
        (0..10_000).for_each(|number| requests.insert("a", &id(number)));
        assert!(requests.may_hold("b", &id(0)), "requests that were not read yet may be there");
        requests.set_complete(true);
        assert!((0..10_000).all(|number| requests.may_hold("a", &id(number))));
        let others = (0..10_000).filter(|&number| requests.may_hold("b", &id(number))).count();
        assert!(others < 20, "{others} of 10000 requests of another tenant");
    }
}
