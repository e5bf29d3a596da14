//! Splitting work over scoped threads. No pool, no global state: who calls decides how many.

use std::{
    sync::{Mutex, PoisonError},
    thread,
};

/// Runs `work` on every item, on up to `threads` threads, the caller's among them: a thread that is done takes the next
/// one. Where the system has no more threads, fewer do.
pub fn for_each<I>(threads: usize, items: I, work: impl Fn(I::Item) + Sync)
where
    I: IntoIterator<IntoIter: ExactSizeIterator + Send>,
{
    let items = items.into_iter();
    let threads = threads.min(items.len());
    if threads < 2 {
        return items.for_each(work);
    }
    let items = Mutex::new(items);
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        while let Some(item) = next() {
            work(item);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            if thread::Builder::new().spawn_scoped(scope, run).is_err() {
                break;
            }
        }
        run();
    });
}

/// Runs `work(first, part)` on up to `threads` threads, each with a run of whole items of `item_len` elements; `first` is
/// the index of the run's first item.
pub fn for_each_part<E: Send>(
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
    let parts = elements.chunks_mut(part * item_len).enumerate();
    for_each(threads, parts, |(index, elements)| work(index * part, elements));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn every_item_is_worked_on_once() {
        for threads in [0, 1, 2, 3, 100] {
            let sum = AtomicU64::new(0);
            for_each(threads, 0..50_u32, |item| {
                sum.fetch_add(1 << item, Ordering::Relaxed);
            });
            assert_eq!(sum.into_inner(), (1 << 50) - 1);
            let mut elements = [0; 30];
            for_each_part(threads, 3, &mut elements, |first, part| {
                part.chunks_mut(3).enumerate().for_each(|(index, item)| item.fill(first + index));
            });
            assert!(elements.iter().enumerate().all(|(index, item)| *item == index / 3));
        }
    }
}
