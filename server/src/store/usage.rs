//! The usage of the database by each tenant. Triggers maintain the sums
//! (`migrations/sqlite/0003_usage.sql`, `0006_one_database.sql`).

use cloakwork_keystore::of_shard;
use cloakwork_storage::{Asker, Error, Rows};

use super::Store;

impl Store {
    /// Bytes of a tenant's programs, and of its jobs' inputs and outputs in the database.
    pub async fn inline_bytes(&self, tenant: &str) -> Result<u64, Error> {
        let mut reader = self.database.read(Asker::Tenant(tenant)).await?;
        let query = reader.query("SELECT inline_bytes FROM tenant_usage WHERE tenant = $1");
        let row = query.bind(tenant).optional().await?;
        row.map_or(Ok(0), |row| Ok(row.int("inline_bytes")?.max(0).unsigned_abs()))
    }

    /// Tenants of the shard with more than `most` ended jobs in the store, each with the number of
    /// jobs beyond `most`.
    pub async fn too_many_ended(&self, most: u64) -> Result<Vec<(String, u64)>, Error> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let mut reader = self.database.read(Asker::Upkeep).await?;
        let query = reader.query(concat!(
            "SELECT tenant, ended_jobs - $1 AS beyond FROM tenant_usage WHERE ended_jobs > $1 AND ",
            of_shard!("tenant_usage.tenant", "$2")
        ));
        let rows = query.bind(most).bind(self.database.shard()).all().await?;
        rows.iter().map(|row| Ok((row.text("tenant")?.to_owned(), row.unsigned("beyond")?))).collect()
    }

    /// Deletes a tenant's oldest ended jobs, at most `count`, and returns their number. Jobs whose
    /// outputs are still kept stay.
    pub async fn forget_oldest(&self, tenant: &str, count: u32) -> Result<u64, Error> {
        let mut transaction = self.database.write(Asker::Upkeep, Rows::Tenant(tenant)).await?;
        let deleted = transaction.query(FORGET_OLDEST).bind(tenant).bind(count).execute().await?;
        transaction.commit().await?;
        Ok(deleted)
    }
}

/// The condition on `has_outputs` selects an index over the jobs that may go. A search for rows in
/// `job_outputs` would visit every job whose outputs are kept, while all other writers wait.
pub(super) const FORGET_OLDEST: &str = "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE tenant = $1 AND \
     ended_micros IS NOT NULL AND has_outputs = 0 ORDER BY id LIMIT $2)";
