//! Deletion of tenants with everything that they have.

use std::time::Duration;

use cloakwork_clock::unix_micros_after;
use cloakwork_keystore::TenantId;

use super::{SWEEP_ROWS_MAX, Sweeper, text};
use crate::dispatch::Dispatcher;

/// Time after the operator's request in which the tenant's last calls end. Tokens that were checked
/// before are refused after 2 s, and calls that go on are ended.
const CALLS_END: Duration = Duration::from_secs(10);

/// Number of jobs that one transaction deletes.
const JOBS_PER_TRANSACTION: u32 = 64;

impl Sweeper {
    /// Goes on with the deletion of each tenant whose deletion the operator asked for.
    pub(super) async fn tenants(&self, dispatcher: &Dispatcher) -> Result<(), String> {
        for (tenant, since_micros) in self.store.deleting_tenants().await.map_err(text)? {
            if self.delete(dispatcher, &tenant, since_micros).await? {
                tracing::info!(tenant, "a tenant was deleted with everything that it had");
            }
        }
        Ok(())
    }

    /// Deletes what can be deleted now. Returns whether nothing of the tenant is left.
    async fn delete(&self, dispatcher: &Dispatcher, tenant: &str, since_micros: i64) -> Result<bool, String> {
        let live = self.store.live_jobs_of(tenant, SWEEP_ROWS_MAX).await.map_err(text)?;
        for job in &live {
            dispatcher.cancel(tenant, *job).await.map_err(text)?;
        }
        while self.store.delete_ended_jobs(tenant, JOBS_PER_TRANSACTION).await.map_err(text)? > 0 {}
        let calls_end = self.clock.unix_micros() >= unix_micros_after(since_micros, CALLS_END);
        let left = self.store.live_jobs_of(tenant, 1).await.map_err(text)?;
        if !left.is_empty() || !calls_end {
            return Ok(false);
        }
        while self.store.delete_programs(tenant, SWEEP_ROWS_MAX).await.map_err(text)? > 0 {}
        let id = TenantId::new(tenant).map_err(text)?;
        // An upload that still has a writer is found again in the next round.
        for _ in 0..PURGES_PER_ROUND_MAX {
            if !self.keystore.purge_tenant(&id).await.map_err(text)? {
                return self.store.delete_tenant(tenant).await.map_err(text);
            }
        }
        Ok(false)
    }
}

/// Maximum number of steps of one deletion in a round. Other tenants need the sweep too.
const PURGES_PER_ROUND_MAX: usize = 256;
