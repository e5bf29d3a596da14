//! Work split over threads. There is no global state: the caller decides the number of threads and
//! how long they stand by.

use std::{
    iter,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rayon::{ThreadPool, ThreadPoolBuilder, Yield};

/// Threads for work in many short pieces. Starting or waking a thread takes as long as transforming
/// a row.
pub struct Team {
    /// The threads, or None if there is only the caller's thread.
    pool: Option<Pool>,
}

struct Pool {
    threads: ThreadPool,
    /// By thread, whether the thread has work of its own under way. That thread does not stand by
    /// for other callers, which may be waiting for that work.
    at_work: Box<[AtomicBool]>,
}

/// Idle time after which a thread on stand-by begins to sleep. This time is longer than most
/// sections in which one thread works for all.
const IDLE_BEFORE_SLEEP: Duration = Duration::from_micros(500);

/// Sleep of a thread on stand-by between two looks for work.
const STAND_BY_SLEEP: Duration = Duration::from_micros(100);

impl Team {
    /// Creates a team of this number of threads, or of as many as the system grants.
    pub fn new(threads: usize) -> Self {
        let mut numbers =
            iter::successors(Some(threads), |threads| Some(threads / 2)).take_while(|threads| *threads > 1);
        let build = |threads| ThreadPoolBuilder::new().num_threads(threads).build().ok();
        let pool = |threads: ThreadPool| {
            let at_work = (0..threads.current_num_threads()).map(|_| AtomicBool::new(false)).collect();
            Pool { threads, at_work }
        };
        Self { pool: numbers.find_map(build).map(pool) }
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, |pool| pool.at_work.len())
    }

    /// Runs `work` on one of the threads, while the others stand by for the pieces that `work`
    /// distributes. With many pieces in turn, no piece has to wake the threads.
    pub fn together<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        let Some(pool) = self.pool.as_ref().filter(|pool| pool.threads.current_thread_index().is_none()) else {
            return work();
        };
        let is_over = &AtomicBool::new(false);
        pool.threads.scope(|scope| {
            let _at_work = pool.begin();
            scope.spawn_broadcast(move |_, thread| {
                if !pool.at_work[thread.index()].load(Ordering::Relaxed) {
                    stand_by(|| is_over.load(Ordering::Acquire));
                }
            });
            let _over = OnLeaving(|| is_over.store(true, Ordering::Release));
            work()
        })
    }

    /// Runs `work` on every item. A thread that completes an item takes the next item.
    pub fn for_each<I>(&self, items: I, work: impl Fn(I::Item) + Sync)
    where
        I: IntoIterator<IntoIter: ExactSizeIterator + Send>,
    {
        let items = items.into_iter();
        let helpers = self.threads().min(items.len()).saturating_sub(1);
        let Some(pool) = self.pool.as_ref().filter(|_| helpers > 0) else { return items.for_each(work) };
        let items = Mutex::new(items);
        let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
        let run = || {
            while let Some(item) = next() {
                work(item);
            }
        };
        let done = AtomicUsize::new(0);
        pool.threads.scope(|scope| {
            let _at_work = pool.begin();
            for _ in 0..helpers {
                scope.spawn(|_| {
                    let _at_work = pool.begin();
                    let _done = OnLeaving(|| _ = done.fetch_add(1, Ordering::Release));
                    run();
                });
            }
            run();
            // Help for a while. The scope waits for helpers that take longer.
            let mut helper = Helper::new();
            while done.load(Ordering::Acquire) < helpers && helper.helps() {}
        });
    }

    /// Runs `work(first, part)` on the threads, each with a range of whole items of `item_len`
    /// elements. `first` is the index of the range's first item.
    pub fn for_each_part<E: Send>(&self, item_len: usize, elements: &mut [E], work: impl Fn(usize, &mut [E]) + Sync) {
        let items = elements.len() / item_len;
        let part = items.div_ceil(self.threads()).max(1);
        if part >= items {
            return work(0, elements);
        }
        let parts = elements.chunks_mut(part * item_len).enumerate();
        self.for_each(parts, |(index, elements)| work(index * part, elements));
    }
}

