//! The quota of each tenant in the server's own database.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use quick_cache::unsync::Cache;

use crate::{
    database,
    error::{ApiError, QUOTA_EXCEEDED},
    store::Store,
    tenant_limits::{OwnLimit, TenantLimits},
};

/// How long a sum is used before the store is asked again. Room taken meanwhile is added to the
/// sum.
const SUM_LIFETIME: Duration = Duration::from_secs(1);

/// Maximum number of tenants whose sums are remembered.
const QUOTA_TENANTS_MAX: usize = 4096;

/// Room for bytes of programs, and of inputs and outputs inside jobs. Cheap to clone.
///
/// Calls in progress do not count when the store is asked. A tenant may therefore exceed its limit
/// by the bytes of these calls.
#[derive(Clone)]
pub struct Quota {
    store: Store,
    own: TenantLimits,
    /// Maximum number of bytes of each tenant that has no limit of its own.
    of_server: u64,
    sums: Arc<Mutex<Cache<Arc<str>, Sum>>>,
}

#[derive(Clone, Copy, Debug)]
struct Sum {
    bytes: u64,
    asked: Instant,
}

impl fmt::Debug for Quota {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Quota").field("of_server", &self.of_server).finish_non_exhaustive()
    }
}

impl Quota {
    /// A quota of `of_server` bytes for each tenant that has no limit of its own.
    pub fn new(store: Store, own: TenantLimits, of_server: u64) -> Self {
        Self { store, own, of_server, sums: Arc::new(Mutex::new(Cache::new(QUOTA_TENANTS_MAX))) }
    }

    /// A handle for calls of workers, which do not wait behind the calls of the tenants. Both
    /// handles share the room.
    pub fn for_workers(&self) -> Self {
        Self { store: self.store.for_workers(), ..self.clone() }
    }

    /// Takes room for `more` bytes, or refuses them.
    pub async fn take(&self, tenant: &str, more: u64) -> Result<(), ApiError> {
        let Some(got) = self.try_take(tenant, more).await? else { return Ok(()) };
        let limit = self.limit_of(tenant);
        let message = format!(
            "{got} bytes of programs, and of inputs and outputs inside jobs: at most {limit} (tenant_inline_bytes)"
        );
        Err(QUOTA_EXCEEDED
            .error(message.clone())
            .with("limit", "tenant_inline_bytes")
            .quota(format!("tenants/{tenant}"), message))
    }

    /// Takes room for `more` bytes if there is any. Returns whether there was room.
    pub async fn take_if_any(&self, tenant: &str, more: u64) -> Result<bool, ApiError> {
        Ok(self.try_take(tenant, more).await?.is_none())
    }

    /// Takes the room. If there is none, returns the number of bytes that the tenant would have.
    async fn try_take(&self, tenant: &str, more: u64) -> Result<Option<u64>, ApiError> {
        let limit = self.limit_of(tenant);
        if let Some(mut sum) = self.sums().get_mut(tenant)
            && sum.asked.elapsed() < SUM_LIFETIME
            && sum.bytes.saturating_add(more) <= limit
        {
            sum.bytes += more;
            return Ok(None);
        }
        let asked = Instant::now();
        let bytes = self.store.inline_bytes(tenant).await.map_err(database::failed)?.saturating_add(more);
        if bytes > limit {
            return Ok(Some(bytes));
        }
        self.sums().insert(tenant.into(), Sum { bytes, asked });
        Ok(None)
    }

    fn limit_of(&self, tenant: &str) -> u64 {
        self.own.of(tenant, OwnLimit::InlineBytes, self.of_server)
    }

    fn sums(&self) -> MutexGuard<'_, Cache<Arc<str>, Sum>> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::SCHEMAS;

    #[tokio::test]
    async fn a_tenant_has_room_up_to_the_limit_of_the_server_or_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let database = cloakwork_tests_database::open(&directory.path().join("server.db"), &SCHEMAS, 1).await;
        let own = TenantLimits::of_one("a", OwnLimit::InlineBytes, 10);
        let quota = Quota::new(Store::new(database), own, 20);
        assert!(quota.take("a", 11).await.unwrap_err().message().contains("at most 10 (tenant_inline_bytes)"));
        quota.take("a", 10).await.unwrap();
        assert!(!quota.take_if_any("b", 21).await.unwrap() && quota.take_if_any("b", 20).await.unwrap());
    }
}
