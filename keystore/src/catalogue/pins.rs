//! Rows of pins.

use cloakwork_storage::{Batch, Each};

use super::Connection;
use crate::{Digest, Error, Holder, TenantId, of_shard};

const PUT: &str = "INSERT INTO pins (tenant, digest, holder, until_micros) VALUES ($1, $2, $3, $4)
     ON CONFLICT (tenant, digest, holder) DO UPDATE SET until_micros = excluded.until_micros";
const RELEASE: &str = "DELETE FROM pins WHERE holder = $1";

/// Adds a pin, or changes the expiry of an existing pin.
pub(crate) async fn put(
    sql: &mut Connection,
    tenant: &TenantId,
    digest: &Digest,
    holder: &Holder,
    until_micros: Option<i64>,
) -> Result<(), Error> {
    sql.query(PUT)
        .bind(tenant.as_str())
        .bind(&digest.blake3[..])
        .bind(&holder[..])
        .bind(until_micros)
        .execute()
        .await?;
    Ok(())
}

/// A part of a batch that does the same.
pub(crate) fn puts(batch: &mut Batch) -> Each<'_> {
    batch.each(PUT)
}

/// Adds a pin to the part of a batch.
pub(crate) fn add(puts: &mut Each<'_>, tenant: &str, blake3: &[u8; 32], holder: &Holder, until_micros: Option<i64>) {
    puts.row().bind(tenant).bind(*blake3).bind(*holder).bind(until_micros);
}

/// Whether any holder pins the blob.
pub(crate) async fn pinned(
    sql: &mut Connection,
    tenant: &TenantId,
    digest: &Digest,
    now_micros: i64,
) -> Result<bool, Error> {
    let found = sql
        .query(
            "SELECT 1 FROM pins WHERE tenant = $1 AND digest = $2
             AND (until_micros IS NULL OR until_micros > $3) LIMIT 1",
        )
        .bind(tenant.as_str())
        .bind(&digest.blake3[..])
        .bind(now_micros)
        .optional()
        .await?;
    Ok(found.is_some())
}

/// Whether the holder has any pin.
pub(crate) async fn holds_any(sql: &mut Connection, holder: &Holder) -> Result<bool, Error> {
    let found = sql.query("SELECT 1 FROM pins WHERE holder = $1 LIMIT 1").bind(&holder[..]).optional().await?;
    Ok(found.is_some())
}

/// Removes all pins of a holder.
pub(crate) async fn release(sql: &mut Connection, holder: &[u8]) -> Result<(), Error> {
    sql.query(RELEASE).bind(holder).execute().await?;
    Ok(())
}

/// A part of a batch that does the same.
pub(crate) fn releases(batch: &mut Batch) -> Each<'_> {
    batch.each(RELEASE)
}

/// Adds a holder to the part of a batch.
pub(crate) fn add_release(releases: &mut Each<'_>, holder: &Holder) {
    releases.row().bind(*holder);
}

/// All holders of pins of the shard.
pub(crate) async fn holders(sql: &mut Connection, shard: i32) -> Result<Vec<Vec<u8>>, Error> {
    let query = sql.query(concat!("SELECT DISTINCT holder FROM pins WHERE ", of_shard!("pins.tenant", "$1")));
    let rows = query.bind(shard).all().await?;
    rows.iter().map(|row| Ok(row.bytes("holder")?.to_vec())).collect()
}

/// Removes at most `most` expired pins of the shard, and returns the number removed.
pub(crate) async fn expire(sql: &mut Connection, shard: i32, now_micros: i64, most: u32) -> Result<u64, Error> {
    let expired = sql
        .query(concat!(
            "DELETE FROM pins WHERE (tenant, digest, holder) IN (
            SELECT tenant, digest, holder FROM pins WHERE until_micros <= $1 AND ",
            of_shard!("pins.tenant", "$2"),
            " LIMIT $3)"
        ))
        .bind(now_micros)
        .bind(shard)
        .bind(most)
        .execute()
        .await?;
    Ok(expired)
}
