//! Queries about jobs.

use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use cloakwork_circuit::{ProgramId, operation_named};
use cloakwork_keystore::{Releasing, of_shard};
use cloakwork_params::{AnySet, KeyId, SetId};
use cloakwork_proto::v1::{Attestation, JobError, JobState, LatencyRecord};
use cloakwork_scheduler::JobId;
use cloakwork_storage::{Asker, Batch, Connection, Error, Row, Rows, Survival};
use cloakwork_trace::TraceContext;
use prost::Message as _;

use super::Store;
use crate::jobs::{Content, End, JobMeta, JobView, cost_of_blocks, id};

/// Number of jobs that one query for the filter of known requests reads.
const REQUESTS_READ: i64 = 10_000;

/// Number of inputs that one query for the inputs of ended jobs reads.
const INPUTS_READ: i64 = 1024;

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
    /// Bytes of the job's program and of its inputs in the store.
    pub work_bytes: u64,
}

impl Store {
    /// Prepares the store, before any other call. On a file, the call fills the filter of known
    /// requests. A database of a server may hold more jobs than a takeover can wait for.
    pub async fn begin(&self) -> Result<(), Error> {
        if self.database.is_on_server() { Ok(()) } else { self.remember_requests().await }
    }

    /// Deletes the inputs of jobs of this shard that ended directly before a crash. Goes through
    /// the inputs of all jobs in pages. One statement for all of them could take longer than a
    /// takeover may wait, and would lock rows that the owners of other shards change.
    pub async fn drop_leftover_inputs(&self) -> Result<(), Error> {
        let mut after = Vec::new();
        loop {
            let mut reader = self.database.read(Asker::Upkeep).await?;
            let query = reader.query("SELECT job FROM job_inputs WHERE job > $1 ORDER BY job LIMIT $2");
            let rows = query.bind(&after[..]).bind(INPUTS_READ).all().await?;
            drop(reader);
            let jobs: BTreeSet<[u8; 16]> = rows.iter().map(|row| row.array("job")).collect::<Result<_, _>>()?;
            let Some(last) = jobs.last() else { return Ok(()) };
            after = last.to_vec();
            let shard = self.database.shard();
            self.database
                .apply(Asker::Upkeep, Rows::All, Survival::Crash, |batch| {
                    let mut rows = batch.each(DROP_LEFTOVER_INPUTS);
                    jobs.iter().for_each(|job| _ = rows.row().bind(*job).bind(shard));
                })
                .await?;
        }
    }

    /// Fills the filter of known requests. Until its end, every request is looked up.
    pub async fn remember_requests(&self) -> Result<(), Error> {
        let mut after = Vec::new();
        loop {
            let mut reader = self.database.read(Asker::Upkeep).await?;
            let query = reader.query("SELECT id, tenant, request_id FROM jobs WHERE id > $1 ORDER BY id LIMIT $2");
            let rows = query.bind(&after[..]).bind(REQUESTS_READ).all().await?;
            for row in &rows {
                self.requests.insert(row.text("tenant")?, &row.array("request_id")?);
            }
            match rows.last() {
                Some(last) => after = last.bytes("id")?.to_vec(),
                None => break,
            }
        }
        self.requests.set_complete(true);
        Ok(())
    }

    /// Has every request looked up from now on, because tenants may come with jobs of other
    /// servers.
    pub fn look_up_requests(&self) {
        self.requests.set_complete(false);
    }

    /// The metadata of the job that the request with this ID created.
    pub async fn meta_by_request(&self, tenant: &str, request_id: &[u8; 16]) -> Result<Option<JobMeta>, Error> {
        if !self.requests.may_hold(tenant, request_id) {
            return Ok(None);
        }
        let mut reader = self.database.read(Asker::Tenant(tenant)).await?;
        let query = reader.query("SELECT * FROM jobs WHERE tenant = $1 AND request_id = $2");
        query.bind(tenant).bind(*request_id).optional().await?.as_ref().map(meta).transpose()
    }

