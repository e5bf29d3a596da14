//! The figures of a simulation.

/// Figures of a steady load.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Jobs offered in a simulated second.
    pub offered: f64,
    /// Jobs done in a simulated second.
    pub done: f64,
    /// Processor time of all schedulers in a simulated second, in seconds.
    pub cores: f64,
    /// Events of all schedulers in a simulated second.
    pub events: f64,
    /// Part of the jobs that found their key in memory.
    pub hits: f64,
    /// Jain's index over the tenants' parts of done jobs, for tenants with at least 20 jobs.
    pub fairness: f64,
    /// Mean time from submission to end, in milliseconds.
    pub mean_millis: f64,
    /// This time of 99 of 100 jobs, in milliseconds.
    pub p99_millis: f64,
    /// Workers that moved in a simulated second.
    pub moved: f64,
}

/// Figures of a burst.
#[derive(Clone, Copy, Debug, Default)]
pub struct Burst {
    /// The greatest backlog of the shard, in seconds of each of its workers.
    pub backlog_max: f64,
    /// Seconds from the end of the burst after which no shard has more than twice the average
    /// backlog for each worker, and more than a quarter of a second.
    pub even_seconds: f64,
    /// Seconds from the end of the burst until no shard has more than a quarter of a second.
    pub gone_seconds: Option<f64>,
    /// Most workers that the shard had.
    pub workers_max: u32,
    /// Workers that moved.
    pub moved: u64,
}

/// Jain's index: 1 if all values are equal.
pub(super) fn jain(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (values.len() as f64 * squares) }
}
