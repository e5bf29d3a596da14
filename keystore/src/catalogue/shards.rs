//! Shards of tenants: the parts of a database that have an owner each.

use super::Connection;
use crate::{Error, TenantId};

/// An expression for SQL: the shard of the tenant in a column or parameter. A tenant without a row
/// of its own belongs to shard 0.
///
/// ```
/// let sql = concat!("SELECT ", cloakwork_keystore::shard_of!("$1"), " AS shard");
/// assert!(sql.contains("WHERE tenant_shards.tenant = $1), 0) AS shard"));
/// ```
#[macro_export]
macro_rules! shard_of {
    ($tenant:literal) => {
        concat!("COALESCE((SELECT shard FROM tenant_shards WHERE tenant_shards.tenant = ", $tenant, "), 0)")
    };
}

/// A condition for SQL: the tenant in a column belongs to the shard in a parameter.
///
/// ```
/// let sql = concat!("SELECT id FROM uploads WHERE ", cloakwork_keystore::of_shard!("uploads.tenant", "$1"));
/// assert!(sql.ends_with("WHERE tenant_shards.tenant = uploads.tenant), 0) = $1"));
/// ```
#[macro_export]
macro_rules! of_shard {
    ($tenant:literal, $shard:literal) => {
        concat!($crate::shard_of!($tenant), " = ", $shard)
    };
}

/// The shard of a tenant.
pub async fn shard_of(sql: &mut Connection, tenant: &str) -> Result<i32, cloakwork_storage::Error> {
    let query = sql.query(concat!("SELECT ", shard_of!("$1"), " AS shard")).bind(tenant);
    query.one().await?.small("shard")
}

/// Whether the tenant belongs to the shard.
pub(crate) async fn has(sql: &mut Connection, shard: i32, tenant: &TenantId) -> Result<bool, Error> {
    Ok(shard_of(sql, tenant.as_str()).await? == shard)
}
