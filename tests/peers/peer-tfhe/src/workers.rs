//! Persistent threads, so that tfhe-rs sets up its thread-local engines only once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use crate::Peer;

/// Persistent threads. Each takes the next of a peer's inputs when it has finished one.
pub struct Workers {
    start: Vec<Sender<()>>,
    taken: Arc<AtomicUsize>,
    done: Receiver<()>,
}

impl Workers {
    /// Starts `count` threads for the peer's first `inputs` inputs.
    pub fn new(peer: &Arc<dyn Peer>, count: usize, inputs: usize) -> Self {
        let (finished, done) = channel();
        let taken = Arc::new(AtomicUsize::new(0));
        let start = (0..count).map(|_| {
            let (start, started) = channel();
            let (peer, finished, taken) = (Arc::clone(peer), finished.clone(), Arc::clone(&taken));
            thread::spawn(move || {
                while started.recv().is_ok() {
                    loop {
                        let index = taken.fetch_add(1, Ordering::Relaxed);
                        if index >= inputs {
                            break;
                        }
                        peer.compute(index);
                    }
                    finished.send(()).expect("the starter of the work waits for its end");
                }
            });
            start
        });
        Self { start: start.collect(), taken: Arc::clone(&taken), done }
    }

    /// Computes on each of the inputs once.
    pub fn compute_all(&self) {
        self.taken.store(0, Ordering::Relaxed);
        for start in &self.start {
            start.send(()).expect("a worker lives until its sender is dropped");
        }
        for _ in &self.start {
            self.done.recv().expect("a worker has not panicked");
        }
    }
}
