//! Outputs that clients have done with.

use cloakwork_scheduler::JobId;

use super::Store;
use crate::jobs::id;

/// What a client has done with an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// Its last byte was delivered, as far as the server can tell.
    Fetched = 1,
    /// Nobody wants it any more.
    Deleted = 2,
}

impl Store {
    /// Notes that a client has done with an output. Once that is so for all of the job's, they expire at `at_micros`,
    /// unless they do so earlier.
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

    /// Jobs of which an output lies in the key store. Scans; for start-up.
    pub async fn jobs_with_output_blobs(&self) -> Result<Vec<JobId>, sqlx::Error> {
        let ids: Vec<Vec<u8>> = sqlx::query_scalar("SELECT DISTINCT job FROM job_outputs WHERE bytes IS NULL")
            .fetch_all(self.database.readers())
            .await?;
        Ok(ids.iter().filter_map(|bytes| id::from_bytes(bytes)).collect())
    }

    /// Was this output deleted by its owner?
    pub async fn is_deleted(&self, job: JobId, place: u32) -> Result<bool, sqlx::Error> {
        let done: Option<i32> = sqlx::query_scalar("SELECT done FROM job_outputs WHERE job = $1 AND place = $2")
            .bind(id::to_bytes(job).to_vec())
            .bind(i64::from(place))
            .fetch_optional(self.database.readers())
            .await?;
        Ok(done == Some(Done::Deleted as i32))
    }
}
