//! Threads that stay, so that tfhe-rs's thread-local engines are set up once.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use crate::Peer;

/// One standing thread for each core, each with an equal share of a peer's inputs.
pub struct Workers {
    start: Vec<Sender<()>>,
    done: Receiver<()>,
}

impl Workers {
    /// Starts `count` threads.
    pub fn new(peer: &Arc<dyn Peer>, count: usize) -> Self {
        let (finished, done) = channel();
        let share = peer.len().div_ceil(count);
        let start = (0..count).map(|worker| {
            let (start, started) = channel();
            let (peer, finished) = (Arc::clone(peer), finished.clone());
            thread::spawn(move || {
                let share = worker * share..((worker + 1) * share).min(peer.len());
                while started.recv().is_ok() {
                    share.clone().for_each(|index| peer.compute(index));
                    finished.send(()).expect("who started the work waits for it");
                }
            });
            start
        });
        Self { start: start.collect(), done }
    }

    /// Computes on every input once.
    pub fn compute_all(&self) {
        for start in &self.start {
            start.send(()).expect("a worker lives until its sender is dropped");
        }
        for _ in &self.start {
            self.done.recv().expect("a worker has not panicked");
        }
    }
}
