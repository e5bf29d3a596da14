//! The parts of a server that operators see and change. The service on the operator port and the
//! console share them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::RangeInclusive,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use cloakwork_clock::{Clock, unix_day};
use cloakwork_params::{AnySet, KeyId, SetId};
use cloakwork_proto::v1::JobState;
use cloakwork_scheduler::JobId;
use cloakwork_storage::{Asker, Database, Error};

use crate::{
    audit::{Act, Audit},
    auth::{StoreError, TokenStore},
    database,
    dispatch::{Dispatcher, Snapshot},
    error::{ApiError, INTERNAL, INVALID_ARGUMENT, JOB_NOT_FOUND, NOT_OWNER, WORKER_UNKNOWN},
    jobs::{JobView, group_bytes},
    limits::Limits,
    resource::{JobName, KeyName, WorkerName},
    store::{self, DayUsage, JobPage, Store},
    tenant_limits::{self, TenantLimits},
};

/// Maximum number of rows of usage in an answer of the service.
pub const USAGE_ROWS_MAX: u32 = 10_000;

/// Number of days that an answer about usage covers without a request for other days.
const USAGE_DAYS: i64 = 30;

/// The parts of a server that operators work with.
#[derive(Debug)]
pub struct Operators {
    /// Tenants and tokens.
    pub tokens: TokenStore,
    /// The audit log.
    pub audit: Arc<Audit>,
    /// Limits of single tenants.
    pub tenant_limits: TenantLimits,
    /// Limits.
    pub limits: Arc<Limits>,
    store: Store,
    /// The shard that this server owns, and its dispatcher.
    owned: OnceLock<(i32, Dispatcher)>,
}

/// A key of any tenant, as listed.
#[derive(Clone, Debug)]
pub struct KeyRow {
    /// The tenant.
    pub tenant: String,
    /// ID of the key.
    pub key_id: KeyId,
    /// Bytes of its parts.
    pub bytes: u64,
    /// Number of its parts.
    pub parts: u64,
    /// Parameter sets of its parts.
    pub sets: Vec<&'static str>,
    /// Time of registration in microseconds since 1970.
    pub created_micros: i64,
    /// Whether the key is being deleted.
    pub is_deleting: bool,
}

/// The workers that hold keys in memory.
#[derive(Debug)]
pub struct Residents(Vec<(Bytes, Arc<str>)>);

impl Residents {
    /// Names of the workers that hold a key in memory.
    pub fn of(&self, tenant: &str, key_id: KeyId) -> BTreeSet<String> {
        // A group is a tenant, a key and a set.
        let groups: Vec<Bytes> = AnySet::all().map(|set| group_bytes(tenant, key_id, set)).collect();
        self.0.iter().filter(|(group, _)| groups.contains(group)).map(|(_, worker)| worker.to_string()).collect()
    }
}

