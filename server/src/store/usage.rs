//! The usage of the database by each tenant. Triggers maintain the sums
//! (`migrations/sqlite/0003_usage.sql`).

use super::Store;

impl Store {
    /// Bytes of a tenant's programs, and of its jobs' inputs and outputs in the database.
    pub async fn inline_bytes(&self, tenant: &str) -> Result<u64, sqlx::Error> {
        let bytes: Option<i64> = sqlx::query_scalar("SELECT inline_bytes FROM tenant_usage WHERE tenant = $1")
            .bind(tenant.to_owned())
            .fetch_optional(self.database.readers())
            .await?;
        Ok(bytes.unwrap_or(0).max(0).unsigned_abs())
    }

    /// Tenants with more than `most` ended jobs in the store, each with the number of jobs beyond
    /// `most`.
    pub async fn too_many_ended(&self, most: u64) -> Result<Vec<(String, u64)>, sqlx::Error> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows: Vec<(String, i64)> =
            sqlx::query_as("SELECT tenant, ended_jobs - $1 FROM tenant_usage WHERE ended_jobs > $1")
                .bind(most)
                .fetch_all(self.database.readers())
                .await?;
        Ok(rows.into_iter().map(|(tenant, beyond)| (tenant, beyond.max(0).unsigned_abs())).collect())
    }

    /// Deletes a tenant's oldest ended jobs, at most `count`, and returns their number. Jobs whose
    /// outputs are still kept stay.
    pub async fn forget_oldest(&self, tenant: &str, count: u32) -> Result<u64, sqlx::Error> {
        let mut transaction = self.database.write().await?;
        let deleted = sqlx::query(
            "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE tenant = $1 AND ended_micros IS NOT NULL AND \
             NOT EXISTS (SELECT 1 FROM job_outputs WHERE job_outputs.job = jobs.id) ORDER BY id LIMIT $2)",
        )
        .bind(tenant.to_owned())
        .bind(i64::from(count))
        .execute(&mut *transaction)
        .await?
        .rows_affected();
        transaction.commit().await?;
        Ok(deleted)
    }
}
