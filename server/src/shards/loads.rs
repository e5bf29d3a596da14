//! The loads of shards, which their owners publish in the database.

use std::time::Duration;

use cloakwork_scheduler::placement::Load;
use cloakwork_storage::{Asker, Batch, Connection, Database, Error, Row, Rows, Survival};

use super::db_micros;

/// The load of a shard, for one pool of workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolLoad {
    /// Name of the pool.
    pub pool: String,
    /// The shard.
    pub shard: i32,
    /// The load.
    pub load: Load,
}

/// Age of a load that is not believed any more.
const OLD: Duration = Duration::from_secs(10);

/// Replaces the loads of a shard. `database` is a handle with the check of its owner.
pub async fn publish(database: &Database, loads: &[PoolLoad]) -> Result<(), Error> {
    let replace = |batch: &mut Batch| {
        batch.push("DELETE FROM shard_pools WHERE shard = $1").bind(database.shard());
        let mut rows = batch.each(
            "INSERT INTO shard_pools (shard, pool, workers, backlog_millis, term_millis, written_micros) \
             VALUES ($1, $2, $3, $4, $5, cloakwork_now_micros())",
        );
        for PoolLoad { pool, shard, load } in loads {
            let row = rows.row().bind(*shard).bind(pool.as_str()).bind(load.workers);
            row.bind(db_millis(load.backlog_millis)).bind(db_millis(load.term_millis));
        }
    };
    database.apply(Asker::Server, Rows::Apart, Survival::Crash, replace).await
}

/// The loads of all shards that their owners published lately.
pub(super) async fn all(sql: &mut Connection) -> Result<Vec<PoolLoad>, Error> {
    let query = sql.query(
        "SELECT shard, pool, workers, backlog_millis, term_millis FROM shard_pools \
         WHERE written_micros > cloakwork_now_micros() - $1 ORDER BY pool, shard",
    );
    query.bind(db_micros(OLD)).all().await?.iter().map(pool_load).collect()
}

fn pool_load(row: &Row) -> Result<PoolLoad, Error> {
    let load = Load {
        workers: row.small("workers")?,
        backlog_millis: row.unsigned("backlog_millis")?,
        term_millis: row.unsigned("term_millis")?,
    };
    Ok(PoolLoad { pool: row.text("pool")?.to_owned(), shard: row.small("shard")?, load })
}

fn db_millis(millis: u64) -> i64 {
    i64::try_from(millis).unwrap_or(i64::MAX)
}
