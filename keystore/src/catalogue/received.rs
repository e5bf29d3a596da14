//! Bytes that clients uploaded, by tenant and day. The server reads these sums with its own.

use super::{Connection, to_sql};
use crate::{Error, TenantId};

/// Adds bytes to a day of a tenant.
pub(crate) async fn add(sql: &mut Connection, tenant: &TenantId, day: i64, bytes: u64) -> Result<(), Error> {
    let query = sql.query(
        "INSERT INTO received_days (tenant, day, bytes) VALUES ($1, $2, $3)
         ON CONFLICT (tenant, day) DO UPDATE SET bytes = received_days.bytes + excluded.bytes",
    );
    query.bind(tenant.as_str()).bind(day).bind(to_sql(bytes)).execute().await?;
    Ok(())
}