impl Operators {
    /// The parts of a server on this database.
    pub fn new(database: &Database, clock: &Clock, limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            tokens: TokenStore::new(database.clone(), clock.clone()),
            audit: Audit::new(database.clone(), clock.clone(), limits),
            tenant_limits: TenantLimits::default(),
            limits: Arc::new(limits.clone()),
            store: Store::new(database.clone()).always_as(Asker::Upkeep),
            owned: OnceLock::new(),
        })
    }

    /// Sets the shard that this server owns from now on, and its dispatcher.
    pub fn own(&self, shard: i32, dispatcher: Dispatcher) {
        // A server owns at most one shard in its life.
        let _ = self.owned.set((shard, dispatcher));
    }

    /// The shard that this server owns.
    pub fn shard(&self) -> Option<i32> {
        self.owned.get().map(|(shard, _)| *shard)
    }

    fn own_dispatcher(&self) -> Option<&Dispatcher> {
        self.owned.get().map(|(_, dispatcher)| dispatcher)
    }

    fn dispatcher(&self) -> Result<&Dispatcher, ApiError> {
        let missing = || NOT_OWNER.error("this server owns no shard: it has neither workers nor running jobs");
        self.own_dispatcher().ok_or_else(missing)
    }

    /// The pools, workers and queues of this server. A server without a shard has none.
    pub async fn snapshot(&self) -> Result<Snapshot, ApiError> {
        match self.own_dispatcher() {
            Some(dispatcher) => dispatcher.snapshot().await,
            None => Ok(Snapshot::default()),
        }
    }

    /// Gives a worker of this server no further jobs, or gives it jobs again.
    pub async fn set_drained(
        &self,
        actor: &str,
        WorkerName(worker): WorkerName,
        is_drained: bool,
    ) -> Result<(), ApiError> {
        let dispatcher = self.dispatcher()?;
        let snapshot = dispatcher.snapshot().await?;
        if snapshot.workers.iter().all(|known| known.id != worker) {
            return Err(WORKER_UNKNOWN.error("no such worker is attached to this server"));
        }
        // The database first. The next owner of the shard has to know of every drain that an
        // operator believes to be in force.
        let tokens = self.tokens.by(actor);
        store::set_drained(&tokens, worker, is_drained).await.map_err(database::failed)?;
        dispatcher.set_drained(worker, is_drained).await?;
        Ok(())
    }

    /// The jobs of one tenant or of all before `before`, newest first. `states` restricts the jobs
    /// of one tenant, unless it is empty.
    pub async fn jobs(
        &self,
        tenant: Option<&str>,
        states: &[JobState],
        before: Option<JobId>,
        count: u32,
    ) -> Result<JobPage, ApiError> {
        let page = match tenant {
            Some(tenant) => self.store.jobs(tenant, states, before, count).await,
            None if states.is_empty() => self.store.all_jobs(before, count).await,
            None => {
                let error = INVALID_ARGUMENT.error("jobs are listed by state for one tenant only: name the tenant");
                return Err(error.field("parent", "missing"));
            }
        };
        page.map_err(database::failed)
    }

    /// A job, with its progress if this server runs it.
    pub async fn job(&self, name: &JobName) -> Result<JobView, ApiError> {
        let (tenant, job) = (name.tenant.as_str(), JobId(name.job.as_u128()));
        let watched = match self.own_dispatcher() {
            Some(dispatcher) => dispatcher.watch(tenant, job).await?,
            None => None,
        };
        if let Some(watched) = watched {
            return Ok(watched.borrow().clone());
        }
        let stored = self.store.job(tenant, job, false).await.map_err(database::failed)?;
        stored.ok_or_else(|| JOB_NOT_FOUND.error("there is no such job"))
    }

    /// Cancels an unfinished job of this server's shard.
    pub async fn cancel(&self, actor: &str, name: &JobName) -> Result<(), ApiError> {
        let dispatcher = self.dispatcher()?;
        self.job(name).await?;
        let act = Act { act: "cancel job", subject: name.to_string(), detail: String::new() };
        self.tokens.by(actor).note_alone(act).await.map_err(database::failed)?;
        dispatcher.cancel(name.tenant.as_str(), JobId(name.job.as_u128())).await.map(drop)
    }

    /// Keys of all tenants after `after`, by tenant and ID.
    pub async fn keys(&self, after: Option<&KeyName>, count: u32) -> Result<Vec<KeyRow>, ApiError> {
        let (tenant, key) = after.map_or(("", &[][..]), |after| (after.tenant.as_str(), &after.key_id[..]));
        self.read_keys(tenant, key, count).await.map_err(database::failed)
    }

    async fn read_keys(&self, tenant: &str, key: &[u8], count: u32) -> Result<Vec<KeyRow>, Error> {
        let mut reader = self.tokens.database().read(Asker::Upkeep).await?;
        let rows = reader.query(KEYS).bind(tenant).bind(key).bind(count).all().await?;
        let mut keys: Vec<KeyRow> = Vec::with_capacity(rows.len());
        for row in &rows {
            let parts = reader.query(PARTS).bind(row.text("tenant")?).bind(row.bytes("key_id")?).all().await?;
            let mut sets = Vec::new();
            let (mut bytes, mut count) = (0, 0);
            for part in &parts {
                bytes += part.unsigned("bytes")?;
                count += part.unsigned("parts")?;
                sets.extend(AnySet::find(SetId(part.small("set_id")?)).map(AnySet::name));
            }
            keys.push(KeyRow {
                tenant: row.text("tenant")?.to_owned(),
                key_id: KeyId(row.array("key_id")?),
                bytes,
                parts: count,
                sets,
                created_micros: row.int("created_micros")?,
                is_deleting: row.flag("deleting")?,
            });
        }
        Ok(keys)
    }

    /// The workers of this server that hold keys in memory.
    pub fn residents(&self) -> Residents {
        let pools = self.own_dispatcher().map(Dispatcher::pools);
        Residents(pools.iter().flat_map(|pools| pools.iter()).flat_map(|pool| pool.resident.iter().cloned()).collect())
    }

    /// The limits that tenants have of their own.
    pub async fn own_limits(&self) -> Result<HashMap<String, BTreeMap<String, u64>>, ApiError> {
        tenant_limits::all(self.tokens.database()).await.map_err(database::failed)
    }

    /// The usage of one tenant or of all in these days; by default, in the last thirty. The call
    /// refuses more than `rows_max` rows, because an answer without some of them would be wrong.
    pub async fn usage(
        &self,
        tenant: Option<&str>,
        days: Option<RangeInclusive<i64>>,
        rows_max: u32,
    ) -> Result<Vec<DayUsage>, ApiError> {
        let today = unix_day(self.tokens.clock().unix_micros());
        let days = days.unwrap_or(today - USAGE_DAYS + 1..=today);
        let rows = self.store.days(tenant, days, rows_max + 1).await.map_err(database::failed)?;
        if rows.len() > rows_max as usize {
            let message = format!("more than {rows_max} rows: ask for fewer days, or for one tenant");
            return Err(INVALID_ARGUMENT.error(message).field("first_day", "too early"));
        }
        Ok(rows)
    }
}

const KEYS: &str = "SELECT tenant, key_id, deleting, created_micros FROM keys WHERE (tenant, key_id) > ($1, $2) \
     ORDER BY tenant, key_id LIMIT $3";

const PARTS: &str = "SELECT set_id, COUNT(*) AS parts, CAST(SUM(size_bytes) AS BIGINT) AS bytes FROM blobs \
     JOIN key_parts ON key_parts.tenant = blobs.tenant AND key_parts.digest = blobs.digest \
     WHERE key_parts.tenant = $1 AND key_parts.key_id = $2 GROUP BY set_id ORDER BY set_id";

/// The error of an operator's change for the caller.
pub fn refused(error: StoreError) -> ApiError {
    match error {
        StoreError::Database(error) => database::failed(error),
        StoreError::Randomness(error) => INTERNAL.error(format!("no randomness from the operating system: {error}")),
        refusal => INVALID_ARGUMENT.error(refusal.to_string()),
    }
}
