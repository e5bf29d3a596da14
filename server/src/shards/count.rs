//! The number of shards.

use std::fmt;

use cloakwork_keystore::of_shard;
use cloakwork_storage::{Asker, Database, Error, Rows};

use super::rows;

/// Maximum number of shards of one database.
pub const SHARDS_MAX: i32 = 64;

/// A database never has fewer shards than before.
#[derive(Debug, thiserror::Error)]
#[error("the database has {has} shards already, and their number cannot fall")]
pub struct TooFew {
    has: usize,
}

/// A shard as listed.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Number of the shard.
    pub shard: i32,
    /// URL of its owner, if one is alive.
    pub owner: Option<String>,
    /// Number of its tenants.
    pub tenants: u64,
    /// Number of workers that its owner reported lately.
    pub workers: u64,
}

impl fmt::Display for Listed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shard, owner, tenants, workers } = self;
        write!(out, "{shard:<6} {tenants:<8} {workers:<8} {}", owner.as_deref().unwrap_or("-"))
    }
}

/// Divides the database into this many shards. New shards are empty.
pub async fn grow(database: &Database, count: i32) -> Result<Result<(), TooFew>, Error> {
    let mut write = database.write(Asker::Server, Rows::All).await?;
    let has = rows(&mut write).await?.len();
    if i64::from(count) < has as i64 {
        return Ok(Err(TooFew { has }));
    }
    for shard in 0..count {
        let insert = write.query(
            "INSERT INTO shards (shard, epoch, seq, owner) VALUES ($1, 0, 0, NULL) ON CONFLICT (shard) DO NOTHING",
        );
        insert.bind(shard).execute().await?;
    }
    write.commit().await?;
    Ok(Ok(()))
}

/// Whether the database has this shard.
pub async fn exists(database: &Database, shard: i32) -> Result<bool, Error> {
    let mut reader = database.read(Asker::Server).await?;
    Ok(rows(&mut reader).await?.iter().any(|row| row.shard == shard))
}

/// The shard with the fewest tenants.
pub async fn emptiest(database: &Database) -> Result<i32, Error> {
    let fewest = list(database).await?.into_iter().min_by_key(|shard| (shard.tenants, shard.shard));
    Ok(fewest.map_or(0, |shard| shard.shard))
}

/// All shards, by their numbers.
pub async fn list(database: &Database) -> Result<Vec<Listed>, Error> {
    let mut reader = database.read(Asker::Server).await?;
    let mut listed = Vec::new();
    for row in rows(&mut reader).await? {
        let tenants =
            reader.query(concat!("SELECT COUNT(*) AS tenants FROM tenants WHERE ", of_shard!("tenants.name", "$1")));
        let tenants = tenants.bind(row.shard).one().await?.unsigned("tenants")?;
        let workers = reader
            .query("SELECT CAST(COALESCE(SUM(workers), 0) AS BIGINT) AS workers FROM shard_pools WHERE shard = $1");
        let workers = workers.bind(row.shard).one().await?.unsigned("workers")?;
        let (owner, workers) = if row.is_alive { (row.url, workers) } else { (None, 0) };
        listed.push(Listed { shard: row.shard, owner, tenants, workers });
    }
    Ok(listed)
}
