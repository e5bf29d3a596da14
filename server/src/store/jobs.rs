//! Queries about jobs.

use std::sync::Arc;

use bytes::Bytes;
use cloakwork_circuit::ProgramId;
use cloakwork_params::{AnySet, KeyId, SetId};
use cloakwork_proto::v1::{JobError, JobState, LatencyRecord};
use cloakwork_scheduler::JobId;
use futures_util::TryStreamExt as _;
use prost::Message as _;
use sqlx::{QueryBuilder, Row as _, Sqlite, sqlite::SqliteRow};

use super::Store;
use crate::{
    database::Survival,
    jobs::{Content, End, JobMeta, JobView, cost_of_blocks, id},
};

/// A page of jobs, newest first.
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<JobView>,
    /// The last job of this page, before which the next page begins. None on the last page.
    pub next: Option<JobId>,
}

/// A job that had not ended when the server stopped, with the scheduler's state of it.
pub struct LiveJob {
    /// The job's metadata.
    pub meta: Arc<JobMeta>,
    /// The worker that held the job, if any.
    pub worker: Option<u128>,
    /// Number of failed and lost attempts so far.
    pub attempts: u32,
    /// Fencing epoch of the latest attempt.
    pub epoch: u64,
    /// The job's group of suspects, if it is a suspect.
    pub suspect: Option<u64>,
    /// Number of workers that the job crashed while it ran alone.
    pub solo_crashes: u32,
}

impl Store {
    /// Prepares the store, before any other call. The call fills the filter of known requests, and
    /// deletes the inputs of jobs that ended directly before a crash.
    pub async fn begin(&self) -> Result<(), sqlx::Error> {
        let mut rows = sqlx::query("SELECT tenant, request_id FROM jobs").fetch(self.database.readers());
        while let Some(row) = rows.try_next().await? {
            self.requests.insert(row.try_get("tenant")?, &array(&row, "request_id")?);
        }
        let sql = "DELETE FROM job_inputs WHERE job NOT IN (SELECT id FROM jobs WHERE ended_micros IS NULL)";
        self.database
            .apply(Survival::Crash, |batch| {
                batch.push(sql);
            })
            .await
    }

    /// The job that the request with this ID created.
    pub async fn job_by_request(&self, tenant: &str, request_id: &[u8; 16]) -> Result<Option<JobView>, sqlx::Error> {
        if !self.requests.may_hold(tenant, request_id) {
            return Ok(None);
        }
        let row = sqlx::query("SELECT * FROM jobs WHERE tenant = $1 AND request_id = $2")
            .bind(tenant.to_owned())
            .bind(request_id.to_vec())
            .fetch_optional(self.database.readers())
            .await?;
        match row {
            Some(row) => Ok(Some(self.view(&row, true).await?)),
            None => Ok(None),
        }
    }

    /// A tenant's job. Outputs are read only if `with_outputs` is set.
    pub async fn job(&self, tenant: &str, job: JobId, with_outputs: bool) -> Result<Option<JobView>, sqlx::Error> {
        let row = sqlx::query("SELECT * FROM jobs WHERE id = $1 AND tenant = $2")
            .bind(id::to_bytes(job).to_vec())
            .bind(tenant.to_owned())
            .fetch_optional(self.database.readers())
            .await?;
        match row {
            Some(row) => Ok(Some(self.view(&row, with_outputs).await?)),
            None => Ok(None),
        }
    }

    /// A tenant's jobs before `before`, newest first, in the given states (in all states if
    /// `states` is empty). The outputs are left out.
    pub async fn jobs(
        &self,
        tenant: &str,
        states: &[JobState],
        before: Option<JobId>,
        count: u32,
    ) -> Result<JobPage, sqlx::Error> {
        let mut query: QueryBuilder<Sqlite> = QueryBuilder::new("SELECT * FROM jobs");
        query.push(" WHERE tenant = ").push_bind(tenant.to_owned());
        if let Some(before) = before {
            query.push(" AND id < ").push_bind(id::to_bytes(before).to_vec());
        }
        if !states.is_empty() {
            query.push(" AND state IN (");
            let mut list = query.separated(", ");
            for state in states {
                list.push_bind(*state as i32);
            }
            query.push(")");
        }
        // The extra row tells whether another page follows.
        query.push(" ORDER BY id DESC LIMIT ").push_bind(i64::from(count) + 1);
        let rows = query.build().fetch_all(self.database.readers()).await?;
        let more = rows.len() > count as usize;
        let mut jobs = Vec::with_capacity(rows.len());
        for row in rows.iter().take(count as usize) {
            jobs.push(self.view(row, false).await?);
        }
        let next = jobs.last().filter(|_| more).map(|job| job.meta.id);
        Ok(JobPage { jobs, next })
    }

