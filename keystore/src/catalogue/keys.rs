//! Rows of keys and of their parts.

use cloakwork_params::KeyId;
use cloakwork_storage::Row;

use super::{Connection, from_sql};
use crate::{Digest, Error, TenantId, of_shard};

/// A key's row, without its parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyRow {
    pub(crate) key_id: KeyId,
    pub(crate) deleting: bool,
    pub(crate) created_micros: i64,
}

/// Finds the tenant's key of this id.
pub(crate) async fn find(sql: &mut Connection, tenant: &TenantId, key: KeyId) -> Result<Option<KeyRow>, Error> {
    let row = sql
        .query("SELECT * FROM keys WHERE tenant = $1 AND key_id = $2")
        .bind(tenant.as_str())
        .bind(&key.0[..])
        .optional()
        .await?;
    row.as_ref().map(read).transpose()
}

/// At most `limit` keys whose ids come after `after`, in the order of their ids.
pub(crate) async fn page(
    sql: &mut Connection,
    tenant: &TenantId,
    after: Option<KeyId>,
    limit: u32,
) -> Result<Vec<KeyRow>, Error> {
    // The empty string sorts before every id.
    let after = after.map_or(Vec::new(), |key| key.0.to_vec());
    let rows = sql
        .query("SELECT * FROM keys WHERE tenant = $1 AND key_id > $2 ORDER BY key_id LIMIT $3")
        .bind(tenant.as_str())
        .bind(after)
        .bind(limit)
        .all()
        .await?;
    rows.iter().map(read).collect()
}

/// Number of the tenant's keys.
pub(crate) async fn count(sql: &mut Connection, tenant: &TenantId) -> Result<u64, Error> {
    let row = sql.query("SELECT COUNT(*) AS keys FROM keys WHERE tenant = $1").bind(tenant.as_str()).one().await?;
    Ok(from_sql(row.int("keys")?))
}

/// Adds a key without parts.
pub(crate) async fn insert(sql: &mut Connection, tenant: &TenantId, key: KeyId, now_micros: i64) -> Result<(), Error> {
    sql.query("INSERT INTO keys (tenant, key_id, deleting, created_micros) VALUES ($1, $2, 0, $3)")
        .bind(tenant.as_str())
        .bind(&key.0[..])
        .bind(now_micros)
        .execute()
        .await?;
    Ok(())
}

/// Adds a part. Adding a part again has no effect.
pub(crate) async fn insert_part(
    sql: &mut Connection,
    tenant: &TenantId,
    key: KeyId,
    digest: &Digest,
) -> Result<(), Error> {
    sql.query(
        "INSERT INTO key_parts (tenant, key_id, digest) VALUES ($1, $2, $3) ON CONFLICT (tenant, digest) DO NOTHING",
    )
    .bind(tenant.as_str())
    .bind(&key.0[..])
    .bind(&digest.blake3[..])
    .execute()
    .await?;
    Ok(())
}

/// Whether the blob is a part of a key.
pub(crate) async fn has_part(sql: &mut Connection, tenant: &TenantId, digest: &Digest) -> Result<bool, Error> {
    let found = sql
        .query("SELECT 1 FROM key_parts WHERE tenant = $1 AND digest = $2")
        .bind(tenant.as_str())
        .bind(&digest.blake3[..])
        .optional()
        .await?;
    Ok(found.is_some())
}

/// Marks a key as being deleted.
pub(crate) async fn start_deleting(sql: &mut Connection, tenant: &TenantId, key: KeyId) -> Result<(), Error> {
    sql.query("UPDATE keys SET deleting = 1 WHERE tenant = $1 AND key_id = $2")
        .bind(tenant.as_str())
        .bind(&key.0[..])
        .execute()
        .await?;
    Ok(())
}

/// Keys of all tenants that are being deleted and still have rows, at most `limit`.
pub(crate) async fn deleting(sql: &mut Connection, shard: i32, limit: u32) -> Result<Vec<(TenantId, KeyId)>, Error> {
    let query = sql.query(concat!(
        "SELECT tenant, key_id FROM keys WHERE deleting = 1 AND ",
        of_shard!("keys.tenant", "$1"),
        " LIMIT $2"
    ));
    let rows = query.bind(shard).bind(limit).all().await?;
    let name = |row: &Row| Ok((TenantId::new(row.text("tenant")?)?, KeyId(row.array("key_id")?)));
    rows.iter().map(name).collect()
}

/// Removes a key and its list of parts.
pub(crate) async fn remove(sql: &mut Connection, tenant: &TenantId, key: KeyId) -> Result<(), Error> {
    for statement in [
        "DELETE FROM key_parts WHERE tenant = $1 AND key_id = $2",
        "DELETE FROM keys WHERE tenant = $1 AND key_id = $2",
    ] {
        sql.query(statement).bind(tenant.as_str()).bind(&key.0[..]).execute().await?;
    }
    Ok(())
}

fn read(row: &Row) -> Result<KeyRow, Error> {
    Ok(KeyRow {
        key_id: KeyId(row.array("key_id")?),
        deleting: row.flag("deleting")?,
        created_micros: row.int("created_micros")?,
    })
}
