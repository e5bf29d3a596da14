//! Job events a second on one core, with more and more jobs in the queue: `bench_scheduler [SECONDS]`.
//!
//! Prints a line of JSON for each length and one for the ratio of the last to the first.

#![forbid(unsafe_code)]

use std::time::Duration;

use cloakwork_scheduler::rate::{TENANTS, events_per_second};

const LENGTHS: [usize; 3] = [1_000, 10_000, 100_000];

fn main() {
    let seconds = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(1.0);
    let mut rates = Vec::new();
    for length in LENGTHS {
        let rate = events_per_second(length, Duration::from_secs_f64(seconds));
        println!("{{\"queued\":{length},\"tenants\":{TENANTS},\"events_per_second\":{rate:.0}}}");
        rates.push(rate);
    }
    let ratio = rates[LENGTHS.len() - 1] / rates[0];
    println!("{{\"rate_at_{}_over_rate_at_{}\":{ratio:.2}}}", LENGTHS[LENGTHS.len() - 1], LENGTHS[0]);
}