    /// Every job that has not ended, oldest first.
    pub async fn live_jobs(&self) -> Result<Vec<LiveJob>, sqlx::Error> {
        let rows = sqlx::query("SELECT * FROM jobs WHERE ended_micros IS NULL ORDER BY id")
            .fetch_all(self.database.readers())
            .await?;
        rows.iter().map(live_job).collect()
    }

    /// The inputs of a job.
    pub async fn inputs(&self, job: JobId) -> Result<Vec<Content>, sqlx::Error> {
        let query = sqlx::query("SELECT digest, size_bytes, bytes FROM job_inputs WHERE job = $1 ORDER BY place");
        let rows = query.bind(id::to_bytes(job).to_vec()).fetch_all(self.database.readers()).await?;
        rows.iter().map(content).collect()
    }

    /// The outputs of a job. Empty once the outputs have expired.
    pub async fn outputs(&self, job: JobId) -> Result<Vec<Content>, sqlx::Error> {
        let query = sqlx::query("SELECT digest, size_bytes, bytes FROM job_outputs WHERE job = $1 ORDER BY place");
        let rows = query.bind(id::to_bytes(job).to_vec()).fetch_all(self.database.readers()).await?;
        rows.iter().map(content).collect()
    }

    /// At most `count` ended jobs whose outputs expired before `now_micros`.
    pub async fn expired_outputs(&self, now_micros: i64, count: u32) -> Result<Vec<JobId>, sqlx::Error> {
        let ids: Vec<Vec<u8>> = sqlx::query_scalar(
            "SELECT id FROM jobs WHERE outputs_expire_micros < $1 AND \
             EXISTS (SELECT 1 FROM job_outputs WHERE job_outputs.job = jobs.id) LIMIT $2",
        )
        .bind(now_micros)
        .bind(i64::from(count))
        .fetch_all(self.database.readers())
        .await?;
        Ok(ids.iter().filter_map(|bytes| id::from_bytes(bytes)).collect())
    }

    /// Deletes the outputs of a job.
    pub async fn drop_outputs(&self, job: JobId) -> Result<(), sqlx::Error> {
        let mut transaction = self.database.write().await?;
        sqlx::query("DELETE FROM job_outputs WHERE job = $1")
            .bind(id::to_bytes(job).to_vec())
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await
    }

    /// Deletes at most `count` jobs that ended before `before_micros`, and returns their number.
    /// Jobs whose outputs are still kept stay.
    pub async fn forget_jobs(&self, before_micros: i64, count: u32) -> Result<u64, sqlx::Error> {
        let mut transaction = self.database.write().await?;
        let deleted = sqlx::query(
            "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE ended_micros < $1 AND \
             NOT EXISTS (SELECT 1 FROM job_outputs WHERE job_outputs.job = jobs.id) LIMIT $2)",
        )
        .bind(before_micros)
        .bind(i64::from(count))
        .execute(&mut *transaction)
        .await?
        .rows_affected();
        transaction.commit().await?;
        Ok(deleted)
    }

    /// Whether a live job of the tenant uses this key.
    pub async fn key_in_use(&self, tenant: &str, key_id: KeyId) -> Result<bool, sqlx::Error> {
        let count: i64 =
            sqlx::query_scalar("SELECT COUNT(*) FROM jobs WHERE ended_micros IS NULL AND tenant = $1 AND key_id = $2")
                .bind(tenant.to_owned())
                .bind(key_id.0.to_vec())
                .fetch_one(self.database.readers())
                .await?;
        Ok(count > 0)
    }

    /// Workers that ran inside earlier processes of this server.
    pub async fn embedded_workers(&self) -> Result<Vec<u128>, sqlx::Error> {
        let ids: Vec<Vec<u8>> =
            sqlx::query_scalar("SELECT id FROM embedded_workers").fetch_all(self.database.readers()).await?;
        ids.into_iter().map(|id| id.try_into().map(u128::from_be_bytes).map_err(|_| corrupt("worker"))).collect()
    }

    /// Records the embedded worker of this process. Earlier embedded workers are deleted once no
    /// job names them.
    pub async fn begin_embedded_worker(&self, worker: u128) -> Result<(), sqlx::Error> {
        let mut transaction = self.database.write().await?;
        sqlx::query(
            "DELETE FROM embedded_workers WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE worker = embedded_workers.id)",
        )
        .execute(&mut *transaction)
        .await?;
        sqlx::query("INSERT INTO embedded_workers (id) VALUES ($1)")
            .bind(worker.to_be_bytes().to_vec())
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await
    }

