//! Threads that stay, so that tfhe-rs's thread-local engines are set up once.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use crate::Peer;

/// Standing threads, each with an equal share of a peer's inputs.
pub struct Workers {
    start: Vec<Sender<()>>,
    done: Receiver<()>,
}

impl Workers {
    /// Starts `count` threads for the peer's first `inputs` inputs.
    pub fn new(peer: &Arc<dyn Peer>, count: usize, inputs: usize) -> Self {
        let (finished, done) = channel();
        let share = inputs.div_ceil(count);
        let start = (0..count).map(|worker| {
            let (start, started) = channel();
            let (peer, finished) = (Arc::clone(peer), finished.clone());
            thread::spawn(move || {
                let share = worker * share..((worker + 1) * share).min(inputs);
                while started.recv().is_ok() {
                    share.clone().for_each(|index| peer.compute(index));
                    finished.send(()).expect("who started the work waits for it");
                }
            });
            start
        });
        Self { start: start.collect(), done }
    }

    /// Computes on each of these inputs once.
    pub fn compute_all(&self) {
        for start in &self.start {
            start.send(()).expect("a worker lives until its sender is dropped");
        }
        for _ in &self.start {
            self.done.recv().expect("a worker has not panicked");
        }
    }
}
