//! Waves in the order of their arrival, and the threads that compute them, one for each GPU.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use cloakwork_device::{Curve, CurvePoint, Waker};

use crate::{
    bench::Bench,
    gpu::{DriverError, Stream},
    locked::locked,
    run::Run,
};

/// Waiting waves, and the state of the threads. The code that submits waves bounds their number.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    /// Waiting waves, each with the number of parts already taken.
    waves: VecDeque<(Arc<Run>, usize)>,
    /// Number of threads that wait for a part.
    idle: usize,
    is_closed: bool,
    waker: Option<Waker>,
    curve: Curve,
}

/// Time for which a thread without work polls before it sleeps. Programs run wave after wave, and
/// the next wave follows within this time. A thread that sleeps would wake late for each of them.
const POLL_TIME: Duration = Duration::from_micros(300);

impl Queue {
    /// Enqueues a wave.
    pub(crate) fn push(&self, run: Run) {
        let run = Arc::new(run);
        if run.parts() == 0 {
            Run::end(run);
            return self.wake();
        }
        self.state().waves.push_back((run, 0));
        self.more.notify_all();
    }

    pub(crate) fn has_room(&self) -> bool {
        self.state().has_room()
    }

    pub(crate) fn set_waker(&self, waker: Waker) {
        self.state().waker = Some(waker);
    }

    pub(crate) fn curve(&self) -> Vec<CurvePoint> {
        self.state().curve.points()
    }

    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.more.notify_all();
    }

    /// Main loop of a GPU's thread, until the queue is closed.
    pub(crate) fn work(&self, bench: &Bench) {
        while let Some((run, part)) = self.next() {
            if let Err(error) = compute(bench, &run, part) {
                run.fail(error.into());
            }
            let (set, width) = (run.set(), run.width());
            if let Some(took) = Run::end(run) {
                self.state().curve.record(set, width, took);
            }
            self.wake();
        }
    }

    /// Waits for the next part. Returns nothing once the queue is closed.
    fn next(&self) -> Option<(Arc<Run>, usize)> {
        let mut state = self.state();
        if !state.has_more() {
            state.idle += 1;
            drop(state);
            // A submitter that was woken when the last part ended may have found no room, because
            // this thread was not idle yet. The waker is called without the lock, because it is
            // code of others.
            self.wake();
            let waited = self.more.wait_while(self.poll(), |state| !state.has_more());
            state = waited.unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
        let taken = state.take();
        // The wave has no part for the other idle threads, so that there is room again.
        let has_room = state.has_room();
        drop(state);
        if taken.is_some() && has_room {
            self.wake();
        }
        taken
    }

    /// Polls for [`POLL_TIME`] at most.
    fn poll(&self) -> MutexGuard<'_, State> {
        let began = Instant::now();
        loop {
            let state = self.state();
            if state.has_more() || began.elapsed() >= POLL_TIME {
                return state;
            }
            drop(state);
            std::thread::yield_now();
        }
    }

    fn wake(&self) {
        let waker = self.state().waker.clone();
        if let Some(waker) = waker {
            waker();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }
}

impl State {
    fn has_room(&self) -> bool {
        self.waves.is_empty() && self.idle > 0
    }

    /// Whether a thread has something to do: a part, or to end.
    fn has_more(&self) -> bool {
        self.is_closed || !self.waves.is_empty()
    }

    /// Takes the next part, if the queue is open and has one.
    fn take(&mut self) -> Option<(Arc<Run>, usize)> {
        let (run, taken) = self.waves.front_mut().filter(|_| !self.is_closed)?;
        let (run, part) = (run.clone(), *taken);
        *taken += 1;
        // After the last part, only the threads that compute the wave hold it, so that the last of
        // them ends it.
        if *taken == run.parts() {
            self.waves.pop_front();
        }
        Some((run, part))
    }
}

/// Computes a part. When this function returns, no work of the part is in flight, unless the GPU is
/// lost.
fn compute(bench: &Bench, run: &Run, part: usize) -> Result<(), DriverError> {
    // A panic in a wave ends that wave and not the device.
    let result = catch_unwind(AssertUnwindSafe(|| run.compute(part, bench)));
    let result = result.unwrap_or(Err(DriverError::Misfit("the wave's launch panicked")));
    // Work that was launched before the failure still uses slots and memory for which others wait.
    result.or_else(|error| bench.finish(Stream::Waves, 0).and(Err(error)))
}
