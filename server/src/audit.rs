//! The audit log: acts of operators, and refused calls. The log is in the database, so that it
//! outlives the server's log.
//!
//! An act is recorded in the transaction that carries it out. Refused calls are counted in memory
//! and recorded once a minute, because anyone can cause them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use cloakwork_clock::{Clock, unix_micros_before};
use cloakwork_storage::{Asker, Connection, Database, Error, Row, Rows};
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    address::AddressBlock,
    error::{ApiError, Reason},
    jobs::id,
    limits::Limits,
};

/// Actor of commands that work on the database.
pub const COMMAND_LINE: &str = "command line";

/// Time between two records of refused calls.
const REFUSALS_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum number of different refusals that one interval tells apart. Further ones share an entry.
const AUDIT_REFUSAL_KINDS_MAX: usize = 32;

/// Maximum number of different refusals of one address that one interval tells apart.
const ADDRESS_KINDS_MAX: usize = 4;

/// Method and reason of refusals that are not told apart.
const OTHER: &str = "_OTHER";

/// Maximum number of entries about refused calls. Beyond it, the oldest are removed.
const AUDIT_REFUSALS_MAX: u32 = 50_000;

/// Maximum number of entries that one statement removes.
const FORGET_ROWS_MAX: u32 = 256;

/// Something that an operator did.
#[derive(Clone, Debug)]
pub struct Act {
    /// The act, for example `create token`.
    pub act: &'static str,
    /// The object of the act, as a resource name.
    pub subject: String,
    /// Further circumstances. Never a secret.
    pub detail: String,
}

/// An entry as listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its ID, which grows with the time.
    pub id: [u8; 16],
    /// Time in microseconds since 1970.
    pub at_micros: i64,
    /// The actor, or the address that a refused call came from.
    pub actor: String,
    /// The act.
    pub act: String,
    /// The object of the act.
    pub subject: String,
    /// Further circumstances.
    pub detail: String,
    /// Number of equal refusals; 0 for an act.
    pub refusals: u64,
}

/// Refusals that one entry stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Refusal {
    from: String,
    method: &'static str,
    reason: &'static str,
}

/// Reads the log, and records refused calls.
#[derive(Debug)]
pub struct Audit {
    database: Database,
    clock: Clock,
    /// How long entries are kept.
    life: Duration,
    refusals: Mutex<HashMap<Refusal, u64>>,
}

/// Adds an act to the transaction that carries it out.
pub async fn add(sql: &mut Connection, clock: &Clock, actor: &str, act: &Act) -> Result<(), Error> {
    insert(sql, clock.unix_micros(), actor, act, 0).await
}

