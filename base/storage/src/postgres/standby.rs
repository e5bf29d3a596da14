//! The standbys of the server, and whether commits survive the loss of the server.

use super::{Server, Session};
use crate::{Error, Row};

/// The standbys that are connected to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standbys {
    /// Standbys that commits wait for.
    pub synchronous: u64,
    /// Standbys that commits do not wait for.
    pub asynchronous: u64,
    /// Standbys whose kind the role may not see. A role with the right `pg_monitor` sees it.
    pub hidden: u64,
    /// Bytes of the log that the standby with the most data has not flushed, if that is known.
    pub lag_bytes: Option<u64>,
}

/// A statement that counts the standbys.
pub(crate) const STANDBYS: &str = "SELECT \
    count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) AS synchronous, \
    count(*) FILTER (WHERE sync_state IN ('async', 'potential')) AS asynchronous, \
    count(*) FILTER (WHERE sync_state IS NULL) AS hidden, \
    CAST(min(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN NULL ELSE pg_current_wal_lsn() END, flush_lsn)) \
        AS BIGINT) AS lag_bytes \
    FROM pg_stat_replication";

impl Standbys {
    pub(crate) fn of(row: &Row) -> Result<Self, Error> {
        let count = |column| Ok::<_, Error>(row.int(column)?.unsigned_abs());
        Ok(Self {
            synchronous: count("synchronous")?,
            asynchronous: count("asynchronous")?,
            hidden: count("hidden")?,
            lag_bytes: row.int_or_null("lag_bytes")?.map(|bytes| bytes.max(0).unsigned_abs()),
        })
    }
}

impl Server {
    /// Why the loss of the server could undo commits that it has reported. Returns `None` if a
    /// standby has each of them on its disk before.
    pub async fn standby_lack(&self) -> Result<Option<&'static str>, Error> {
        let mut session = self.connect().await?;
        let lack = lack(&mut session).await;
        session.close().await;
        lack
    }
}

async fn lack(session: &mut Session) -> Result<Option<&'static str>, Error> {
    let row = session.first(QUERY, Vec::new()).await?;
    let row = row.ok_or_else(|| Error::Failed("the server did not answer".to_owned()))?;
    Ok(if row.text("names")?.unwrap_or_default().is_empty() {
        Some("the database server waits for no standby, because its synchronous_standby_names is empty")
    } else if !["on", "remote_apply"].contains(&row.text("level")?.unwrap_or_default()) {
        Some("the database server does not wait for the disk of a standby, because its synchronous_commit is not on")
    } else if row.int("connected")? == Some(0) {
        Some("no standby is connected to the database server, and commits would wait for one")
    } else {
        None
    })
}

/// A role without further rights learns how many standbys there are, and nothing else of them.
const QUERY: &str = "SELECT current_setting('synchronous_standby_names') AS names, \
     current_setting('synchronous_commit') AS level, (SELECT count(*) FROM pg_stat_replication) AS connected";