    async fn view(&self, row: &SqliteRow, with_outputs: bool) -> Result<JobView, sqlx::Error> {
        let meta = meta(row)?;
        let state = JobState::try_from(row.try_get::<i32, _>("state")?).unwrap_or(JobState::Unspecified);
        let ended: Option<i64> = row.try_get("ended_micros")?;
        let end = match ended {
            None => None,
            Some(ended_micros) => {
                let outputs = if with_outputs { self.outputs(meta.id).await? } else { Vec::new() };
                Some(Arc::new(end(row, state, ended_micros, outputs)?))
            }
        };
        let attempts = number(row, "epoch")? as u32;
        Ok(JobView { meta: Arc::new(meta), state, rows_done: 0, stage: None, attempts, end })
    }
}

fn end(row: &SqliteRow, state: JobState, ended_micros: i64, outputs: Vec<Content>) -> Result<End, sqlx::Error> {
    let reason: Option<String> = row.try_get("reason")?;
    let message: Option<String> = row.try_get("message")?;
    let latency: Option<Vec<u8>> = row.try_get("latency")?;
    Ok(End {
        state,
        ended_micros,
        outputs_expire_micros: row.try_get("outputs_expire_micros")?,
        error: reason.map(|reason| JobError { reason, message: message.unwrap_or_default() }),
        outputs,
        latency: match latency {
            Some(bytes) => LatencyRecord::decode(&bytes[..]).map_err(corrupt)?,
            None => LatencyRecord::default(),
        },
    })
}

fn meta(row: &SqliteRow) -> Result<JobMeta, sqlx::Error> {
    let set: i32 = row.try_get("parameter_set")?;
    let set = u16::try_from(set).ok().and_then(|set| AnySet::find(SetId(set)));
    let set = set.ok_or_else(|| corrupt("no such set"))?;
    let (rows, pbs_count) = (number(row, "row_count")?, number(row, "pbs_count")?);
    let cost: Option<i64> = row.try_get("cost")?;
    let known_cost = set.tfhe().map(|set| cost_of_blocks(set, pbs_count, rows));
    let tenant: String = row.try_get("tenant")?;
    Ok(JobMeta {
        id: JobId(u128::from_be_bytes(array(row, "id")?)),
        tenant: tenant.into(),
        request_id: array(row, "request_id")?,
        request_digest: array(row, "request_digest")?,
        program: ProgramId(array(row, "program")?),
        key_id: KeyId(array(row, "key_id")?),
        set,
        rows,
        pbs_count,
        cost: cost.map(|cost| cost as u64).or(known_cost).ok_or_else(|| corrupt("no cost"))?,
        priority: row.try_get::<i32, _>("priority")?.clamp(-10, 10) as i8,
        inline_outputs: row.try_get::<i32, _>("inline_outputs")? != 0,
        keep_outputs_micros: row.try_get("keep_outputs_micros")?,
        created_micros: row.try_get("created_micros")?,
        deadline_micros: row.try_get("deadline_micros")?,
    })
}

fn live_job(row: &SqliteRow) -> Result<LiveJob, sqlx::Error> {
    let worker: Option<Vec<u8>> = row.try_get("worker")?;
    let worker = worker.map(|bytes| bytes.try_into().map(u128::from_be_bytes).map_err(|_| corrupt("worker")));
    let suspect: Option<i64> = row.try_get("suspect")?;
    Ok(LiveJob {
        meta: Arc::new(meta(row)?),
        worker: worker.transpose()?,
        attempts: number(row, "attempts")? as u32,
        epoch: number(row, "epoch")?,
        suspect: suspect.map(|group| group as u64),
        solo_crashes: number(row, "solo_crashes")? as u32,
    })
}

fn content(row: &SqliteRow) -> Result<Content, sqlx::Error> {
    let bytes: Option<Vec<u8>> = row.try_get("bytes")?;
    Ok(Content { digest: array(row, "digest")?, size_bytes: number(row, "size_bytes")?, bytes: bytes.map(Bytes::from) })
}

fn number(row: &SqliteRow, column: &'static str) -> Result<u64, sqlx::Error> {
    Ok(row.try_get::<i64, _>(column)? as u64)
}

fn array<const N: usize>(row: &SqliteRow, column: &'static str) -> Result<[u8; N], sqlx::Error> {
    row.try_get::<Vec<u8>, _>(column)?.try_into().map_err(|_| corrupt(column))
}

fn corrupt(what: impl std::fmt::Display) -> sqlx::Error {
    sqlx::Error::Decode(format!("a job's row is damaged: {what}").into())
}
