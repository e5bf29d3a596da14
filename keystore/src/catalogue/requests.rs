//! What request ids were used for.

use super::Connection;
use crate::{Error, RequestId, TenantId};

/// Remembers what a request id stands for; the same id for something else is an error.
///
/// `content` is everything that makes the request what it is. Beyond `most` of a tenant's ids the oldest are forgotten.
pub(crate) async fn claim(
    sql: &mut Connection,
    tenant: &TenantId,
    id: &RequestId,
    content: &blake3::Hash,
    now_ms: i64,
    most: u32,
) -> Result<(), Error> {
    let inserted = sqlx::query(
        "INSERT INTO requests (tenant, request_id, content, created_ms) VALUES ($1, $2, $3, $4)
         ON CONFLICT (tenant, request_id) DO NOTHING",
    )
    .bind(tenant.as_str())
    .bind(&id[..])
    .bind(&content.as_bytes()[..])
    .bind(now_ms)
    .execute(&mut *sql)
    .await?;
    if inserted.rows_affected() > 0 {
        return forget_oldest(sql, tenant, most).await;
    }
    let known: Vec<u8> = sqlx::query_scalar("SELECT content FROM requests WHERE tenant = $1 AND request_id = $2")
        .bind(tenant.as_str())
        .bind(&id[..])
        .fetch_one(sql)
        .await?;
    if known == content.as_bytes() { Ok(()) } else { Err(Error::RequestIdReused) }
}

/// Forgets the oldest of too many; some at a time, should they be far too many.
async fn forget_oldest(sql: &mut Connection, tenant: &TenantId, most: u32) -> Result<(), Error> {
    sqlx::query(
        "DELETE FROM requests WHERE (tenant, request_id) IN (
            SELECT tenant, request_id FROM requests WHERE tenant = $1 ORDER BY created_ms
            LIMIT (SELECT MIN(MAX(requests - $2, 0), 256) FROM request_counts WHERE tenant = $1))",
    )
    .bind(tenant.as_str())
    .bind(i64::from(most))
    .execute(sql)
    .await?;
    Ok(())
}

/// Forgets some ids from before a time, and says how many.
pub(crate) async fn forget(sql: &mut Connection, before_ms: i64, most: u32) -> Result<u64, Error> {
    let forgotten = sqlx::query(
        "DELETE FROM requests WHERE (tenant, request_id) IN (
            SELECT tenant, request_id FROM requests WHERE created_ms < $1 LIMIT $2)",
    )
    .bind(before_ms)
    .bind(i64::from(most))
    .execute(sql)
    .await?;
    Ok(forgotten.rows_affected())
}
