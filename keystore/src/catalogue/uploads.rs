//! Rows of uploads.

use cloakwork_storage::Row;

use super::{Connection, from_sql, to_sql};
use crate::{Digest, Error, TenantId, UploadId, of_shard};

/// An upload's row in the catalogue.
#[derive(Clone, Debug)]
pub(crate) struct UploadRow {
    pub(crate) id: UploadId,
    pub(crate) tenant: TenantId,
    pub(crate) digest: Digest,
    pub(crate) complete: bool,
    /// Whether a worker hands in a job's result through this upload. The tenant's clients neither
    /// see nor abort uploads of results.
    pub(crate) result: bool,
    pub(crate) expires_micros: i64,
}

/// Finds the tenant's upload of this id.
pub(crate) async fn find(sql: &mut Connection, tenant: &TenantId, id: &UploadId) -> Result<Option<UploadRow>, Error> {
    let row = sql
        .query("SELECT * FROM uploads WHERE id = $1 AND tenant = $2")
        .bind(id.as_str())
        .bind(tenant.as_str())
        .optional()
        .await?;
    row.as_ref().map(read).transpose()
}

/// Adds the upload, or updates the state and the expiry of an existing upload. An open upload of a
/// result stays an upload of a result, because a client must not abort a worker's result.
pub(crate) async fn put(sql: &mut Connection, upload: &UploadRow) -> Result<(), Error> {
    sql.query(
        "INSERT INTO uploads (id, tenant, digest, size_bytes, complete, expires_micros, result)
         VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (id) DO UPDATE SET complete = $5, expires_micros = $6,
            result = CASE WHEN uploads.complete = 0 AND uploads.result = 1 THEN 1 ELSE $7 END",
    )
    .bind(upload.id.as_str())
    .bind(upload.tenant.as_str())
    .bind(&upload.digest.blake3[..])
    .bind(to_sql(upload.digest.size_bytes))
    .bind(upload.complete)
    .bind(upload.expires_micros)
    .bind(upload.result)
    .execute()
    .await?;
    Ok(())
}

/// The tenant's open uploads after `after`, in the order of their ids. Uploads of results are left
/// out.
pub(crate) async fn page(
    sql: &mut Connection,
    tenant: &TenantId,
    after: Option<&UploadId>,
    most: u32,
) -> Result<Vec<UploadRow>, Error> {
    let rows = sql
        .query(
            "SELECT * FROM uploads WHERE tenant = $1 AND complete = 0 AND result = 0 AND id > $2 ORDER BY id LIMIT $3",
        )
        .bind(tenant.as_str())
        // The empty string sorts before every id.
        .bind(after.map_or("", UploadId::as_str))
        .bind(most)
        .all()
        .await?;
    rows.iter().map(read).collect()
}

/// Removes the tenant's upload of this id if it is open and carries no result. Returns whether a
/// row was removed.
pub(crate) async fn remove_open(sql: &mut Connection, tenant: &TenantId, id: &UploadId) -> Result<bool, Error> {
    let removed = sql
        .query("DELETE FROM uploads WHERE id = $1 AND tenant = $2 AND complete = 0 AND result = 0")
        .bind(id.as_str())
        .bind(tenant.as_str())
        .execute()
        .await?;
    Ok(removed > 0)
}

/// Removes an upload.
pub(crate) async fn remove(sql: &mut Connection, id: &UploadId) -> Result<(), Error> {
    sql.query("DELETE FROM uploads WHERE id = $1").bind(id.as_str()).execute().await?;
    Ok(())
}

/// Removes an upload if it has expired, and returns whether a row was removed.
pub(crate) async fn remove_expired(sql: &mut Connection, id: &UploadId, now_micros: i64) -> Result<bool, Error> {
    let removed = sql
        .query("DELETE FROM uploads WHERE id = $1 AND expires_micros <= $2")
        .bind(id.as_str())
        .bind(now_micros)
        .execute()
        .await?;
    Ok(removed > 0)
}

/// Extends the expiry of an open upload that had a writer until now.
pub(crate) async fn renew(sql: &mut Connection, id: &UploadId, expires_micros: i64) -> Result<(), Error> {
    sql.query("UPDATE uploads SET expires_micros = $2 WHERE id = $1 AND complete = 0")
        .bind(id.as_str())
        .bind(expires_micros)
        .execute()
        .await?;
    Ok(())
}

