//! Splitting work over threads. No global state: who calls decides how many, and for how long they stand by.

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

/// Threads for work that comes in many short pieces: to start some, or to wake one up, takes as long as transforming a row.
pub struct Team {
    /// None where there is one thread, the caller's.
    pool: Option<Pool>,
}

struct Pool {
    threads: ThreadPool,
    /// By thread, whether it has something under way: then it does not stand by for others, who may be waiting for that.
    at_work: Box<[AtomicBool]>,
}

/// A thread that has had nothing to do for so long gets some sleep: it is longer than what one thread does for all mostly takes.
const AWAKE: Duration = Duration::from_micros(500);

/// One that stands by looks for work that often from then on.
const NAP: Duration = Duration::from_micros(100);

impl Team {
    /// Of so many threads, or of those that the system has.
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

    /// How many they are.
    pub fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, |pool| pool.at_work.len())
    }

    /// Does work on one of the threads, while the others stand by for what it has for them to do: of many pieces in turn, none has
    /// to wake them.
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

    /// Runs `work` on every item: a thread that is done takes the next one.
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
            // For a while; the scope waits for those that take longer.
            let mut helper = Helper::new();
            while done.load(Ordering::Acquire) < helpers && helper.helps() {}
        });
    }

    /// Runs `work(first, part)` on the threads, each with a run of whole items of `item_len` elements; `first` is the index of the
    /// run's first item.
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
    /// This thread is at work until what is returned goes, and longer if it has been before.
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

/// Does what there is to do on this thread of a pool.
fn stand_by(is_over: impl Fn() -> bool) {
    let mut helper = Helper::new();
    while !is_over() {
        if !helper.helps() {
            thread::sleep(NAP);
        }
    }
}

/// A thread that has nothing of its own to do.
struct Helper {
    idle_since: Instant,
}

impl Helper {
    fn new() -> Self {
        Self { idle_since: Instant::now() }
    }

    /// Does one thing for others, if there is any. Has there been any of late?
    fn helps(&mut self) -> bool {
        if rayon::yield_now() == Some(Yield::Executed) {
            self.idle_since = Instant::now();
            return true;
        }
        // Whatever else the machine does comes first.
        thread::yield_now();
        self.idle_since.elapsed() < AWAKE
    }
}

/// Does something when it goes, in a panic as well.
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
    fn all_threads_work_at_once_and_those_that_sleep_come_too() {
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
        // Asleep by then, they come all the same.
        team.together(|| {
            thread::sleep(2 * AWAKE);
            meet();
        });
        assert_eq!(seen.lock().expect("no panic").len(), 3, "the same threads each time");
    }

    #[test]
    fn callers_of_one_team_never_wait_for_each_other_for_ever() {
        let team = Team::new(3);
        let sum = AtomicUsize::new(0);
        let work = || team.for_each(0..20, |_| team.for_each(0..5, |_| _ = sum.fetch_add(1, Ordering::Relaxed)));
        // Often, for they would only if they came at the same moment.
        for _ in 0..500 {
            thread::scope(|scope| (0..4).for_each(|_| _ = scope.spawn(|| team.together(work))));
        }
        assert_eq!(sum.into_inner(), 500 * 400);
    }

    #[test]
    fn a_panic_reaches_who_called_and_the_team_goes_on() {
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
