//! Splitting work over scoped threads. No pool, no global state: who calls decides how many.

use std::{
    sync::{Mutex, PoisonError},
    thread,
};

/// Runs `work(first, part)` on up to `threads` threads, the caller's among them, each with a run of whole items of
/// `item_len` elements; `first` is the index of the run's first item. Where the system has no more threads, fewer do.
pub(crate) fn for_each_part<E: Send>(
    threads: usize,
    item_len: usize,
    elements: &mut [E],
    work: impl Fn(usize, &mut [E]) + Sync,
) {
    let items = elements.len() / item_len;
    let part = items.div_ceil(threads.max(1)).max(1);
    if part >= items {
        return work(0, elements);
    }
    let parts = Mutex::new(elements.chunks_mut(part * item_len).enumerate());
    let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        while let Some((index, elements)) = next() {
            work(index * part, elements);
        }
    };
    thread::scope(|scope| {
        for _ in 1..items.div_ceil(part) {
            if thread::Builder::new().spawn_scoped(scope, run).is_err() {
                break;
            }
        }
        run();
    });
}
