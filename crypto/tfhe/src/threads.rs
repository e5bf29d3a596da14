//! Splitting work over scoped threads. No pool, no global state: who calls decides how many.

/// Runs `work(first, part)` on up to `threads` threads, each with a run of whole items of `item_len`
/// elements; `first` is the index of the run's first item.
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
    std::thread::scope(|scope| {
        for (index, elements) in elements.chunks_mut(part * item_len).enumerate() {
            let work = &work;
            scope.spawn(move || work(index * part, elements));
        }
    });
}
