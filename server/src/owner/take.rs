//! Taking the database over.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64},
    },
    time::Duration,
};

use cloakwork_attestation::Anchor;
use cloakwork_clock::Clock;
use cloakwork_storage::{Asker, Database, Error, Rows, Write};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{Owned, Ownership, Replica, anchor, name};
use crate::shards::{self, SILENCE, ShardRow, db_micros, is_alive};

/// Time between two looks at the owner.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Time for which a waiting server leaves the database to its owner after the database was away.
/// The owner could not beat meanwhile, and beats again within this time.
const AWAY_PAUSE: Duration = Duration::from_secs(1);

/// A server that waits for the database.
#[derive(Debug)]
pub struct Candidate<'a> {
    /// The number of this process.
    pub replica: Replica,
    /// URL at which other servers reach this one.
    pub url: &'a str,
    /// The installation that this server has the key of.
    pub anchor: &'a Anchor,
    /// A handle to the database without the check of the owner.
    pub database: &'a Database,
}

/// The database belongs to another installation.
#[derive(Debug, thiserror::Error)]
#[error(
    "the database belongs to the installation {theirs}, and this server has the key of {ours}. Copy installation/ from \
     the data directory of a server of that installation, or set attestation.sign_command. If the keys were replaced \
     on purpose, run `cloakwork-server anchor --record`"
)]
pub struct OtherInstallation {
    theirs: Anchor,
    ours: Anchor,
}

/// A look at the owners.
enum Look {
    /// This server has taken a shard over.
    Taken(Taken),
    /// Each shard has an owner. The number of shards.
    Owned(usize),
    /// An owner that was silent until now, or another server that takes over at this moment.
    Unclear,
}

/// A shard that this server has taken over.
struct Taken {
    shard: i32,
    epoch: i64,
    /// Number of batches of all owners.
    seq: i64,
    /// Whether the takeover was answered. Otherwise the last beat may be old.
    is_answered: bool,
}

/// Why a look failed.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    Other(#[from] OtherInstallation),
    #[error(transparent)]
    Database(#[from] Error),
}

