//! What a tenant may keep in the server's own database.

use crate::{
    database,
    error::{ApiError, QUOTA_EXCEEDED},
    limits::Limits,
    store::Store,
};

/// Refuses `more` bytes that a tenant has no room for. Calls at the same time do not see each other, and may together go
/// beyond the limit by what each of them may hold.
pub async fn check(store: &Store, limits: &Limits, tenant: &str, more: u64) -> Result<(), ApiError> {
    let limit = limits.tenant_inline_bytes;
    let got = store.inline_bytes(tenant).await.map_err(database::failed)?.saturating_add(more);
    if got <= limit {
        return Ok(());
    }
    let message = format!(
        "{got} bytes of programs, and of inputs and outputs inside jobs: at most {limit} (tenant_inline_bytes)"
    );
    Err(QUOTA_EXCEEDED
        .error(message.clone())
        .with("limit", "tenant_inline_bytes")
        .quota(format!("tenants/{tenant}"), message))
}

/// Bytes that a tenant has left.
pub async fn left(store: &Store, limits: &Limits, tenant: &str) -> Result<u64, ApiError> {
    let used = store.inline_bytes(tenant).await.map_err(database::failed)?;
    Ok(limits.tenant_inline_bytes.saturating_sub(used))
}
