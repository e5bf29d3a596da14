//! The compute threads, and the queue of waves whose tasks they take.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, PoisonError},
};

use cloakwork_device::{Curve, CurvePoint, Waker};

use super::run::Run;
use crate::locked::Locked as _;

/// Waves in order of submission.
pub(super) struct Pool {
    queue: Mutex<Queue>,
    more: Condvar,
    waker: Mutex<Option<Waker>>,
    curve: Mutex<Curve>,
    threads: usize,
}

#[derive(Default)]
struct Queue {
    /// Each wave with the number of its tasks already taken. The queue has no bound of its own; the
    /// engine submits only a few waves at a time.
    waves: VecDeque<(Arc<Run>, usize)>,
    idle: usize,
    closed: bool,
}

impl Pool {
    pub(super) fn new(threads: usize) -> Self {
        Self {
            queue: Mutex::default(),
            more: Condvar::new(),
            waker: Mutex::default(),
            curve: Mutex::default(),
            threads,
        }
    }

    pub(super) fn push(&self, run: Arc<Run>) {
        if run.tasks() == 0 {
            return self.wake();
        }
        self.queue.locked().waves.push_back((run, 0));
        self.more.notify_all();
    }

    pub(super) fn has_room(&self) -> bool {
        let queue = self.queue.locked();
        queue.waves.is_empty() && queue.idle > 0
    }

    pub(super) fn set_waker(&self, waker: Waker) {
        *self.waker.locked() = Some(waker);
    }

    pub(super) fn curve(&self) -> Vec<CurvePoint> {
        self.curve.locked().points()
    }

    pub(super) fn close(&self) {
        self.queue.locked().closed = true;
        self.more.notify_all();
    }

    /// Loop of a compute thread. Returns when the pool is closed.
    pub(super) fn work(&self) {
        while let Some((run, task)) = self.next() {
            if run.run_task(task) {
                self.curve.locked().record(run.set(), run.width(), run.busy(self.threads));
                self.wake();
            }
        }
    }

    /// Waits for the next task. Returns `None` when the pool is closed.
    fn next(&self) -> Option<(Arc<Run>, usize)> {
        let mut queue = self.queue.locked();
        loop {
            if queue.closed {
                return None;
            }
            if let Some((run, taken)) = queue.waves.front_mut() {
                let (run, task) = (run.clone(), *taken);
                *taken += 1;
                if *taken == run.tasks() {
                    queue.waves.pop_front();
                }
                return Some((run, task));
            }
            queue.idle += 1;
            self.wake();
            queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.locked().as_ref() {
            waker();
        }
    }
}
