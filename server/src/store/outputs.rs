//! Outputs that clients have fetched or deleted.

use cloakwork_scheduler::JobId;

use super::Store;
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
    /// Records that a client is done with an output. Once this holds for all outputs of the job,
    /// they expire at `at_micros`, unless they expire earlier.
    pub async fn done_with(&self, job: JobId, place: u32, done: Done, at_micros: i64) -> Result<(), sqlx::Error> {
        let job = id::to_bytes(job).to_vec();
        let mut transaction = self.database.write().await?;
        sqlx::query("UPDATE job_outputs SET done = $1 WHERE job = $2 AND place = $3 AND done < $1")
            .bind(done as i32)
            .bind(job.clone())
            .bind(i64::from(place))
            .execute(&mut *transaction)
            .await?;
        sqlx::query(
            "UPDATE jobs SET outputs_expire_micros = $1 WHERE id = $2 AND outputs_expire_micros > $1 AND \
             NOT EXISTS (SELECT 1 FROM job_outputs WHERE job_outputs.job = jobs.id AND done = 0)",
        )
        .bind(at_micros)
        .bind(job)
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await
    }

    /// Jobs with an output in the key store. The query scans the table, so it is for start-up only.
    pub async fn jobs_with_output_blobs(&self) -> Result<Vec<JobId>, sqlx::Error> {
        let ids: Vec<Vec<u8>> = sqlx::query_scalar("SELECT DISTINCT job FROM job_outputs WHERE bytes IS NULL")
            .fetch_all(self.database.readers())
            .await?;
        Ok(ids.iter().filter_map(|bytes| id::from_bytes(bytes)).collect())
    }

    /// Whether the owner deleted this output.
    pub async fn is_deleted(&self, job: JobId, place: u32) -> Result<bool, sqlx::Error> {
        let done: Option<i32> = sqlx::query_scalar("SELECT done FROM job_outputs WHERE job = $1 AND place = $2")
            .bind(id::to_bytes(job).to_vec())
            .bind(i64::from(place))
            .fetch_optional(self.database.readers())
            .await?;
        Ok(done == Some(Done::Deleted as i32))
    }
}
