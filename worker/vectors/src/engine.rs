//! One thread that computes jobs, one after the other, each on all processors that it is given.

use std::{
    hash::Hash,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
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
    /// Set by whoever wants the result no more: it is given up before its next step.
    pub is_cancelled: Arc<AtomicBool>,
    /// Called before each step.
    pub progress: Box<dyn Fn() + Send>,
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
    jobs: Option<mpsc::Sender<Job<K>>>,
    is_closed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl<K: Clone + Eq + Hash + Send + 'static> Engine<K> {
    /// Computes on so many threads. `turn` is the work after which another key's jobs are next.
    pub fn start(threads: usize, turn: u64, matrices: Arc<Matrices>) -> std::io::Result<Self> {
        let (jobs, inbox) = mpsc::channel();
        let is_closed = Arc::new(AtomicBool::new(false));
        let closed = is_closed.clone();
        let work = move || serve(&inbox, Line::new(turn), &closed, threads, &matrices);
        let thread = std::thread::Builder::new().name("vectors".to_owned()).spawn(work)?;
        Ok(Self { jobs: Some(jobs), is_closed, thread: Some(thread) })
    }

    /// Takes a job on. How many wait is up to whoever submits them.
    pub fn submit(&self, job: Job<K>) {
        if let Some(Err(mpsc::SendError(job))) = self.jobs.as_ref().map(|jobs| jobs.send(job)) {
            job.give_up();
        }
    }
}

impl<K> Drop for Engine<K> {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl<K> Job<K> {
    fn give_up(self) {
        let now = Instant::now();
        (self.done)(Finished { result: Err(RunError::GivenUp), began: now, ended: now });
    }
}

fn serve<K: Clone + Eq + Hash>(
    inbox: &mpsc::Receiver<Job<K>>,
    mut line: Line<K, Job<K>>,
    is_closed: &AtomicBool,
    threads: usize,
    matrices: &Matrices,
) {
    let push = |line: &mut Line<K, Job<K>>, job: Job<K>| line.push(job.key.clone(), job.program.cost().work, job);
    loop {
        if line.is_empty() {
            match inbox.recv() {
                Ok(job) => push(&mut line, job),
                Err(mpsc::RecvError) => return,
            }
        }
        inbox.try_iter().for_each(|job| push(&mut line, job));
        if let Some((_, job)) = line.pop() {
            compute(job, is_closed, threads, matrices);
        }
    }
}

fn compute<K>(job: Job<K>, is_closed: &AtomicBool, threads: usize, matrices: &Matrices) {
    let Job { program, inputs, keys, is_cancelled, progress, done, .. } = job;
    let began = Instant::now();
    let goes_on = || {
        progress();
        !is_cancelled.load(Ordering::Relaxed) && !is_closed.load(Ordering::Relaxed)
    };
    let work = || run(&program, inputs, &keys, matrices, threads, goes_on);
    // A fault of ours ends one job, and not those that wait.
    let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(RunError::Panicked));
    done(Finished { result, began, ended: Instant::now() });
}
