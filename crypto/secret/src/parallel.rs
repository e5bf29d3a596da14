//! Work on secrets with several threads. The result does not depend on the number of threads.

use std::sync::Mutex;

use cloakwork_math::random::SecretRng;

/// Number of threads that the machine runs at once.
pub(crate) fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs `work(state, index, item, rng)` on every item of `item_len` elements. The last may be
/// shorter.
///
/// Each item has its own generator, forked from `rng` in the order of the items. The outcome
/// therefore does not depend on which thread takes which item. Each thread makes its own `state`.
pub(crate) fn for_each<E: Send, X>(
    threads: usize,
    item_len: usize,
    elements: &mut [E],
    rng: &mut SecretRng,
    state: impl Fn() -> X + Sync,
    work: impl Fn(&mut X, usize, &mut [E], &mut SecretRng) + Sync,
) {
    let items = elements.len().div_ceil(item_len);
    let queue = Mutex::new((elements.chunks_mut(item_len).enumerate(), rng));
    let take = || {
        let mut queue = queue.lock().expect("no thread panics while it holds the queue");
        let (items, rng) = &mut *queue;
        items.next().map(|(index, item)| (index, item, rng.fork()))
    };
    let run = || {
        let mut state = state();
        while let Some((index, item, mut rng)) = take() {
            work(&mut state, index, item, &mut rng);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, items.max(1)) {
            scope.spawn(run);
        }
        run();
    });
}