    /// A tenant's job. Outputs are read only if `with_outputs` is set.
    pub async fn job(&self, tenant: &str, job: JobId, with_outputs: bool) -> Result<Option<JobView>, Error> {
        let mut reader = self.database.read(Asker::Tenant(tenant)).await?;
        let query = reader.query("SELECT * FROM jobs WHERE id = $1 AND tenant = $2");
        let row = query.bind(id::to_bytes(job)).bind(tenant).optional().await?;
        view(&mut reader, row, with_outputs).await
    }

    /// A tenant's jobs before `before`, newest first, in the given states (in all states if
    /// `states` is empty). The outputs are left out.
    pub async fn jobs(
        &self,
        tenant: &str,
        states: &[JobState],
        before: Option<JobId>,
        count: u32,
    ) -> Result<JobPage, Error> {
        let before = before.map_or(AFTER_ALL_IDS.to_vec(), |before| id::to_bytes(before).to_vec());
        let mut reader = self.database.read(Asker::Tenant(tenant)).await?;
        let sql = if states.is_empty() { PAGE } else { PAGE_OF_STATES.as_str() };
        // The extra row tells whether another page follows.
        let query = reader.query(sql).bind(tenant).bind(before).bind(i64::from(count) + 1);
        let wanted = STATES.iter().filter(|_| !states.is_empty());
        let wanted = wanted.map(|state| states.contains(state).then_some(*state as i32));
        let rows = wanted.fold(query, |query, state| query.bind(state)).all().await?;
        page_of(&rows, count)
    }

    /// The jobs of all tenants before `before`, newest first. The outputs are left out.
    pub async fn all_jobs(&self, before: Option<JobId>, count: u32) -> Result<JobPage, Error> {
        let before = before.map_or(AFTER_ALL_IDS.to_vec(), |before| id::to_bytes(before).to_vec());
        let mut reader = self.database.read(Asker::Upkeep).await?;
        let query = reader.query("SELECT * FROM jobs WHERE id < $1 ORDER BY id DESC LIMIT $2");
        let rows = query.bind(before).bind(i64::from(count) + 1).all().await?;
        page_of(&rows, count)
    }

    /// Every job of the shard that has not ended, oldest first.
    pub async fn live_jobs(&self) -> Result<Vec<LiveJob>, Error> {
        let mut reader = self.database.read(Asker::Server).await?;
        let rows = reader.query(LIVE).bind(self.database.shard()).all().await?;
        rows.iter().map(live_job).collect()
    }

    /// The ID of every job of the shard that has not ended.
    pub async fn live_ids(&self) -> Result<Vec<JobId>, Error> {
        let mut reader = self.database.read(Asker::Server).await?;
        let query = reader
            .query(concat!("SELECT id FROM jobs WHERE ended_micros IS NULL AND ", of_shard!("jobs.tenant", "$1")));
        let rows = query.bind(self.database.shard()).all().await?;
        rows.iter().map(|row| job_id(row, "id")).collect()
    }

    /// Number of jobs of the shard that have not ended.
    pub async fn live_count(&self) -> Result<u64, Error> {
        let mut reader = self.database.read(Asker::Server).await?;
        let query = reader.query(concat!(
            "SELECT count(*) AS live FROM jobs WHERE ended_micros IS NULL AND ",
            of_shard!("jobs.tenant", "$1")
        ));
        Ok(query.bind(self.database.shard()).one().await?.int("live")?.unsigned_abs())
    }

    /// The inputs of a job, for a worker.
    pub async fn inputs(&self, job: JobId) -> Result<Vec<Content>, Error> {
        let mut reader = self.database.read(Asker::Server).await?;
        let query = reader.query("SELECT digest, size_bytes, bytes FROM job_inputs WHERE job = $1 ORDER BY place");
        let rows = query.bind(id::to_bytes(job)).all().await?;
        rows.iter().map(content).collect()
    }

