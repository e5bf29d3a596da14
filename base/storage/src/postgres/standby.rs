//! Whether commits survive the loss of the server.

use super::{Server, Session};
use crate::Error;

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
