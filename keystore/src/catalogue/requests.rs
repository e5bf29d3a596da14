//! What request ids were used for.

use super::Connection;
use crate::{Error, RequestId, TenantId};

/// Remembers what a request id stands for; the same id for something else is an error.
///
/// `content` is everything that makes the request what it is.
pub(crate) async fn claim(
    sql: &mut Connection,
    tenant: &TenantId,
    id: &RequestId,
    content: &blake3::Hash,
    now_ms: i64,
) -> Result<(), Error> {
    sqlx::query(
        "INSERT INTO requests (tenant, request_id, content, created_ms) VALUES ($1, $2, $3, $4)
         ON CONFLICT (tenant, request_id) DO NOTHING",
    )
    .bind(tenant.as_str())
    .bind(&id[..])
    .bind(&content.as_bytes()[..])
    .bind(now_ms)
    .execute(&mut *sql)
    .await?;
    let known: Vec<u8> = sqlx::query_scalar("SELECT content FROM requests WHERE tenant = $1 AND request_id = $2")
        .bind(tenant.as_str())
        .bind(&id[..])
        .fetch_one(sql)
        .await?;
    if known == content.as_bytes() { Ok(()) } else { Err(Error::RequestIdReused) }
}

/// Forgets ids from before a time.
pub(crate) async fn forget(sql: &mut Connection, before_ms: i64) -> Result<(), Error> {
    sqlx::query("DELETE FROM requests WHERE created_ms < $1").bind(before_ms).execute(sql).await?;
    Ok(())
}
