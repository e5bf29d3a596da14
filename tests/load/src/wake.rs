//! The time that this machine takes to wake a thread. A job passes through several threads and
//! processes, and each of them has to be woken while the service is idle.

use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use crate::{
    report::{Report, Row, percentile},
    single::millis,
};

/// Time between two wake-ups, about that of a bootstrap. The other core goes to sleep meanwhile.
const BUSY: Duration = Duration::from_millis(8);

/// Number of wake-ups in a round.
const COUNT: usize = 100;

/// Measures the time from a message to its arrival at a thread that sleeps, while this thread's
/// core is busy.
pub(crate) fn measure(rounds: usize, report: &mut Report) {
    let (sender, receiver) = mpsc::channel::<Instant>();
    let sleeper = thread::spawn(move || receiver.into_iter().map(|sent| millis(sent.elapsed()) * 1e3).collect());
    for _ in 0..rounds * COUNT {
        let begun = Instant::now();
        while begun.elapsed() < BUSY {
            std::hint::spin_loop();
        }
        sender.send(Instant::now()).expect("the thread runs");
    }
    drop(sender);
    let mut delays: Vec<f64> = sleeper.join().expect("no panic");
    let medians: Vec<f64> = delays.chunks_mut(COUNT).map(|round| percentile(round, 0.5)).collect();
    report.add(Row::of("waking a thread that sleeps, p50", "us", &medians));
}
