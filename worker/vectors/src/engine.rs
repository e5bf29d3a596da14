//! One thread that computes jobs, one after the other, each on all processors that it is given.

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

use crate::{Keys, Line, Matrices, Run, RunError, run};

/// What is to be computed.
pub struct Job<K> {
    /// Jobs of one key follow one another.
    pub key: K,
    /// The program.
    pub program: Arc<Program>,
    /// A row of inputs, as the program declares them.
    pub inputs: Vec<Ciphertext>,
    /// All keys that the program names.
    pub keys: Arc<Keys>,
    /// Set by whoever wants the result no more: it is given up before its next step, or within one that is of many.
    pub is_cancelled: Arc<AtomicBool>,
    /// Called before each step, and within one that is of many.
    pub progress: Box<dyn Fn() + Send + Sync>,
    /// Told how it ended, always.
    pub done: Box<dyn FnOnce(Finished) + Send>,
}

/// How a job ended.
pub struct Finished {
    /// Its outputs, and what they took.
    pub result: Result<Run, RunError>,
    /// When its turn came.
    pub began: Instant,
    /// When it was over.
    pub ended: Instant,
}

/// A handle on the thread. Dropping it gives up what waits, and waits for the step that is being computed.
pub struct Engine<K> {
    shared: Arc<Shared<K>>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and its handle both see.
struct Shared<K> {
    waiting: Mutex<Waiting<K>>,
    /// Told when a job comes, and when none will.
    changed: Condvar,
    is_closed: AtomicBool,
}

type Waiting<K> = Line<K, Job<K>>;

impl<K: Clone + Eq + Hash + Send + 'static> Engine<K> {
    /// Computes on so many threads. `turn` is the work after which another key's jobs are next. `beat` is told that it is busy
    /// before each step of a job, and that it is not at the end of one.
    pub fn start(
        threads: usize,
        turn: u64,
        matrices: Arc<Matrices>,
        beat: impl Fn(bool) + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let (waiting, changed, is_closed) = (Mutex::new(Line::new(turn)), Condvar::new(), AtomicBool::new(false));
        let shared = Arc::new(Shared { waiting, changed, is_closed });
        let seen = shared.clone();
        let work = move || {
            while let Some(job) = seen.next() {
                compute(job, &seen.is_closed, threads, &matrices, &beat);
            }
        };
        let thread = std::thread::Builder::new().name("vectors".to_owned()).spawn(work)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Takes a job on. How many wait is up to whoever submits them.
    pub fn submit(&self, job: Job<K>) {
        let work = job.program.cost().work;
        self.shared.waiting().push(job.key.clone(), work, job);
        self.shared.changed.notify_one();
    }

    /// Has the thread ended by itself? It does so only in a panic outside of jobs, and the jobs that wait stay without an end.
    pub fn has_died(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Gives up jobs that wait and were cancelled: what they hold is free at once, however long the job before them takes.
    pub fn forget_cancelled(&self) {
        let gone = self.shared.waiting().take(|job| job.is_cancelled.load(Ordering::Relaxed));
        gone.into_iter().for_each(Job::give_up);
    }
}

impl<K: Clone + Eq + Hash> Shared<K> {
    /// The next job, once there is one; none when the engine is closed.
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
    /// A panic leaves nothing half done: jobs are computed outside.
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
        (self.done)(Finished { result: Err(RunError::GivenUp), began: now, ended: now });
    }
}

fn compute<K>(job: Job<K>, is_closed: &AtomicBool, threads: usize, matrices: &Matrices, beat: &(impl Fn(bool) + Sync)) {
    let Job { program, inputs, keys, is_cancelled, progress, done, .. } = job;
    let began = Instant::now();
    let goes_on = || {
        beat(true);
        progress();
        !is_cancelled.load(Ordering::Relaxed) && !is_closed.load(Ordering::Relaxed)
    };
    let work = || run(&program, inputs, &keys, matrices, threads, goes_on);
    // A fault of ours ends one job, and not those that wait.
    let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(RunError::Panicked));
    beat(false);
    // Whoever is told may let others have the room.
    drop(keys);
    done(Finished { result, began, ended: Instant::now() });
}
