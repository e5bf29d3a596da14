//! Limits of single tenants, which operators set in place of those of the server.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use cloakwork_storage::{Asker, Database, Error, Rows};
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    audit::Act,
    auth::{StoreError, TokenStore, name_of},
    error::{ApiError, INVALID_ARGUMENT},
    limits::Limit,
    tenant::Tenant,
};

/// Names of the limits that a tenant can have of its own.
pub const OWN_LIMITS: [&str; 5] =
    ["tenant_bytes", "tenant_day_bootstraps", "tenant_inline_bytes", "tenant_keys", "tenant_queued_jobs"];

/// Time between two reads of all limits. A change takes effect after at most this time.
const READ_INTERVAL: Duration = Duration::from_secs(2);

/// Maximum number of limits of single tenants. Further ones are refused.
const TENANT_LIMITS_MAX: u32 = 50_000;

/// The limits of all tenants that have some of their own. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct TenantLimits(Arc<RwLock<HashMap<String, [Option<u64>; OWN_LIMITS.len()]>>>);

impl TenantLimits {
    /// The value of a limit for a tenant: its own if it has one, otherwise that of the server.
    pub fn of(&self, tenant: &str, limit: OwnLimit, of_server: u64) -> u64 {
        let limits = self.0.read().unwrap_or_else(PoisonError::into_inner);
        limits.get(tenant).and_then(|own| own[limit as usize]).unwrap_or(of_server)
    }

    /// Reads the limits until the task is dropped.
    pub async fn follow(self, database: Database) {
        let mut interval = interval(READ_INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            if let Err(error) = self.read(&database).await {
                tracing::debug!(%error, "limits of tenants were not read; the latest ones stay in force");
            }
        }
    }

    /// Reads the limits.
    pub async fn read(&self, database: &Database) -> Result<(), Error> {
        // A later version may know more limits.
        let known = |own: BTreeMap<String, u64>| OWN_LIMITS.map(|name| own.get(name).copied());
        let limits = all(database).await?.into_iter().map(|(tenant, own)| (tenant, known(own))).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = limits;
        Ok(())
    }
}

#[cfg(test)]
impl TenantLimits {
    /// The limits of one tenant that has one limit of its own.
    pub fn of_one(tenant: &str, limit: OwnLimit, value: u64) -> Self {
        let mut own = [None; OWN_LIMITS.len()];
        own[limit as usize] = Some(value);
        Self(Arc::new(RwLock::new([(tenant.to_owned(), own)].into())))
    }
}

impl cloakwork_keystore::OwnLimits for TenantLimits {
    fn bytes(&self, tenant: &str, of_all: u64) -> u64 {
        self.of(tenant, OwnLimit::Bytes, of_all)
    }

    fn keys(&self, tenant: &str, of_all: u64) -> u64 {
        self.of(tenant, OwnLimit::Keys, of_all)
    }
}

/// A limit that a tenant can have of its own, in the order of [`OWN_LIMITS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnLimit {
    /// `tenant_bytes`.
    Bytes,
    /// `tenant_day_bootstraps`.
    DayBootstraps,
    /// `tenant_inline_bytes`.
    InlineBytes,
    /// `tenant_keys`.
    Keys,
    /// `tenant_queued_jobs`.
    QueuedJobs,
}

/// Checks the name and the value of a limit of a tenant.
pub fn check(name: &str, value: u64) -> Result<&'static str, ApiError> {
    let known = check_name(name)?;
    match Limit::named(known).map(Limit::range) {
        Some(range) if range.contains(&value) => Ok(known),
        Some(range) => {
            let message = format!("{known} must be between {} and {}, not {value}", range.start(), range.end());
            Err(INVALID_ARGUMENT.error(message).field("limits.value", "out of range"))
        }
        None => Err(INVALID_ARGUMENT.error("the server has no such limit")),
    }
}

/// Checks the name of a limit of a tenant.
pub fn check_name(name: &str) -> Result<&'static str, ApiError> {
    let unknown = || {
        let names = OWN_LIMITS.join(", ");
        let message = format!("a tenant has no limit of its own with this name: it is one of {names}");
        INVALID_ARGUMENT.error(message).field("limits.name", "unknown")
    };
    OWN_LIMITS.into_iter().find(|known| *known == name).ok_or_else(unknown)
}

/// The limits of all tenants that have some of their own, by tenant and name.
pub async fn all(database: &Database) -> Result<HashMap<String, BTreeMap<String, u64>>, Error> {
    let mut reader = database.read(Asker::Server).await?;
    let query = reader.query("SELECT tenant, name, value FROM tenant_limits LIMIT $1").bind(TENANT_LIMITS_MAX);
    let mut limits: HashMap<String, BTreeMap<String, u64>> = HashMap::new();
    for row in &query.all().await? {
        let of_tenant = limits.entry(row.text("tenant")?.to_owned()).or_default();
        of_tenant.insert(row.text("name")?.to_owned(), row.unsigned("value")?);
    }
    Ok(limits)
}

/// Changes limits that a tenant has of its own, and returns all that it has then. A limit gets its
/// new value, or is removed. All names come from [`check`] and [`check_name`].
///
/// Limits that are not named stay, so that two operators at one moment do not undo each other's
/// changes.
pub async fn change(
    tokens: &TokenStore,
    tenant: &Tenant,
    changes: &BTreeMap<&'static str, Option<u64>>,
) -> Result<BTreeMap<String, u64>, StoreError> {
    let mut write = tokens.database().write(Asker::Server, Rows::All).await?;
    let query = write.query("SELECT 1 FROM tenants WHERE name = $1 AND deleting_micros IS NULL");
    if query.bind(tenant.as_str()).optional().await?.is_none() {
        return Err(StoreError::TenantUnknown(tenant.clone()));
    }
    let mut detail = Vec::with_capacity(changes.len());
    for (name, value) in changes {
        let delete = write.query("DELETE FROM tenant_limits WHERE tenant = $1 AND name = $2");
        delete.bind(tenant.as_str()).bind(*name).execute().await?;
        if let Some(value) = value {
            let insert = write.query("INSERT INTO tenant_limits (tenant, name, value) VALUES ($1, $2, $3)");
            let stored = i64::try_from(*value).unwrap_or(i64::MAX);
            insert.bind(tenant.as_str()).bind(*name).bind(stored).execute().await?;
        }
        detail.push(value.map_or_else(|| format!("{name} removed"), |value| format!("{name} = {value}")));
    }
    let count = write.query("SELECT COUNT(*) AS rows FROM tenant_limits").one().await?.unsigned("rows")?;
    if count > u64::from(TENANT_LIMITS_MAX) {
        return Err(StoreError::TooManyLimits);
    }
    let rows = write.query("SELECT name, value FROM tenant_limits WHERE tenant = $1").bind(tenant.as_str());
    let rows = rows.all().await?;
    let limits = rows.iter().map(|row| Ok((row.text("name")?.to_owned(), row.unsigned("value")?)));
    let limits = limits.collect::<Result<_, Error>>()?;
    tokens.note(&mut write, Act { act: "set limits", subject: name_of(tenant), detail: detail.join(", ") }).await?;
    write.commit().await?;
    Ok(limits)
}

#[cfg(test)]
mod tests;
