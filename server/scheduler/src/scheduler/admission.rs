//! Admission of jobs: limits on the number of unfinished jobs.

use super::Scheduler;
use crate::types::TenantId;

/// A job was refused because too many jobs are unfinished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{used} of at most {max} jobs {limit} are unfinished; wait for some to end, about {retry_after} microseconds")]
pub struct Refusal {
    /// The limit that was reached.
    pub limit: Limit,
    /// Unfinished jobs under this limit.
    pub used: usize,
    /// The limit's value.
    pub max: usize,
    /// Microseconds until a tenth of these jobs should be done, at the recent pace.
    pub retry_after: u64,
}

/// A limit on unfinished jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// Limit on the jobs of all tenants together.
    Jobs,
    /// Limit on the jobs of one tenant.
    JobsPerTenant,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Jobs => "of the server",
            Self::JobsPerTenant => "of this tenant",
        })
    }
}

impl Scheduler {
    /// Whether a job of this tenant may be submitted now. Ask directly before
    /// [`crate::Event::Submitted`]. That event is never refused, because the job may already be
    /// durable. `own_max` replaces the configured number of jobs of a tenant.
    pub fn admit(&self, tenant: TenantId, own_max: Option<usize>) -> Result<(), Refusal> {
        let of_tenant = self.tenants.get(&tenant).copied().unwrap_or_default();
        let limits = [
            (Limit::Jobs, self.total, self.config.jobs_max),
            (Limit::JobsPerTenant, of_tenant, own_max.unwrap_or(self.config.jobs_per_tenant_max)),
        ];
        match limits.into_iter().find(|(_, load, max)| load.jobs >= *max) {
            None => Ok(()),
            Some((limit, load, max)) => {
                // Assumes that each tenant gets an equal share of the pace, as it does while all
                // tenants want a share.
                let sharers = if limit == Limit::Jobs { 1 } else { self.tenants.len() as u128 };
                let retry_after = self.meter.wait_for(load.cost / 10 * sharers);
                Err(Refusal { limit, used: load.jobs, max, retry_after })
            }
        }
    }
}
