//! Times and limits.

/// Maximum cost of a job; a larger cost counts as this one. The bound keeps sums in range, and it
/// is weeks of work for any device.
pub const COST_MAX: u64 = 1 << 40;

/// Times and limits of a scheduler. Times are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How long a lease lasts after a worker's last report of the job. A worker that sends no
    /// report at all for this time is removed.
    pub lease_micros: u64,
    /// How long a job may make no progress in a stage other than waiting.
    pub progress_timeout_micros: u64,
    /// Number of failed or lost attempts that ends a job. Crashes of the worker are counted
    /// separately.
    pub attempts_max: u32,
    /// Number of workers that a job may crash while it runs alone before it counts as a poison job.
    pub solo_crashes_max: u32,
    /// Maximum number of unfinished jobs in total.
    pub jobs_max: usize,
    /// Maximum number of unfinished jobs of a tenant.
    pub jobs_per_tenant_max: usize,
    /// Maximum number of attached workers.
    pub workers_max: usize,
    /// Maximum number of jobs leased to a worker at a time.
    pub leases_per_worker_max: usize,
    /// Bytes of leased jobs at which a worker gets no further jobs. The owner keeps the bytes of
    /// leased jobs in memory.
    pub leased_bytes_per_worker_max: u64,
    /// Maximum number of a worker's resident keys that the scheduler records.
    pub resident_keys_max: usize,
    /// Cost that a tenant is served before the next tenant's turn: about the cost that fills a
    /// wave.
    pub quantum_cost: u64,
    /// Maximum cost that a tenant's jobs with a resident key may be served ahead of the tenant's
    /// first job.
    pub overtaking_cost_max: u64,
    /// Maximum number of checks that wait or run.
    pub checks_max: usize,
    /// Maximum number of checks on a worker at a time.
    pub checks_per_worker_max: usize,
    /// Maximum number of quarantined workers that the scheduler remembers.
    pub quarantined_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lease_micros: 15_000_000,
            progress_timeout_micros: 120_000_000,
            attempts_max: 5,
            solo_crashes_max: 3,
            jobs_max: 100_000,
            jobs_per_tenant_max: 10_000,
            workers_max: 256,
            leases_per_worker_max: 4096,
            leased_bytes_per_worker_max: 256 << 20,
            resident_keys_max: 256,
            quantum_cost: 1024,
            overtaking_cost_max: 16 * 1024,
            checks_max: 256,
            checks_per_worker_max: 8,
            quarantined_max: 4096,
        }
    }
}
