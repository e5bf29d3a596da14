//! The engine for vectors: one thread that hands jobs to a device, one after the other.

use std::{
    hash::Hash,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Instant,
};

use cloakwork_circuit::ckks::Program;
use cloakwork_ckks::Ciphertext;
use cloakwork_device::{KeySlot, Row, RowError, RowResult, VectorUnit};

use crate::Line;

/// A job for the engine.
pub struct Job<K> {
    /// Key of the job. Jobs under equal keys run one after another.
    pub key: K,
    /// The program.
    pub program: Arc<Program>,
    /// One row of inputs, as the program declares them.
    pub inputs: Vec<Ciphertext>,
    /// All parts of keys that the program names, each once. The caller keeps them on the device
    /// until the job has ended.
    pub parts: Vec<KeySlot>,
    /// Set to cancel the job. The job then stops before its next step, or between the parts of a
    /// long step.
    pub is_cancelled: Arc<AtomicBool>,
    /// Called before each step, and between the parts of a long step.
    pub progress: Box<dyn Fn() + Send + Sync>,
    /// Called exactly once, when the job has ended.
    pub done: Box<dyn FnOnce(Finished) + Send>,
}

/// Outcome of a job.
pub struct Finished {
    /// Outputs and step times, or the error.
    pub result: Result<RowResult, RowError>,
    /// Time at which the job's turn came.
    pub began: Instant,
    /// Time at which the job ended.
    pub ended: Instant,
}

/// Handle of the engine's thread. Dropping the handle gives up all jobs and blocks until the step
/// in progress stops.
pub struct Engine<K> {
    shared: Arc<Shared<K>>,
    thread: Option<JoinHandle<()>>,
}

/// State that the thread and its handle share.
struct Shared<K> {
    waiting: Mutex<Waiting<K>>,
    /// Notified when a job arrives and when the engine closes.
    changed: Condvar,
    is_closed: AtomicBool,
}

type Waiting<K> = Line<K, Job<K>>;

impl<K: Clone + Eq + Hash + Send + 'static> Engine<K> {
    /// Starts the thread, which computes on `unit`. After `turn` units of work under one key, the
    /// next key's jobs are due. The thread calls `beat` with true before each step of a job, and
    /// with false at the end of the job.
    pub fn start(
        unit: Arc<dyn VectorUnit>,
        turn: u64,
        beat: impl Fn(bool) + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let (waiting, changed, is_closed) = (Mutex::new(Line::new(turn)), Condvar::new(), AtomicBool::new(false));
        let shared = Arc::new(Shared { waiting, changed, is_closed });
        let seen = shared.clone();
        let work = move || {
            while let Some(job) = seen.next() {
                compute(job, &seen.is_closed, unit.as_ref(), &beat);
            }
        };
        let thread = std::thread::Builder::new().name("vectors".to_owned()).spawn(work)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Queues a job. The queue has no bound of its own; the caller limits the number of waiting
    /// jobs.
    pub fn submit(&self, job: Job<K>) {
        let work = job.program.cost().work;
        self.shared.waiting().push(job.key.clone(), work, job);
        self.shared.changed.notify_one();
    }

    /// Whether the thread has ended by itself. Only a panic outside of jobs ends it. Jobs that wait
    /// at that time never end.
    pub fn has_died(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Gives up waiting jobs that were cancelled. Their memory is free at once, however long the
    /// running job takes.
    pub fn forget_cancelled(&self) {
        let gone = self.shared.waiting().take(|job| job.is_cancelled.load(Ordering::Relaxed));
        gone.into_iter().for_each(Job::give_up);
    }
}

impl<K: Clone + Eq + Hash> Shared<K> {
    /// Waits for the next job. Returns `None` when the engine is closed.
    fn next(&self) -> Option<Job<K>> {
        let mut waiting = self.waiting();
        while !self.is_closed.load(Ordering::Relaxed) {
            match waiting.pop() {
                Some((_, job)) => return Some(job),
                None => waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            }
        }
        None
    }
}

impl<K> Shared<K> {
    /// No code that runs under this lock computes a job, so that a panic leaves no change of the
    /// queue incomplete.
    fn waiting(&self) -> MutexGuard<'_, Waiting<K>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> Drop for Engine<K> {
    fn drop(&mut self) {
        {
            let _waiting = self.shared.waiting();
            self.shared.is_closed.store(true, Ordering::Relaxed);
        }
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let left = self.shared.waiting().take_all();
        left.into_iter().for_each(Job::give_up);
    }
}

impl<K> Job<K> {
    fn give_up(self) {
        let now = Instant::now();
        (self.done)(Finished { result: Err(RowError::GivenUp), began: now, ended: now });
    }
}

fn compute<K>(job: Job<K>, is_closed: &AtomicBool, unit: &dyn VectorUnit, beat: &(impl Fn(bool) + Sync)) {
    let Job { program, inputs, parts, is_cancelled, progress, done, .. } = job;
    let began = Instant::now();
    let goes_on = || {
        beat(true);
        progress();
        !is_cancelled.load(Ordering::Relaxed) && !is_closed.load(Ordering::Relaxed)
    };
    let work = || unit.compute(Row { program: &program, inputs, parts: &parts, goes_on: &goes_on });
    // The panic ends only this job, which is a bug of ours; the waiting jobs go on.
    let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(RowError::Panicked));
    beat(false);
    done(Finished { result, began, ended: Instant::now() });
}