    /// At most `count` ended jobs of the shard whose outputs expired before `now_micros`.
    pub async fn expired_outputs(&self, now_micros: i64, count: u32) -> Result<Vec<JobId>, Error> {
        let mut reader = self.database.read(Asker::Upkeep).await?;
        let rows = reader.query(EXPIRED).bind(now_micros).bind(self.database.shard()).bind(count).all().await?;
        rows.iter().map(|row| job_id(row, "id")).collect()
    }

    /// Deletes the outputs of jobs, and releases the blobs among them. Few jobs at a time keep the
    /// transaction short.
    pub async fn drop_outputs(&self, jobs: &[JobId]) -> Result<(), Error> {
        let delete = |batch: &mut Batch| {
            for sql in ["DELETE FROM job_outputs WHERE job = $1", "UPDATE jobs SET has_outputs = 0 WHERE id = $1"] {
                let mut rows = batch.each(sql);
                jobs.iter().for_each(|job| _ = rows.row().bind(id::to_bytes(*job)));
            }
            let mut releases = Releasing::of(batch);
            jobs.iter().for_each(|job| releases.add(&id::output_holder(*job)));
        };
        self.database.apply(Asker::Upkeep, Rows::All, Survival::PowerFailure, delete).await
    }

    /// Deletes at most `count` jobs of the shard that ended before `before_micros`, and returns
    /// their number. Jobs whose outputs are still kept stay.
    pub async fn forget_jobs(&self, before_micros: i64, count: u32) -> Result<u64, Error> {
        let mut transaction = self.database.write(Asker::Upkeep, Rows::All).await?;
        let deleted = transaction
            .query(FORGET_ENDED)
            .bind(before_micros)
            .bind(self.database.shard())
            .bind(count)
            .execute()
            .await?;
        transaction.commit().await?;
        Ok(deleted)
    }

    /// Whether a live job of the tenant uses this key.
    pub async fn key_in_use(&self, tenant: &str, key_id: KeyId) -> Result<bool, Error> {
        let mut reader = self.database.read(Asker::Tenant(tenant)).await?;
        let query =
            reader.query("SELECT 1 FROM jobs WHERE ended_micros IS NULL AND tenant = $1 AND key_id = $2 LIMIT 1");
        Ok(query.bind(tenant).bind(key_id.0).optional().await?.is_some())
    }

    /// Workers that ran inside earlier processes of this server.
    pub async fn embedded_workers(&self) -> Result<Vec<u128>, Error> {
        let mut reader = self.database.read(Asker::Server).await?;
        let query = reader.query("SELECT id FROM embedded_workers WHERE shard = $1");
        let rows = query.bind(self.database.shard()).all().await?;
        rows.iter().map(|row| Ok(u128::from_be_bytes(row.array("id")?))).collect()
    }

    /// Records the embedded worker of this process. Earlier embedded workers are deleted once no
    /// job names them.
    pub async fn begin_embedded_worker(&self, worker: u128) -> Result<(), Error> {
        let mut transaction = self.database.write(Asker::Server, Rows::All).await?;
        transaction
            .query(
                "DELETE FROM embedded_workers WHERE shard = $1 \
                 AND NOT EXISTS (SELECT 1 FROM jobs WHERE worker = embedded_workers.id)",
            )
            .bind(self.database.shard())
            .execute()
            .await?;
        let insert = transaction.query("INSERT INTO embedded_workers (id, shard) VALUES ($1, $2)");
        insert.bind(worker.to_be_bytes()).bind(self.database.shard()).execute().await?;
        transaction.commit().await
    }
}