/// Removes an upload if it is complete.
pub(crate) async fn remove_finished(sql: &mut Connection, id: &UploadId) -> Result<(), Error> {
    sql.query("DELETE FROM uploads WHERE id = $1 AND complete = 1").bind(id.as_str()).execute().await?;
    Ok(())
}

/// Number of open uploads of the tenant's clients and of all clients of the shard, and the
/// announced bytes of the tenant's open uploads. Uploads of results do not count as uploads, but
/// their bytes count.
pub(crate) async fn open(sql: &mut Connection, shard: i32, tenant: &TenantId) -> Result<(u64, u64, u64), Error> {
    let total = sql.query(concat!(
        "SELECT COUNT(*) AS uploads FROM uploads WHERE complete = 0 AND result = 0 AND ",
        of_shard!("uploads.tenant", "$1")
    ));
    let total = total.bind(shard).one().await?;
    let own = sql
        .query(
            "SELECT CAST(COALESCE(SUM(1 - result), 0) AS BIGINT) AS uploads,
                CAST(COALESCE(SUM(size_bytes), 0) AS BIGINT) AS bytes
             FROM uploads WHERE tenant = $1 AND complete = 0",
        )
        .bind(tenant.as_str())
        .one()
        .await?;
    Ok((from_sql(own.int("uploads")?), from_sql(total.int("uploads")?), from_sql(own.int("bytes")?)))
}

/// The tenant of the shard whose clients have the most open uploads, and the number of these
/// uploads.
pub(crate) async fn largest(sql: &mut Connection, shard: i32) -> Result<Option<(TenantId, u64)>, Error> {
    let row = sql
        .query(concat!(
            "SELECT tenant, COUNT(*) AS uploads FROM uploads WHERE complete = 0 AND result = 0 AND ",
            of_shard!("uploads.tenant", "$1"),
            " GROUP BY tenant ORDER BY COUNT(*) DESC, tenant LIMIT 1"
        ))
        .bind(shard)
        .optional()
        .await?;
    row.map(|row| Ok((TenantId::new(row.text("tenant")?)?, from_sql(row.int("uploads")?)))).transpose()
}

/// The open uploads of the tenant's clients that expire by `until_micros`, and the uploads of
/// results that expire by `results_micros`, earliest first. Without `results_micros`, uploads of
/// results are left out.
pub(crate) async fn silent(
    sql: &mut Connection,
    tenant: &TenantId,
    until_micros: i64,
    results_micros: Option<i64>,
) -> Result<Vec<UploadRow>, Error> {
    let rows = sql
        .query(
            "SELECT * FROM uploads WHERE tenant = $1 AND complete = 0
            AND expires_micros <= CASE WHEN result = 1 THEN CAST($3 AS BIGINT) ELSE CAST($2 AS BIGINT) END
         ORDER BY expires_micros",
        )
        .bind(tenant.as_str())
        .bind(until_micros)
        .bind(results_micros.unwrap_or(i64::MIN))
        .all()
        .await?;
    rows.iter().map(read).collect()
}

/// At most `most` expired uploads of the shard, open or complete, earliest first.
pub(crate) async fn expired(
    sql: &mut Connection,
    shard: i32,
    now_micros: i64,
    most: u32,
) -> Result<Vec<UploadRow>, Error> {
    let rows = sql
        .query(concat!(
            "SELECT * FROM uploads WHERE expires_micros <= $1 AND ",
            of_shard!("uploads.tenant", "$2"),
            " ORDER BY expires_micros LIMIT $3"
        ))
        .bind(now_micros)
        .bind(shard)
        .bind(most)
        .all()
        .await?;
    rows.iter().map(read).collect()
}

fn read(row: &Row) -> Result<UploadRow, Error> {
    Ok(UploadRow {
        id: UploadId::parse(row.text("id")?)?,
        tenant: TenantId::new(row.text("tenant")?)?,
        digest: Digest { blake3: row.array("digest")?, size_bytes: from_sql(row.int("size_bytes")?) },
        complete: row.flag("complete")?,
        result: row.flag("result")?,
        expires_micros: row.int("expires_micros")?,
    })
}
