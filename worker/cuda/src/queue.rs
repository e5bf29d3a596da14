//! Waves in the order that they came, and the threads that compute them, one for each GPU.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use cloakwork_device::{Curve, CurvePoint, Waker};

use crate::{
    bench::Bench,
    gpu::{DriverError, Stream},
    run::Run,
};

/// Waves that wait, and what the threads are doing. Whoever submits bounds their number.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    /// Each with the number of parts already taken.
    waves: VecDeque<(Arc<Run>, usize)>,
    idle: usize,
    is_closed: bool,
    waker: Option<Waker>,
    curve: Curve,
}

impl Queue {
    /// Takes a wave on.
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
        let state = self.state();
        state.waves.is_empty() && state.idle > 0
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

    /// What a GPU's thread does until the queue is closed.
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

    /// The next part, waited for.
    fn next(&self) -> Option<(Arc<Run>, usize)> {
        let mut state = self.state();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some((run, taken)) = state.waves.front_mut() {
                let part = *taken;
                *taken += 1;
                // With its last part, the wave is only with those who compute it.
                let is_last = *taken == run.parts();
                let run = run.clone();
                if is_last {
                    state.waves.pop_front();
                }
                return Some((run, part));
            }
            state.idle += 1;
            // Whoever heard of the last part's end may have found no room yet.
            if let Some(waker) = &state.waker {
                waker();
            }
            state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    fn wake(&self) {
        let waker = self.state().waker.clone();
        if let Some(waker) = waker {
            waker();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Computes a part. Whatever becomes of it, nothing of it is under way any more when this returns, unless the GPU is lost.
fn compute(bench: &Bench, run: &Run, part: usize) -> Result<(), DriverError> {
    // A panic in a wave is that wave's end, not the device's.
    let result = catch_unwind(AssertUnwindSafe(|| run.compute(part, bench)));
    let result = result.unwrap_or(Err(DriverError::Misfit("the wave's launch panicked")));
    // What was launched before something went wrong still uses slots and memory that others wait for.
    result.or_else(|error| bench.finish(Stream::Waves, 0).and(Err(error)))
}
