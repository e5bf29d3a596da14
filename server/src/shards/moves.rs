//! Moves of tenants between shards.
//!
//! The operator wants a move. The owner of the tenant's shard carries it out once the tenant has
//! neither unfinished jobs nor open uploads.

use cloakwork_storage::{Asker, Database, Error, Rows};

use super::Moved;
use crate::tenant::Tenant;

/// Wants a tenant in a shard, which takes effect at the next moment in which the tenant is idle.
pub async fn want(database: &Database, tenant: &Tenant, shard: i32) -> Result<(), Error> {
    let mut write = database.write(Asker::Server, Rows::All).await?;
    let query = write.query(
        "INSERT INTO tenant_shards (tenant, shard, wanted, moved_micros) VALUES ($1, 0, $2, 0) \
         ON CONFLICT (tenant) DO UPDATE SET wanted = excluded.wanted",
    );
    query.bind(tenant.as_str()).bind(shard).execute().await?;
    write.commit().await
}

/// Tenants of the shard of `database` that are to move, each with its next shard.
pub async fn wanted(database: &Database) -> Result<Vec<(String, i32)>, Error> {
    let mut reader = database.read(Asker::Upkeep).await?;
    let query = reader.query("SELECT tenant, wanted FROM tenant_shards WHERE shard = $1 AND wanted IS NOT NULL");
    let rows = query.bind(database.shard()).all().await?;
    rows.iter().map(|row| Ok((row.text("tenant")?.to_owned(), row.small("wanted")?))).collect()
}

/// Whether the tenant has neither unfinished jobs nor open uploads.
pub async fn is_idle(database: &Database, tenant: &str) -> Result<bool, Error> {
    let mut reader = database.read(Asker::Upkeep).await?;
    Ok(reader.query(BUSY).bind(tenant).optional().await?.is_none())
}

/// Hands an idle tenant to another shard. `database` is the handle of the owner of the tenant's
/// shard. Returns `None` if the tenant is not idle.
pub async fn hand_over(database: &Database, tenant: &str, to: i32) -> Result<Option<Moved>, Error> {
    let mut write = database.write(Asker::Upkeep, Rows::Tenant(tenant)).await?;
    if write.query(BUSY).bind(tenant).optional().await?.is_some() {
        return Ok(None);
    }
    let query = write.query(
        "UPDATE tenant_shards SET shard = $3, wanted = NULL, moved_micros = cloakwork_now_micros() \
         WHERE tenant = $1 AND shard = $2 AND wanted = $3 AND EXISTS (SELECT 1 FROM shards WHERE shards.shard = $3) \
         RETURNING moved_micros",
    );
    let row = query.bind(tenant).bind(database.shard()).bind(to).optional().await?;
    let moved = row.map(|row| Ok(Moved { shard: to, at_micros: row.int("moved_micros")? })).transpose()?;
    write.commit().await?;
    Ok(moved)
}

/// The latest move of a tenant away from the shard of `database`, or `None` if the tenant is in
/// this shard. The transaction excludes others on the rows of the tenant, so that the answer covers
/// a move whose commit is still on its way.
pub async fn departure(database: &Database, tenant: &str) -> Result<Option<Moved>, Error> {
    let mut write = database.write(Asker::Upkeep, Rows::Tenant(tenant)).await?;
    let query = write.query("SELECT shard, moved_micros FROM tenant_shards WHERE tenant = $1").bind(tenant);
    let row = query.optional().await?;
    let moved = row.map(|row| Ok(Moved { shard: row.small("shard")?, at_micros: row.int("moved_micros")? }));
    let moved = moved.transpose()?.filter(|moved| moved.shard != database.shard());
    write.commit().await?;
    Ok(moved)
}

/// Finds a row if the tenant is not idle.
const BUSY: &str = "SELECT 1 FROM jobs WHERE tenant = $1 AND ended_micros IS NULL \
     UNION ALL SELECT 1 FROM uploads WHERE tenant = $1 AND complete = 0 LIMIT 1";
