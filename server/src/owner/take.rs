//! Taking the database over.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64},
    },
    time::Duration,
};

use cloakwork_attestation::Anchor;
use cloakwork_clock::{Clock, micros_of};
use cloakwork_storage::{Asker, Database, Error, Row, Rows, Write};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{Owned, Ownership, Replica, SHARD, SILENCE, anchor, name};

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

/// A look at the owner.
enum Look {
    /// This server has taken the database over: its epoch, and the number of batches.
    Taken(i64, i64),
    /// The server with this URL owns the database.
    Owned(String),
    /// An owner that was silent until now, or another server that takes over at this moment.
    Unclear,
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
    /// Waits until no other server owns the database, and takes it over. Meanwhile, `found` learns
    /// the URL of each owner. Returns the right of this server, and a handle whose changes fail
    /// once another server has taken over.
    pub async fn take(
        &self,
        clock: &Clock,
        mut found: impl FnMut(&str),
    ) -> Result<(Ownership, Database), OtherInstallation> {
        let uptime = clock.epoch_across_sleep();
        let (mut waits, mut is_away) = (false, false);
        let mut not_before = Instant::now();
        let (epoch, seq, sent_micros) = loop {
            let sent_micros = uptime.micros();
            match self.look(Instant::now() >= not_before).await {
                Ok(Look::Taken(epoch, seq)) => break (epoch, seq, sent_micros),
                Ok(Look::Owned(url)) => {
                    is_away = false;
                    if !std::mem::replace(&mut waits, true) {
                        tracing::info!(%url, "another server owns the database: this one waits until it stops or fails");
                    }
                    found(&url);
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
        tracing::info!(epoch, "this server owns the database");
        let owned = Owned {
            replica: self.replica,
            epoch,
            seq: AtomicI64::new(seq),
            uptime,
            certain_until_micros: AtomicU64::new(0),
            lost: CancellationToken::new(),
        };
        owned.beat_at(sent_micros);
        let guard = format!("SELECT cloakwork_check({SHARD}, {epoch})");
        Ok((Ownership(Some(Arc::new(owned))), self.database.guarded(&guard)))
    }

    /// Takes the database over if it has no owner, or a silent one and `may_depose` is set.
    async fn look(&self, may_depose: bool) -> Result<Look, LookError> {
        let mut reader = self.database.read(Asker::Server).await?;
        let query = reader.query(
            "SELECT epoch, seq, owner, url, (SELECT anchor FROM installation) AS anchor, \
             CASE WHEN beat_micros + $2 > cloakwork_now_micros() THEN 1 ELSE 0 END AS is_alive \
             FROM shards LEFT JOIN replicas ON id = owner WHERE shard = $1",
        );
        let row = query.bind(SHARD).bind(silence_micros()).one().await?;
        self.check(anchor::of(&row)?)?;
        if let Some(owner) = row.array_or_null::<16>("owner")? {
            // The commit may have succeeded although the connection was lost.
            if owner == self.replica.0 {
                return Ok(taken(&row)?);
            }
            if row.flag("is_alive")? {
                return Ok(Look::Owned(row.text("url")?.to_owned()));
            }
            if !may_depose {
                return Ok(Look::Unclear);
            }
            // A suspended process may have left a transaction open, whose locks would be waited
            // for.
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                       WHERE application_name = $1 AND datname = current_database()";
            if let Err(error) = reader.query(end).bind(name(&owner)).all().await {
                tracing::warn!(%error, "the connections of the silent server stay open");
            }
        }
        drop(reader);
        let mut write = self.database.write(Asker::Server, Rows::All).await?;
        let look = self.depose(&mut write).await?;
        write.commit().await?;
        Ok(look)
    }

    /// Makes this server the owner, unless the owner has beaten again or another server was faster.
    async fn depose(&self, write: &mut Write) -> Result<Look, LookError> {
        // A beat on its way keeps the row of its server locked, and is seen once it has arrived.
        let silent = write.query("DELETE FROM replicas WHERE beat_micros + $1 <= cloakwork_now_micros()");
        silent.bind(silence_micros()).execute().await?;
        let query = write.query(
            "UPDATE shards SET epoch = epoch + 1, owner = $2 \
             WHERE shard = $1 AND (owner IS NULL OR owner NOT IN (SELECT id FROM replicas)) RETURNING epoch, seq",
        );
        let Some(row) = query.bind(SHARD).bind(self.replica.0).optional().await? else { return Ok(Look::Unclear) };
        let insert = write.query("INSERT INTO replicas (id, url, beat_micros) VALUES ($1, $2, cloakwork_now_micros())");
        insert.bind(self.replica.0).bind(self.url).execute().await?;
        // Another server may have recorded its installation since the look.
        self.check(anchor::recorded(write).await?)?;
        anchor::record(write, self.anchor).await?;
        Ok(taken(&row)?)
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

fn taken(row: &Row) -> Result<Look, Error> {
    Ok(Look::Taken(row.int("epoch")?, row.int("seq")?))
}

fn silence_micros() -> i64 {
    i64::try_from(micros_of(SILENCE)).unwrap_or(i64::MAX)
}
