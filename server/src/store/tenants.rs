//! Rows of tenants that are deleted.

use cloakwork_keystore::of_shard;
use cloakwork_scheduler::JobId;
use cloakwork_storage::{Asker, Batch, Error, Rows, Survival};

use super::{Store, jobs::job_id};
use crate::jobs::id;

impl Store {
    /// Tenants of the shard that are being deleted, each with the time of the operator's request.
    pub async fn deleting_tenants(&self) -> Result<Vec<(String, i64)>, Error> {
        let mut reader = self.database.read(Asker::Upkeep).await?;
        let query = reader.query(concat!(
            "SELECT name, deleting_micros FROM tenants WHERE deleting_micros IS NOT NULL AND ",
            of_shard!("tenants.name", "$1"),
            " ORDER BY deleting_micros, name"
        ));
        let rows = query.bind(self.database.shard()).all().await?;
        rows.iter().map(|row| Ok((row.text("name")?.to_owned(), row.int("deleting_micros")?))).collect()
    }

    /// At most `count` unfinished jobs of a tenant.
    pub async fn live_jobs_of(&self, tenant: &str, count: u32) -> Result<Vec<JobId>, Error> {
        let mut reader = self.database.read(Asker::Upkeep).await?;
        let query = reader.query("SELECT id FROM jobs WHERE tenant = $1 AND ended_micros IS NULL LIMIT $2");
        query.bind(tenant).bind(count).all().await?.iter().map(|row| job_id(row, "id")).collect()
    }

    /// Deletes at most `count` ended jobs of a tenant, with their inputs and outputs. Returns their
    /// number.
    pub async fn delete_ended_jobs(&self, tenant: &str, count: u32) -> Result<u64, Error> {
        let mut reader = self.database.read(Asker::Upkeep).await?;
        let query = reader.query("SELECT id FROM jobs WHERE tenant = $1 AND ended_micros IS NOT NULL LIMIT $2");
        let rows = query.bind(tenant).bind(count).all().await?;
        drop(reader);
        let jobs: Vec<JobId> = rows.iter().map(|row| job_id(row, "id")).collect::<Result<_, _>>()?;
        if !jobs.is_empty() {
            let delete = |batch: &mut Batch| {
                // The triggers that count bytes find a content's tenant through its job.
                for sql in [
                    "DELETE FROM job_inputs WHERE job = $1",
                    "DELETE FROM job_outputs WHERE job = $1",
                    "DELETE FROM jobs WHERE id = $1",
                ] {
                    let mut rows = batch.each(sql);
                    jobs.iter().for_each(|job| _ = rows.row().bind(id::to_bytes(*job)));
                }
            };
            self.database.apply(Asker::Upkeep, Rows::Tenant(tenant), Survival::PowerFailure, delete).await?;
        }
        Ok(jobs.len() as u64)
    }

    /// Deletes at most `count` programs of a tenant that has no job. Returns their number.
    pub async fn delete_programs(&self, tenant: &str, count: u32) -> Result<u64, Error> {
        let mut write = self.database.write(Asker::Upkeep, Rows::Tenant(tenant)).await?;
        self.programs.forget();
        let delete = write.query(
            "DELETE FROM programs WHERE (tenant, digest) IN (
                SELECT tenant, digest FROM programs WHERE tenant = $1 LIMIT $2)",
        );
        let deleted = delete.bind(tenant).bind(count).execute().await?;
        write.commit().await?;
        Ok(deleted)
    }

    /// Deletes a tenant that has neither jobs nor programs, with its tokens. Returns false if it
    /// has some.
    pub async fn delete_tenant(&self, tenant: &str) -> Result<bool, Error> {
        let mut write = self.database.write(Asker::Upkeep, Rows::All).await?;
        for rest in ["SELECT 1 FROM jobs WHERE tenant = $1 LIMIT 1", "SELECT 1 FROM programs WHERE tenant = $1 LIMIT 1"]
        {
            if write.query(rest).bind(tenant).optional().await?.is_some() {
                return Ok(false);
            }
        }
        for sql in [
            "DELETE FROM tenant_usage WHERE tenant = $1",
            "DELETE FROM usage_days WHERE tenant = $1",
            "DELETE FROM tenant_limits WHERE tenant = $1",
            "DELETE FROM tokens WHERE tenant = $1",
            "DELETE FROM tenants WHERE name = $1 AND deleting_micros IS NOT NULL",
        ] {
            write.query(sql).bind(tenant).execute().await?;
        }
        write.commit().await?;
        Ok(true)
    }
}
