//! Waves in the order that they came, and the threads that compute them, one for each GPU.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use cloakwork_device::{Curve, CurvePoint, DeviceError, Waker};

use crate::{bench::Bench, gpu::DriverError, run::Run};

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
    /// Why a GPU does nothing any more, and with it the device.
    lost: Option<String>,
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

    /// Are the GPUs there?
    pub(crate) fn check(&self) -> Result<(), DeviceError> {
        self.lost().map_or(Ok(()), |message| Err(DeviceError::Lost { message }))
    }

    /// Which of them is not, and why.
    pub(crate) fn lost(&self) -> Option<String> {
        self.state().lost.clone()
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
            if let Err(error) = self.check().and_then(|()| self.compute(bench, &run, part)) {
                run.fail(error);
            }
            let (set, width) = (run.set(), run.width());
            if let Some(took) = Run::end(run) {
                self.state().curve.record(set, width, took);
            }
            self.wake();
        }
    }

    fn compute(&self, bench: &Bench, run: &Run, part: usize) -> Result<(), DeviceError> {
        // A panic in a wave is that wave's end, not the device's.
        let result = catch_unwind(AssertUnwindSafe(|| run.compute(part, bench)));
        let result = result.unwrap_or(Err(DriverError::Misfit("the wave's launch panicked")));
        if let Err(DriverError::Lost(message)) = &result {
            let gpu = bench.driver.describe().name;
            tracing::error!(number = bench.number, gpu, message, "a GPU is lost: the device takes no more work");
            self.state().lost = Some(format!("GPU {}, {gpu}: {message}", bench.number));
        }
        Ok(result?)
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
