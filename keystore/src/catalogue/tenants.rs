//! Rows of a tenant that is deleted.

use super::Connection;
use crate::{Error, TenantId};

/// Removes all keys of the tenant, and returns the number of removed rows.
pub(crate) async fn remove_keys(sql: &mut Connection, tenant: &TenantId) -> Result<u64, Error> {
    let mut removed = 0;
    for statement in ["DELETE FROM key_parts WHERE tenant = $1", "DELETE FROM keys WHERE tenant = $1"] {
        removed += sql.query(statement).bind(tenant.as_str()).execute().await?;
    }
    Ok(removed)
}

/// Removes at most `most` pins, request ids and closed uploads each. Returns the number of removed
/// rows.
pub(crate) async fn remove_rest(sql: &mut Connection, tenant: &TenantId, most: u32) -> Result<u64, Error> {
    let mut removed = 0;
    for statement in [
        "DELETE FROM pins WHERE (tenant, digest, holder) IN (
            SELECT tenant, digest, holder FROM pins WHERE tenant = $1 LIMIT $2)",
        "DELETE FROM requests WHERE (tenant, request_id) IN (
            SELECT tenant, request_id FROM requests WHERE tenant = $1 LIMIT $2)",
        "DELETE FROM uploads WHERE id IN (SELECT id FROM uploads WHERE tenant = $1 AND complete = 1 LIMIT $2)",
    ] {
        removed += sql.query(statement).bind(tenant.as_str()).bind(most).execute().await?;
    }
    Ok(removed)
}

/// Removes the tenant's sums and its shard. Call this once the tenant has no other rows.
pub(crate) async fn remove_sums(sql: &mut Connection, tenant: &TenantId) -> Result<(), Error> {
    for statement in [
        "DELETE FROM usage WHERE tenant = $1",
        "DELETE FROM request_counts WHERE tenant = $1",
        "DELETE FROM received_days WHERE tenant = $1",
        "DELETE FROM tenant_shards WHERE tenant = $1",
    ] {
        sql.query(statement).bind(tenant.as_str()).execute().await?;
    }
    Ok(())
}
