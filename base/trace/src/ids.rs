//! Identifiers of traces and spans, which are unique and no secrets.

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::{SpanId, TraceId};

/// A generator of identifiers (SplitMix64) with a random start.
#[derive(Debug)]
pub(crate) struct Ids(AtomicU64);

/// The odd number next to 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Ids {
    pub(crate) fn new() -> Self {
        // The standard library draws the keys of a hash map's hasher from the operating system.
        Self(AtomicU64::new(RandomState::new().build_hasher().finish()))
    }

    pub(crate) fn trace(&self) -> TraceId {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.next().to_be_bytes());
        id[8..].copy_from_slice(&self.next().to_be_bytes());
        TraceId(id)
    }

    pub(crate) fn span(&self) -> SpanId {
        SpanId(self.next().to_be_bytes())
    }

    /// A number that is not 0, which means no identifier.
    pub(crate) fn next(&self) -> u64 {
        mixed(self.0.fetch_add(STEP, Relaxed).wrapping_add(STEP)).max(1)
    }
}

/// The output function of SplitMix64, a bijection.
pub(crate) fn mixed(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn identifiers_do_not_repeat() {
        let [first, second] = [(); 2].map(|()| Ids::new());
        let spans: HashSet<_> = (0..10_000).flat_map(|_| [first.span(), second.span()]).collect();
        assert_eq!(spans.len(), 20_000);
        assert_ne!(first.trace(), second.trace());
    }
}