impl Candidate<'_> {
    /// Waits until a shard has no other owner, and takes it over. Returns the right of this server,
    /// and a handle for the shard whose changes fail once another server has taken it over.
    pub async fn take(&self, clock: &Clock) -> Result<(Ownership, Database), OtherInstallation> {
        let uptime = clock.epoch_across_sleep();
        let (mut waits, mut is_away) = (false, false);
        let mut not_before = Instant::now();
        let (Taken { shard, epoch, seq, is_answered }, sent_micros) = loop {
            let sent_micros = uptime.micros();
            match self.look(clock, Instant::now() >= not_before).await {
                Ok(Look::Taken(taken)) => break (taken, sent_micros),
                Ok(Look::Owned(shards)) => {
                    is_away = false;
                    if !std::mem::replace(&mut waits, true) {
                        tracing::info!(shards, "other servers own all shards: this one waits until one stops or fails");
                    }
                }
                Ok(Look::Unclear) => is_away = false,
                Err(LookError::Other(error)) => return Err(error),
                Err(LookError::Database(error)) => {
                    if !std::mem::replace(&mut is_away, true) {
                        tracing::warn!(%error, "the database does not say which server owns it");
                    }
                    not_before = Instant::now() + AWAY_PAUSE;
                }
            }
            sleep(LOOK_INTERVAL).await;
        };
        tracing::info!(shard, epoch, "this server owns a shard of the database");
        let owned = Owned {
            replica: self.replica,
            shard,
            epoch,
            seq: AtomicI64::new(seq),
            uptime,
            certain_until_micros: AtomicU64::new(0),
            lost: CancellationToken::new(),
            behind: Notify::new(),
        };
        if is_answered {
            owned.beat_at(sent_micros);
        }
        let owner = u128::from_be_bytes(self.replica.0);
        let guard = format!("SELECT cloakwork_check({shard}, {epoch}, decode('{owner:032x}', 'hex'))");
        Ok((Ownership(Some(Arc::new(owned))), self.database.of_shard(shard).guarded(&guard)))
    }

    /// Takes over the first shard that has no owner, or a silent one if `may_depose` is set.
    async fn look(&self, clock: &Clock, may_depose: bool) -> Result<Look, LookError> {
        let mut reader = self.database.read(Asker::Server).await?;
        shards::follow_clock(clock, &mut reader).await?;
        let recorded = anchor::recorded(&mut reader).await?;
        self.check(recorded)?;
        let rows = shards::rows(&mut reader).await?;
        // The commit may have succeeded although the connection was lost.
        if let Some(row) = rows.iter().find(|row| row.owner == Some(self.replica.0)) {
            return Ok(Look::Taken(Taken { shard: row.shard, epoch: row.epoch, seq: row.seq, is_answered: false }));
        }
        // The shard with the fewest owners so far comes first. A shard that no server can open gets
        // an owner again and again, and the others get theirs meanwhile.
        let is_silent = |row: &&ShardRow| row.owner.is_some();
        let free = rows.iter().filter(|row| !row.is_alive).min_by_key(|row| (!may_depose && is_silent(row), row.epoch));
        let Some(free) = free else { return Ok(Look::Owned(rows.len())) };
        if let ShardRow { owner: Some(owner), .. } = free {
            if !may_depose {
                return Ok(Look::Unclear);
            }
            // A suspended process may have left a transaction open, whose locks would be waited
            // for.
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                       WHERE application_name = $1 AND datname = current_database()";
            if let Err(error) = reader.query(end).bind(name(owner)).all().await {
                tracing::warn!(%error, "the connections of the silent server stay open");
            }
        }
        drop(reader);
        // Transactions of the last owner end before this one begins.
        let mut write = self.database.of_shard(free.shard).write(Asker::Server, Rows::All).await?;
        let look = self.depose(&mut write, free.shard).await?;
        write.commit().await?;
        Ok(look)
    }

    /// Makes this server the owner of a shard, unless its owner has beaten again or another server
    /// was faster.
    async fn depose(&self, write: &mut Write, shard: i32) -> Result<Look, LookError> {
        // A beat on its way keeps the row of its server locked, and is seen once it has arrived.
        let silent = write.query(concat!(
            "DELETE FROM replicas WHERE NOT (",
            is_alive!(),
            ") AND id IN (SELECT owner FROM shards WHERE shard = $2)"
        ));
        silent.bind(db_micros(SILENCE)).bind(shard).execute().await?;
        let query = write.query(
            "UPDATE shards SET epoch = epoch + 1, owner = $2 \
             WHERE shard = $1 AND (owner IS NULL OR owner NOT IN (SELECT id FROM replicas)) RETURNING epoch, seq",
        );
        let row = query.bind(shard).bind(self.replica.0).optional().await?;
        let Some(row) = row else { return Ok(Look::Unclear) };
        let insert = write.query("INSERT INTO replicas (id, url, beat_micros) VALUES ($1, $2, cloakwork_now_micros())");
        insert.bind(self.replica.0).bind(self.url).execute().await?;
        // Another server may have recorded its installation since the look, or do so now for
        // another shard.
        write.query("LOCK TABLE installation IN SHARE ROW EXCLUSIVE MODE").execute().await?;
        self.check(anchor::recorded(write).await?)?;
        anchor::record(write, self.anchor).await?;
        Ok(Look::Taken(Taken { shard, epoch: row.int("epoch")?, seq: row.int("seq")?, is_answered: true }))
    }

    /// Fails unless this server has a key of the installation. During a rotation of the keys, the
    /// anchors of two servers differ in some keys.
    fn check(&self, recorded: Option<Anchor>) -> Result<(), OtherInstallation> {
        match recorded {
            Some(theirs) if !theirs.keys().iter().any(|key| self.anchor.has(key)) => {
                Err(OtherInstallation { theirs, ours: self.anchor.clone() })
            }
            _ => Ok(()),
        }
    }
}