/// The unfinished jobs of a shard, with the bytes of their work.
const LIVE: &str = concat!(
    "SELECT jobs.*, COALESCE((SELECT CAST(SUM(LENGTH(bytes)) AS BIGINT) FROM job_inputs WHERE job = jobs.id), 0) + \
     COALESCE((SELECT LENGTH(bytes) FROM programs WHERE tenant = jobs.tenant AND digest = jobs.program), 0) \
     AS work_bytes FROM jobs WHERE ended_micros IS NULL AND ",
    of_shard!("jobs.tenant", "$1"),
    " ORDER BY id"
);

/// Sorts after the bytes of every job ID, which are fewer.
const AFTER_ALL_IDS: [u8; 17] = [0xff; 17];

/// The states of jobs.
const STATES: [JobState; 5] =
    [JobState::Queued, JobState::Running, JobState::Succeeded, JobState::Failed, JobState::Cancelled];

const PAGE: &str = "SELECT * FROM jobs WHERE tenant = $1 AND id < $2 ORDER BY id DESC LIMIT $3";

const DROP_LEFTOVER_INPUTS: &str = concat!(
    "DELETE FROM job_inputs WHERE job = $1 AND EXISTS \
     (SELECT 1 FROM jobs WHERE jobs.id = job_inputs.job AND ended_micros IS NOT NULL AND ",
    of_shard!("jobs.tenant", "$2"),
    ")"
);

/// A page of jobs in some states. The query reads a page of each state from an index. A condition
/// on the state alone would read all jobs of a tenant that has none in this state. A state that is
/// not wanted is null, and equals none.
pub(super) static PAGE_OF_STATES: LazyLock<String> = LazyLock::new(|| {
    let of_state = |place: usize| {
        format!(
            "SELECT id FROM (SELECT id FROM jobs WHERE tenant = $1 AND state = ${place} AND id < $2 \
             ORDER BY id DESC LIMIT $3) AS state_{place}"
        )
    };
    let pages: Vec<String> = (4..4 + STATES.len()).map(of_state).collect();
    format!("SELECT * FROM jobs WHERE id IN ({}) ORDER BY id DESC LIMIT $3", pages.join(" UNION ALL "))
});

pub(super) const EXPIRED: &str = concat!(
    "SELECT id FROM jobs WHERE outputs_expire_micros < $1 AND has_outputs = 1 AND ",
    of_shard!("jobs.tenant", "$2"),
    " LIMIT $3"
);

/// The condition on `has_outputs` selects an index over the jobs that may go. A search for rows in
/// `job_outputs` would visit every job whose outputs are kept.
pub(super) const FORGET_ENDED: &str = concat!(
    "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE ended_micros < $1 AND has_outputs = 0 AND ",
    of_shard!("jobs.tenant", "$2"),
    " LIMIT $3)"
);

/// A page of at most `count` jobs. An extra row tells whether another page follows.
fn page_of(rows: &[Row], count: u32) -> Result<JobPage, Error> {
    let jobs: Vec<JobView> =
        rows.iter().take(count as usize).map(|row| view_of(row, Vec::new())).collect::<Result<_, _>>()?;
    let next = jobs.last().filter(|_| rows.len() > count as usize).map(|job| job.meta.id);
    Ok(JobPage { jobs, next })
}

async fn view(reader: &mut Connection, row: Option<Row>, with_outputs: bool) -> Result<Option<JobView>, Error> {
    let Some(row) = row else { return Ok(None) };
    let outputs = match with_outputs {
        true => outputs(reader, job_id(&row, "id")?).await?,
        false => Vec::new(),
    };
    view_of(&row, outputs).map(Some)
}

async fn outputs(reader: &mut Connection, job: JobId) -> Result<Vec<Content>, Error> {
    let query = reader.query("SELECT digest, size_bytes, bytes FROM job_outputs WHERE job = $1 ORDER BY place");
    let rows = query.bind(id::to_bytes(job)).all().await?;
    rows.iter().map(content).collect()
}

