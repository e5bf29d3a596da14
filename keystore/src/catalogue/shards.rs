//! Shards of tenants: the parts of a database that have an owner each.

use super::Connection;
use crate::{Error, TenantId};

/// A condition for SQL: the tenant in a column belongs to the shard in a parameter.
///
/// ```
/// let sql = concat!("SELECT id FROM uploads WHERE ", cloakwork_keystore::of_shard!("uploads.tenant", "$1"));
/// assert!(sql.ends_with("(SELECT shard FROM tenant_shards WHERE tenant_shards.tenant = uploads.tenant), 0) = $1"));
/// ```
#[macro_export]
macro_rules! of_shard {
    ($tenant:literal, $shard:literal) => {
        concat!("COALESCE((SELECT shard FROM tenant_shards WHERE tenant_shards.tenant = ", $tenant, "), 0) = ", $shard)
    };
}

/// Whether the tenant belongs to the shard.
pub(crate) async fn has(sql: &mut Connection, shard: i32, tenant: &TenantId) -> Result<bool, Error> {
    let row = sql.query("SELECT shard FROM tenant_shards WHERE tenant = $1").bind(tenant.as_str()).optional().await?;
    Ok(row.map(|row| row.int("shard")).transpose()?.unwrap_or(0) == i64::from(shard))
}
