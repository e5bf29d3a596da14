//! Outputs that clients have fetched or deleted.

use cloakwork_scheduler::JobId;
use cloakwork_storage::{Asker, Error, Rows};

use super::{Store, jobs::job_id};
use crate::jobs::id;

/// How a client finished with an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The last byte was delivered, as far as the server can tell.
    Fetched = 1,
    /// The owner deleted the output.
    Deleted = 2,
}

impl Store {
    /// Records that a client of the tenant is done with an output. Once this holds for all outputs
    /// of the job, they expire at `at_micros`, unless they expire earlier.
    pub async fn done_with(
        &self,
        tenant: &str,
        job: JobId,
        place: u32,
        done: Done,
        at_micros: i64,
    ) -> Result<(), Error> {
        let job = id::to_bytes(job);
        let mut transaction = self.database.write(Asker::Tenant(tenant), Rows::Tenant(tenant)).await?;
        let mark = transaction.query("UPDATE job_outputs SET done = $1 WHERE job = $2 AND place = $3 AND done < $1");
        mark.bind(done as i32).bind(job).bind(place).execute().await?;
        let expire = transaction.query(
            "UPDATE jobs SET outputs_expire_micros = $1 WHERE id = $2 AND outputs_expire_micros > $1 AND \
             NOT EXISTS (SELECT 1 FROM job_outputs WHERE job_outputs.job = jobs.id AND done = 0)",
        );
        expire.bind(at_micros).bind(job).execute().await?;
        transaction.commit().await
    }

    /// Jobs with an output in the key store.
    pub async fn jobs_with_output_blobs(&self) -> Result<Vec<JobId>, Error> {
        let mut reader = self.database.read(Asker::Upkeep).await?;
        let rows = reader.query(STORED).all().await?;
        rows.iter().map(|row| job_id(row, "job")).collect()
    }

    /// Whether the tenant, which owns the job, deleted this output.
    pub async fn is_deleted(&self, tenant: &str, job: JobId, place: u32) -> Result<bool, Error> {
        let mut reader = self.database.read(Asker::Tenant(tenant)).await?;
        let query = reader.query("SELECT done FROM job_outputs WHERE job = $1 AND place = $2");
        let row = query.bind(id::to_bytes(job)).bind(place).optional().await?;
        row.map_or(Ok(false), |row| Ok(row.int("done")? == Done::Deleted as i64))
    }
}

pub(super) const STORED: &str = "SELECT DISTINCT job FROM job_outputs WHERE bytes IS NULL";