impl Pool {
    /// Marks this thread as at work until the returned guard is dropped. If the thread was marked
    /// before, the mark stays.
    fn begin(&self) -> impl Drop {
        let flag = self.threads.current_thread_index().map(|index| &self.at_work[index]);
        let before = flag.is_some_and(|flag| flag.swap(true, Ordering::Relaxed));
        OnLeaving(move || {
            if let Some(flag) = flag {
                flag.store(before, Ordering::Relaxed);
            }
        })
    }
}

/// Runs work of other threads on this thread of a pool until `is_over`.
fn stand_by(is_over: impl Fn() -> bool) {
    let mut helper = Helper::new();
    while !is_over() {
        if !helper.helps() {
            thread::sleep(STAND_BY_SLEEP);
        }
    }
}

/// A thread without work of its own.
struct Helper {
    idle_since: Instant,
}

impl Helper {
    fn new() -> Self {
        Self { idle_since: Instant::now() }
    }

    /// Runs one piece of other threads' work, if there is any. Returns whether such work appeared
    /// recently.
    fn helps(&mut self) -> bool {
        if rayon::yield_now() == Some(Yield::Executed) {
            self.idle_since = Instant::now();
            return true;
        }
        // All other work of the machine comes first.
        thread::yield_now();
        self.idle_since.elapsed() < IDLE_BEFORE_SLEEP
    }
}

/// Runs a closure when dropped, in a panic as well.
struct OnLeaving<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnLeaving<F> {
    fn drop(&mut self) {
        self.0();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::HashSet,
        panic::{AssertUnwindSafe, catch_unwind},
        sync::{Barrier, atomic::AtomicU64},
    };

    use super::*;

    #[test]
    fn every_item_is_worked_on_once() {
        for threads in [0, 1, 2, 3, 100] {
            let team = Team::new(threads);
            let check = || {
                let sum = AtomicU64::new(0);
                team.for_each(0..50_u32, |item| {
                    sum.fetch_add(1 << item, Ordering::Relaxed);
                });
                assert_eq!(sum.into_inner(), (1 << 50) - 1);
                let mut elements = [0; 30];
                team.for_each_part(3, &mut elements, |first, part| {
                    part.chunks_mut(3).enumerate().for_each(|(index, item)| item.fill(first + index));
                });
                assert!(elements.iter().enumerate().all(|(index, item)| *item == index / 3));
            };
            check();
            team.together(|| (0..3).for_each(|_| check()));
        }
    }

    #[test]
    fn all_threads_work_at_once_after_sleep_as_well() {
        let team = Team::new(3);
        let seen = Mutex::new(HashSet::new());
        let meet = || {
            let all = Barrier::new(team.threads());
            team.for_each(0..3, |_| {
                all.wait();
                seen.lock().expect("no panic").insert(thread::current().id());
            });
        };
        meet();
        team.together(meet);
        // After this pause, the other threads sleep, and must still take part.
        team.together(|| {
            thread::sleep(2 * IDLE_BEFORE_SLEEP);
            meet();
        });
        assert_eq!(seen.lock().expect("no panic").len(), 3, "the same threads each time");
    }

    #[test]
    fn callers_of_one_team_never_deadlock() {
        let team = Team::new(3);
        let sum = AtomicUsize::new(0);
        let work = || team.for_each(0..20, |_| team.for_each(0..5, |_| _ = sum.fetch_add(1, Ordering::Relaxed)));
        // Repeat often, because a deadlock would need calls at one moment.
        for _ in 0..500 {
            thread::scope(|scope| (0..4).for_each(|_| _ = scope.spawn(|| team.together(work))));
        }
        assert_eq!(sum.into_inner(), 500 * 400);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_team_stays_usable() {
        let team = Team::new(2);
        for bad in [0, 19] {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                team.together(|| team.for_each(0..20, |item| assert_ne!(item, bad, "on purpose")));
            }));
            assert!(caught.is_err());
            assert_eq!(team.together(|| 7), 7);
        }
    }
}
