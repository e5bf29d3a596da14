//! Workers that the operator drained.

use std::collections::HashSet;

use cloakwork_scheduler::WorkerId;
use cloakwork_storage::{Asker, Error, Rows};

use super::Store;
use crate::{audit::Act, auth::TokenStore, resource::WorkerName};

/// Maximum number of drained workers that the server remembers: the latest ones. A worker has a new
/// ID after each start, so nearly all rows are of workers that are gone.
const DRAINED_WORKERS_MAX: u32 = 10_000;

impl Store {
    /// The workers that the operator drained.
    pub async fn drained_workers(&self) -> Result<HashSet<WorkerId>, Error> {
        let mut reader = self.database.read(Asker::Server).await?;
        let query = reader.query("SELECT id FROM drained_workers ORDER BY drained_micros DESC LIMIT $1");
        let rows = query.bind(DRAINED_WORKERS_MAX).all().await?;
        rows.iter().map(|row| Ok(WorkerId(u128::from_be_bytes(row.array("id")?)))).collect()
    }
}

/// Records that a worker is drained, or no longer drained.
pub async fn set_drained(tokens: &TokenStore, worker: WorkerId, is_drained: bool) -> Result<(), Error> {
    let mut write = tokens.database().write(Asker::Server, Rows::All).await?;
    let id = worker.0.to_be_bytes();
    if is_drained {
        let insert =
            write.query("INSERT INTO drained_workers (id, drained_micros) VALUES ($1, $2) ON CONFLICT DO NOTHING");
        insert.bind(id).bind(tokens.clock().unix_micros()).execute().await?;
        let forget = write.query(
            "DELETE FROM drained_workers WHERE id IN \
             (SELECT id FROM drained_workers ORDER BY drained_micros DESC LIMIT 100 OFFSET $1)",
        );
        forget.bind(DRAINED_WORKERS_MAX).execute().await?;
    } else {
        write.query("DELETE FROM drained_workers WHERE id = $1").bind(id).execute().await?;
    }
    let act = if is_drained { "drain worker" } else { "resume worker" };
    let subject = WorkerName(worker).to_string();
    tokens.note(&mut write, Act { act, subject, detail: String::new() }).await?;
    write.commit().await
}
