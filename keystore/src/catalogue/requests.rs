//! Request ids, which are idempotency keys, and the requests that they stand for.

use super::Connection;
use crate::{Error, RequestId, TenantId, of_shard};

/// Records the request that an id stands for. Reuse of the id for another request is an error.
///
/// `content` is a hash of everything that identifies the request. If a tenant has more than `most`
/// ids, the oldest are forgotten.
pub(crate) async fn claim(
    sql: &mut Connection,
    tenant: &TenantId,
    id: &RequestId,
    content: &blake3::Hash,
    now_micros: i64,
    most: u32,
) -> Result<(), Error> {
    let inserted = sql
        .query(
            "INSERT INTO requests (tenant, request_id, content, created_micros) VALUES ($1, $2, $3, $4)
         ON CONFLICT (tenant, request_id) DO NOTHING",
        )
        .bind(tenant.as_str())
        .bind(&id[..])
        .bind(&content.as_bytes()[..])
        .bind(now_micros)
        .execute()
        .await?;
    if inserted > 0 {
        return forget_oldest(sql, tenant, most).await;
    }
    let known = sql
        .query("SELECT content FROM requests WHERE tenant = $1 AND request_id = $2")
        .bind(tenant.as_str())
        .bind(&id[..])
        .one()
        .await?;
    if known.bytes("content")? == content.as_bytes() { Ok(()) } else { Err(Error::RequestIdReused) }
}

/// Forgets the oldest ids beyond `most`. A batch limit keeps the transaction short if there are far
/// too many.
async fn forget_oldest(sql: &mut Connection, tenant: &TenantId, most: u32) -> Result<(), Error> {
    sql.query(
        "DELETE FROM requests WHERE (tenant, request_id) IN (
            SELECT tenant, request_id FROM requests WHERE tenant = $1 ORDER BY created_micros
            LIMIT (SELECT CASE WHEN requests <= $2 THEN 0 WHEN requests - $2 < 256 THEN requests - $2 ELSE 256 END
                FROM request_counts WHERE tenant = $1))",
    )
    .bind(tenant.as_str())
    .bind(most)
    .execute()
    .await?;
    Ok(())
}

/// Forgets at most `most` ids of the shard from before a time, and returns the number forgotten.
pub(crate) async fn forget(sql: &mut Connection, shard: i32, before_micros: i64, most: u32) -> Result<u64, Error> {
    let forgotten = sql
        .query(concat!(
            "DELETE FROM requests WHERE (tenant, request_id) IN (
            SELECT tenant, request_id FROM requests WHERE created_micros < $1 AND ",
            of_shard!("requests.tenant", "$2"),
            " LIMIT $3)"
        ))
        .bind(before_micros)
        .bind(shard)
        .bind(most)
        .execute()
        .await?;
    Ok(forgotten)
}