async fn insert(sql: &mut Connection, at_micros: i64, actor: &str, act: &Act, refusals: u64) -> Result<(), Error> {
    let query = sql.query(
        "INSERT INTO audit_entries (id, at_micros, actor, act, subject, detail, refusals) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    );
    let query = query.bind(id::to_bytes(id::new(at_micros))).bind(at_micros).bind(actor).bind(act.act);
    let refusals = i64::try_from(refusals).unwrap_or(i64::MAX);
    query.bind(act.subject.as_str()).bind(act.detail.as_str()).bind(refusals).execute().await?;
    Ok(())
}

impl Audit {
    /// The log in `database`.
    pub fn new(database: Database, clock: Clock, limits: &Limits) -> Arc<Self> {
        Arc::new(Self { database, clock, life: Duration::from_secs(limits.audit_seconds), refusals: Mutex::default() })
    }

    /// Counts a refused call, if its caller was not allowed to make it. The worker inside this
    /// process has no address.
    pub fn refused(&self, from: Option<AddressBlock>, method: &'static str, error: &ApiError) {
        let Reason { grpc, code, .. } = error.reason();
        if !matches!(grpc, tonic::Code::Unauthenticated | tonic::Code::PermissionDenied) {
            return;
        }
        let from = from.map_or_else(|| "this process".to_owned(), |address| address.to_string());
        self.count(Refusal { from, method, reason: code });
    }

    fn count(&self, refusal: Refusal) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let refusal = if refusals.contains_key(&refusal) {
            refusal
        } else if refusals.len() >= AUDIT_REFUSAL_KINDS_MAX {
            Refusal { from: "other addresses".to_owned(), method: OTHER, reason: OTHER }
        } else if refusals.keys().filter(|known| known.from == refusal.from).count() >= ADDRESS_KINDS_MAX {
            // One address must not hide the others.
            Refusal { method: OTHER, reason: OTHER, ..refusal }
        } else {
            refusal
        };
        *refusals.entry(refusal).or_default() += 1;
    }

    /// Entries before `before`, newest first.
    pub async fn page(&self, before: Option<[u8; 16]>, count: u32) -> Result<Vec<Entry>, Error> {
        let mut reader = self.database.read(Asker::Server).await?;
        let query = reader.query(
            "SELECT id, at_micros, actor, act, subject, detail, refusals FROM audit_entries \
             WHERE id < $1 ORDER BY id DESC LIMIT $2",
        );
        let rows = query.bind(before.unwrap_or([0xFF; 16])).bind(count).all().await?;
        rows.iter().map(Entry::of).collect()
    }

    /// Records refusals and forgets old entries until the task is dropped.
    pub async fn run(self: Arc<Self>) {
        let mut interval = interval(REFUSALS_INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            if let Err(error) = self.record().await {
                tracing::debug!(%error, "the audit log was not written; it will be tried again");
            }
        }
    }

    /// Records the refusals since the last record, and forgets old entries.
    async fn record(&self) -> Result<(), Error> {
        let refusals: Vec<(Refusal, u64)> = {
            let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            refusals.drain().collect()
        };
        let recorded = self.write(&refusals).await;
        if recorded.is_err() {
            let mut counted = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            for (refusal, count) in refusals {
                if counted.len() < AUDIT_REFUSAL_KINDS_MAX || counted.contains_key(&refusal) {
                    *counted.entry(refusal).or_default() += count;
                }
            }
        }
        recorded
    }

    async fn write(&self, refusals: &[(Refusal, u64)]) -> Result<(), Error> {
        let now_micros = self.clock.unix_micros();
        let before_micros = unix_micros_before(now_micros, self.life);
        let mut write = self.database.write(Asker::Upkeep, Rows::All).await?;
        for (Refusal { from, method, reason }, count) in refusals {
            let (subject, detail) = ((*method).to_owned(), (*reason).to_owned());
            insert(&mut write, now_micros, from, &Act { act: "refused call", subject, detail }, *count).await?;
        }
        write.query(FORGET_OLD).bind(before_micros).bind(FORGET_ROWS_MAX).execute().await?;
        write.query(FORGET_REFUSALS).bind(AUDIT_REFUSALS_MAX).bind(FORGET_ROWS_MAX).execute().await?;
        write.commit().await
    }
}

const FORGET_OLD: &str = "DELETE FROM audit_entries WHERE id IN \
     (SELECT id FROM audit_entries WHERE at_micros < $1 ORDER BY at_micros LIMIT $2)";

const FORGET_REFUSALS: &str = "DELETE FROM audit_entries WHERE id IN \
     (SELECT id FROM audit_entries WHERE refusals > 0 ORDER BY id DESC LIMIT $2 OFFSET $1)";

impl Entry {
    fn of(row: &Row) -> Result<Self, Error> {
        let text = |column| Ok::<_, Error>(row.text(column)?.to_owned());
        Ok(Self {
            id: row.array("id")?,
            at_micros: row.int("at_micros")?,
            actor: text("actor")?,
            act: text("act")?,
            subject: text("subject")?,
            detail: text("detail")?,
            refusals: row.unsigned("refusals")?,
        })
    }
}

#[cfg(test)]
mod tests;
