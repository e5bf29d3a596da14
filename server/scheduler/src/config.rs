//! Times and limits.

/// Largest cost that counts. It keeps sums in range, and is weeks of work for any device.
pub const COST_MAX: u64 = 1 << 40;

/// Times and limits of a scheduler. Times are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How long a worker keeps a job without reporting it, and its place without reporting at all.
    pub lease: u64,
    /// How long a job may stand still in a stage that is not waiting.
    pub progress_timeout: u64,
    /// Failed or lost attempts that end a job. Crashes of the worker are counted apart.
    pub attempts_max: u32,
    /// Workers that a job may crash with nothing beside it before it is called poison.
    pub solo_crashes_max: u32,
    /// Unfinished jobs in all.
    pub jobs_max: usize,
    /// Unfinished jobs of a tenant.
    pub jobs_per_tenant_max: usize,
    /// Workers attached at once.
    pub workers_max: usize,
    /// Jobs leased to a worker at once.
    pub leases_per_worker_max: usize,
    /// Resident keys of a worker that are taken note of.
    pub resident_keys_max: usize,
    /// Cost that a tenant is served before it is the next one's turn; about what fills a wave.
    pub quantum: u64,
    /// Cost that jobs whose key is resident may be served ahead of a job of the same tenant that comes before them.
    pub patience: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lease: 15_000_000,
            progress_timeout: 120_000_000,
            attempts_max: 5,
            solo_crashes_max: 3,
            jobs_max: 100_000,
            jobs_per_tenant_max: 10_000,
            workers_max: 256,
            leases_per_worker_max: 4096,
            resident_keys_max: 256,
            quantum: 1024,
            patience: 16 * 1024,
        }
    }
}
