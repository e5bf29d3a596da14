//! Which server owns a shard of the database.
//!
//! Several servers may use one PostgreSQL database. Each shard of the database has one owner, which
//! alone decides about the jobs of its tenants. The other servers pass calls on to the owner. A
//! server without a shard waits until an owner stops or falls silent.
//!
//! The owner beats: each second, it writes to the database that it is alive. Another server may
//! take over once the last beat is 4 s old by the clock of the database. The owner may not notice
//! this at once, because its process or its machine may have been suspended. So the database checks
//! before each change whether the server still owns it, and the owner publishes nothing before its
//! commit unless its last beat is younger than 3 s.
//!
//! A file needs none of this. Its server locks the data directory.

mod anchor;
mod keep;
mod take;

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use cloakwork_clock::{Epoch, micros_of};
use cloakwork_storage::{Asker, Batch, Database, Error, Migration, Schema};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub use anchor::set as record_anchor;
pub use keep::{keep, release};
pub use take::{Candidate, OtherInstallation};

#[cfg(doc)]
use crate::shards::SILENCE;

/// Tables that record the owner, in databases of a server.
pub const SCHEMA: Schema = Schema {
    ledger: "_cloakwork_migrations_owner",
    migrations: &[
        Migration::of_postgres(1, "owner", include_str!("../migrations/postgres/owner/0001_owner.sql")),
        Migration::of_postgres(2, "shard pools", include_str!("../migrations/postgres/owner/0002_shard_pools.sql")),
        Migration::of_postgres(3, "owner checked", include_str!("../migrations/postgres/owner/0003_owner_checked.sql")),
        Migration::of_postgres(4, "rows", include_str!("../migrations/postgres/owner/0004_rows.sql")),
    ],
};

/// How long after a beat the owner can be certain that it still is the owner. The rest of
/// [`SILENCE`] covers clocks of different speed, and decisions that take time.
const CERTAIN: Duration = Duration::from_secs(3);

/// A number of this process, which its connections to the database show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica([u8; 16]);

impl Replica {
    /// A number for this process. Every process has another one.
    pub fn new() -> Result<Self, getrandom::Error> {
        let mut number = [0; 16];
        getrandom::fill(&mut number)?;
        Ok(Self(number))
    }

    /// Name of the server's connections, as PostgreSQL shows them.
    pub fn name(self) -> String {
        name(&self.0)
    }
}

fn name(replica: &[u8; 16]) -> String {
    format!("cloakwork {:032x}", u128::from_be_bytes(*replica))
}

/// The right of this server to decide about jobs. Clones share it.
#[derive(Clone, Debug)]
pub struct Ownership(Option<Arc<Owned>>);

#[derive(Debug)]
struct Owned {
    replica: Replica,
    shard: i32,
    epoch: i64,
    /// Number of batches that the database had after the last batch of this server.
    seq: AtomicI64,
    /// Counts on while the machine sleeps: others may take over meanwhile.
    uptime: Epoch,
    /// Until when the last beat makes it certain that this server is the owner.
    certain_until_micros: AtomicU64,
    lost: CancellationToken,
    /// Notified when the database lacks batches of this server.
    behind: Notify,
}

impl Ownership {
    /// The right of the server that holds the lock of the data directory.
    pub fn of_directory() -> Self {
        Self(None)
    }

    /// The shard that this server owns.
    pub fn shard(&self) -> i32 {
        self.0.as_ref().map_or(0, |owned| owned.shard)
    }

    /// Whether no other server can have taken over.
    pub fn is_certain(&self) -> bool {
        self.0.as_ref().is_none_or(|owned| owned.uptime.micros() < owned.certain_until_micros.load(Relaxed))
    }

    /// Waits until it is known that another server has taken over.
    pub async fn lost(&self) {
        match &self.0 {
            Some(owned) => owned.lost.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Waits until the database has fewer batches than this server has committed. The owner then
    /// reads all jobs anew.
    pub async fn fell_behind(&self) {
        match &self.0 {
            Some(owned) => owned.behind.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Adds the check of the owner to a batch of the dispatcher, which also counts the batch.
    pub fn add_to(&self, batch: &mut Batch) {
        if let Some(owned) = &self.0 {
            let advance = batch.push("SELECT cloakwork_advance($1, $2, $3, $4)");
            advance.bind(owned.shard).bind(owned.epoch).bind(owned.replica.0).bind(owned.seq.load(Relaxed));
        }
    }

    /// Counts a batch that was committed.
    pub fn advance(&self) {
        if let Some(owned) = &self.0 {
            owned.seq.fetch_add(1, Relaxed);
        }
    }

    /// Reads how many batches the database has, after a batch whose result is not known. Fails if
    /// another server has taken over.
    pub async fn reread(&self, database: &Database) -> Result<(), Error> {
        let Some(owned) = &self.0 else { return Ok(()) };
        let seq = owned.count(database).await?;
        if seq < owned.seq.swap(seq, Relaxed) {
            tracing::warn!("the database lost changes that it had committed: it was restarted, or a standby took over");
        }
        Ok(())
    }
}

impl Owned {
    /// Number of batches that the database has. Fails if another server has taken over.
    async fn count(&self, database: &Database) -> Result<i64, Error> {
        let mut reader = database.read(Asker::Server).await?;
        let query = reader.query("SELECT seq FROM shards WHERE shard = $1 AND epoch = $2 AND owner = $3");
        let row = query.bind(self.shard).bind(self.epoch).bind(self.replica.0).optional().await?;
        let Some(row) = row else {
            self.lost.cancel();
            return Err(Error::Fenced);
        };
        row.int("seq")
    }

    /// Notes a beat that was sent at this time and reached the database.
    fn beat_at(&self, sent_micros: u64) {
        self.certain_until_micros.store(sent_micros.saturating_add(micros_of(CERTAIN)), Relaxed);
    }
}

#[cfg(test)]
pub(crate) mod tests;