fn view_of(row: &Row, outputs: Vec<Content>) -> Result<JobView, Error> {
    let state = JobState::try_from(row.small::<i32>("state")?).unwrap_or(JobState::Unspecified);
    let end = match row.int_or_null("ended_micros")? {
        Some(ended_micros) => Some(Arc::new(end(row, state, ended_micros, outputs)?)),
        None => None,
    };
    let attempts = bits(row, "epoch")? as u32;
    Ok(JobView { meta: Arc::new(meta(row)?), state, rows_done: 0, stage: None, attempts, end })
}

fn end(row: &Row, state: JobState, ended_micros: i64, outputs: Vec<Content>) -> Result<End, Error> {
    let reason = row.text_or_null("reason")?.map(str::to_owned);
    let message = row.text_or_null("message")?.unwrap_or_default().to_owned();
    Ok(End {
        state,
        ended_micros,
        outputs_expire_micros: row.int_or_null("outputs_expire_micros")?,
        error: reason.map(|reason| JobError { reason, message }),
        outputs,
        latency: match row.bytes_or_null("latency")? {
            Some(bytes) => LatencyRecord::decode(bytes).map_err(corrupt)?,
            None => LatencyRecord::default(),
        },
        attestation: row.bytes_or_null("attestation")?.map(Attestation::decode).transpose().map_err(corrupt)?,
    })
}

fn meta(row: &Row) -> Result<JobMeta, Error> {
    let set = AnySet::find(SetId(row.small("parameter_set")?)).ok_or_else(|| corrupt("no such set"))?;
    let (rows, pbs_count) = (bits(row, "row_count")?, bits(row, "pbs_count")?);
    let cost = row.int_or_null("cost")?.map(|cost| cost as u64);
    let known_cost = set.tfhe().map(|set| cost_of_blocks(set, pbs_count, rows));
    Ok(JobMeta {
        id: job_id(row, "id")?,
        tenant: row.text("tenant")?.into(),
        request_id: row.array("request_id")?,
        request_digest: row.array("request_digest")?,
        program: ProgramId(row.array("program")?),
        key_id: KeyId(row.array("key_id")?),
        set,
        operation: row.text_or_null("operation")?.and_then(operation_named).unwrap_or_default(),
        trace: row.bytes_or_null("trace")?.and_then(TraceContext::from_bytes),
        rows,
        pbs_count,
        cost: cost.or(known_cost).ok_or_else(|| corrupt("no cost"))?,
        priority: row.int("priority")?.clamp(-10, 10) as i8,
        inline_outputs: row.flag("inline_outputs")?,
        keep_outputs_micros: row.int("keep_outputs_micros")?,
        created_micros: row.int("created_micros")?,
        deadline_micros: row.int("deadline_micros")?,
    })
}

fn live_job(row: &Row) -> Result<LiveJob, Error> {
    Ok(LiveJob {
        meta: Arc::new(meta(row)?),
        worker: row.array_or_null("worker")?.map(u128::from_be_bytes),
        attempts: bits(row, "attempts")? as u32,
        epoch: bits(row, "epoch")?,
        suspect: row.int_or_null("suspect")?.map(|group| group as u64),
        solo_crashes: bits(row, "solo_crashes")? as u32,
        work_bytes: row.unsigned("work_bytes")?,
    })
}

fn content(row: &Row) -> Result<Content, Error> {
    Ok(Content {
        digest: row.array("digest")?,
        size_bytes: bits(row, "size_bytes")?,
        bytes: row.bytes_or_null("bytes")?.map(Bytes::copy_from_slice),
    })
}

pub(super) fn job_id(row: &Row, column: &str) -> Result<JobId, Error> {
    Ok(JobId(u128::from_be_bytes(row.array(column)?)))
}

/// A number of 64 bits, stored as the integer with the same bits.
fn bits(row: &Row, column: &str) -> Result<u64, Error> {
    Ok(row.int(column)? as u64)
}

fn corrupt(what: impl std::fmt::Display) -> Error {
    Error::Damaged(format!("a job: {what}"))
}
