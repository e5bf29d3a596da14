//! The installation that a database belongs to.
//!
//! Each server signs in the name of one installation, and clients trust that one alone. If a server
//! with another key took a database over, clients would refuse all its results.

use cloakwork_attestation::Anchor;
use cloakwork_storage::{Asker, Connection, Database, Error, Row, Rows};

/// The anchor in a row, if one is recorded.
fn of(row: &Row) -> Result<Option<Anchor>, Error> {
    let Some(text) = row.text_or_null("anchor")? else { return Ok(None) };
    text.parse().map(Some).map_err(|error| Error::Damaged(format!("the anchor of the installation: {error}")))
}

/// The recorded anchor.
pub(super) async fn recorded(sql: &mut Connection) -> Result<Option<Anchor>, Error> {
    let row = sql.query("SELECT anchor FROM installation").optional().await?;
    Ok(row.as_ref().map(of).transpose()?.flatten())
}

/// Makes the database a database of this installation.
pub async fn set(database: &Database, anchor: &Anchor) -> Result<(), Error> {
    let mut write = database.write(Asker::Server, Rows::All).await?;
    record(&mut write, anchor).await?;
    write.commit().await
}

/// Records the anchor, in place of any other.
pub(super) async fn record(sql: &mut Connection, anchor: &Anchor) -> Result<(), Error> {
    let query = sql.query(
        "INSERT INTO installation (one, anchor) VALUES (1, $1) ON CONFLICT (one) DO UPDATE SET anchor = excluded.anchor",
    );
    query.bind(anchor.to_string()).execute().await?;
    Ok(())
}
