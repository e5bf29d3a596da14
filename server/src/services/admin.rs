//! The service of operators: pools, workers, tenants, tokens, usage and the audit log.

use std::{collections::BTreeMap, ops::RangeInclusive, sync::Arc, time::Duration};

use cloakwork_clock::{DAY_MICROS, unix_day};
use cloakwork_proto::{
    is_deceptive,
    v1::{self, admin_service_server::AdminService},
};
use tonic::{Request, Response, Status};

use super::job::job_states;
use crate::{
    audit::Entry,
    auth::{Scope, Scopes, TenantRow, TokenId, TokenRow},
    caller::Caller,
    database,
    dispatch::{PoolSnapshot, WorkerSnapshot},
    error::{ApiError, FIELD_MISSING, INVALID_ARGUMENT, NAME_INVALID, PAGE_TOKEN_INVALID, quoted},
    jobs::{id, timestamp},
    operators::{Operators, USAGE_ROWS_MAX, refused},
    page,
    resource::WorkerName,
    store::DayUsage,
    tenant::Tenant,
    tenant_limits,
};

/// The service of operators.
#[derive(Clone, Debug)]
pub struct Admin(pub Arc<Operators>);

/// Maximum length of the note of a token, in bytes.
const NOTE_BYTES_MAX: usize = 256;

/// Maximum life of a token in days.
const TOKEN_DAYS_MAX: u32 = 3650;

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl AdminService for Admin {
    async fn list_pools(&self, _: Request<v1::ListPoolsRequest>) -> Answer<v1::ListPoolsResponse> {
        let pools = self.0.snapshot().await?.pools;
        Ok(Response::new(v1::ListPoolsResponse { pools: pools.into_iter().map(pool).collect() }))
    }

    async fn list_workers(&self, _: Request<v1::ListWorkersRequest>) -> Answer<v1::ListWorkersResponse> {
        let workers = self.0.snapshot().await?.workers;
        Ok(Response::new(v1::ListWorkersResponse { workers: workers.into_iter().map(worker).collect() }))
    }

    async fn drain_worker(&self, request: Request<v1::DrainWorkerRequest>) -> Answer<v1::DrainWorkerResponse> {
        let actor = actor(&request)?;
        self.0.set_drained(&actor, WorkerName::parse(&request.get_ref().name)?, true).await?;
        Ok(Response::new(v1::DrainWorkerResponse {}))
    }

    async fn resume_worker(&self, request: Request<v1::ResumeWorkerRequest>) -> Answer<v1::ResumeWorkerResponse> {
        let actor = actor(&request)?;
        self.0.set_drained(&actor, WorkerName::parse(&request.get_ref().name)?, false).await?;
        Ok(Response::new(v1::ResumeWorkerResponse {}))
    }

    async fn list_tenants(&self, request: Request<v1::ListTenantsRequest>) -> Answer<v1::ListTenantsResponse> {
        let v1::ListTenantsRequest { page_size, page_token } = request.get_ref();
        let count = page::size(*page_size, self.0.limits.page_size)?;
        let after = after(TENANTS, page_token)?;
        let rows = self.0.tokens.tenants_after(&after, count + 1).await.map_err(database::failed)?;
        let (rows, next_page_token) = cut(TENANTS, rows, count, |row| row.name.as_bytes());
        let mut limits = self.0.own_limits().await?;
        let tenants = rows.into_iter().map(|row| {
            let own = limits.remove(&row.name).unwrap_or_default();
            tenant(row, own)
        });
        let tenants = tenants.collect();
        Ok(Response::new(v1::ListTenantsResponse { tenants, next_page_token }))
    }

    async fn create_tenant(&self, request: Request<v1::CreateTenantRequest>) -> Answer<v1::CreateTenantResponse> {
        let tokens = self.0.tokens.by(&actor(&request)?);
        let v1::CreateTenantRequest { tenant, shard } = request.get_ref();
        let tenant = Tenant::new(tenant)?;
        let shard = tokens.place(*shard).await.map_err(refused)?;
        tokens.create_tenant(&tenant, shard).await.map_err(refused)?;
        Ok(Response::new(v1::CreateTenantResponse {}))
    }

    async fn revoke_tenant(&self, request: Request<v1::RevokeTenantRequest>) -> Answer<v1::RevokeTenantResponse> {
        let tokens = self.0.tokens.by(&actor(&request)?);
        tokens.revoke_tenant(&tenant_named(&request.get_ref().name)?).await.map_err(refused)?;
        Ok(Response::new(v1::RevokeTenantResponse {}))
    }

    async fn delete_tenant(&self, request: Request<v1::DeleteTenantRequest>) -> Answer<v1::DeleteTenantResponse> {
        let tokens = self.0.tokens.by(&actor(&request)?);
        tokens.delete_tenant(&tenant_named(&request.get_ref().name)?).await.map_err(refused)?;
        Ok(Response::new(v1::DeleteTenantResponse {}))
    }

    async fn set_tenant_limits(
        &self,
        request: Request<v1::SetTenantLimitsRequest>,
    ) -> Answer<v1::SetTenantLimitsResponse> {
        let tokens = self.0.tokens.by(&actor(&request)?);
        let v1::SetTenantLimitsRequest { name, limits, removed_limits } = request.get_ref();
        let tenant = tenant_named(name)?;
        let mut changes = BTreeMap::new();
        for v1::TenantLimit { name, value } in limits {
            change(&mut changes, tenant_limits::check(name, *value)?, Some(*value))?;
        }
        for name in removed_limits {
            change(&mut changes, tenant_limits::check_name(name)?, None)?;
        }
        let limits = tenant_limits::change(&tokens, &tenant, &changes).await.map_err(refused)?;
        let limits = limits.into_iter().map(|(name, value)| v1::TenantLimit { name, value }).collect();
        Ok(Response::new(v1::SetTenantLimitsResponse { limits }))
    }

    async fn list_tokens(&self, request: Request<v1::ListTokensRequest>) -> Answer<v1::ListTokensResponse> {
        let v1::ListTokensRequest { parent, page_size, page_token } = request.get_ref();
        let count = page::size(*page_size, self.0.limits.page_size)?;
        let tenant = optional_tenant(parent)?;
        let listing = format!("tokens {parent}");
        let after = after(&listing, page_token)?;
        let rows = self.0.tokens.tokens_after(tenant.as_ref(), &after, count + 1).await.map_err(database::failed)?;
        let (rows, next_page_token) = cut(&listing, rows, count, |row| row.id.as_bytes());
        Ok(Response::new(v1::ListTokensResponse { tokens: rows.into_iter().map(token).collect(), next_page_token }))
    }

    async fn create_token(&self, request: Request<v1::CreateTokenRequest>) -> Answer<v1::CreateTokenResponse> {
        let tokens = self.0.tokens.by(&actor(&request)?);
        let v1::CreateTokenRequest { parent, scopes, days, note } = request.get_ref();
        let tenant = tenant_named(parent)?;
        let scopes: Scopes = scopes.iter().map(|name| scope(name)).collect::<Result<_, _>>()?;
        if note.len() > NOTE_BYTES_MAX || note.chars().any(is_deceptive) {
            let message = format!("the note is at most {NOTE_BYTES_MAX} bytes of visible text");
            return Err(INVALID_ARGUMENT.error(message).field("note", "too long, or invisible characters").into());
        }
        if *days > TOKEN_DAYS_MAX {
            let message = format!("a token lives for at most {TOKEN_DAYS_MAX} days, not {days}");
            return Err(INVALID_ARGUMENT.error(message).field("days", "too many").into());
        }
        let life = (*days > 0).then(|| Duration::from_secs(u64::from(*days) * 24 * 3600));
        let secret = tokens.create_token(&tenant, scopes, note, life).await.map_err(refused)?;
        let made = tokens.token(&secret.id()).await.map_err(database::failed)?;
        Ok(Response::new(v1::CreateTokenResponse { token: made.map(token), secret: secret.reveal().to_owned() }))
    }

    async fn revoke_token(&self, request: Request<v1::RevokeTokenRequest>) -> Answer<v1::RevokeTokenResponse> {
        let tokens = self.0.tokens.by(&actor(&request)?);
        let name = &request.get_ref().name;
        let id = name.strip_prefix("tokens/").and_then(TokenId::parse);
        let id =
            id.ok_or_else(|| NAME_INVALID.error(format!("a token is tokens/{{12 digits}}, not {}", quoted(name))))?;
        tokens.revoke_token(&id).await.map_err(refused)?;
        Ok(Response::new(v1::RevokeTokenResponse {}))
    }

    async fn list_all_jobs(&self, request: Request<v1::ListAllJobsRequest>) -> Answer<v1::ListAllJobsResponse> {
        let v1::ListAllJobsRequest { page_size, page_token, parent, states } = request.get_ref();
        let count = page::size(*page_size, self.0.limits.page_size)?;
        let (tenant, states) = (optional_tenant(parent)?, job_states(states)?);
        let listing = format!("{parent}/jobs {states:?}");
        let before = page::position(&listing, page_token)?.as_deref().map(job_position).transpose()?;
        let page = self.0.jobs(tenant.as_ref().map(Tenant::as_str), &states, before, count).await?;
        Ok(Response::new(v1::ListAllJobsResponse {
            jobs: page.jobs.iter().map(|job| v1::Job { attestation: None, ..job.to_proto() }).collect(),
            next_page_token: page.next.map(|job| page::token(&listing, &id::to_bytes(job))).unwrap_or_default(),
        }))
    }

    async fn get_usage(&self, request: Request<v1::GetUsageRequest>) -> Answer<v1::GetUsageResponse> {
        let v1::GetUsageRequest { parent, first_day, last_day } = request.get_ref();
        let tenant = optional_tenant(parent)?;
        let days = days(first_day, last_day)?;
        let rows = self.0.usage(tenant.as_ref().map(Tenant::as_str), days, USAGE_ROWS_MAX).await?;
        Ok(Response::new(v1::GetUsageResponse { days: rows.into_iter().map(usage).collect() }))
    }

    async fn list_audit_entries(
        &self,
        request: Request<v1::ListAuditEntriesRequest>,
    ) -> Answer<v1::ListAuditEntriesResponse> {
        let v1::ListAuditEntriesRequest { page_size, page_token } = request.get_ref();
        let count = page::size(*page_size, self.0.limits.page_size)?;
        let before = page::position(AUDIT, page_token)?;
        let before = before.map(|position| position.try_into().map_err(|_| wrong_position())).transpose()?;
        let rows = self.0.audit.page(before, count + 1).await.map_err(database::failed)?;
        let (rows, next_page_token) = cut(AUDIT, rows, count, |entry| &entry.id[..]);
        Ok(Response::new(v1::ListAuditEntriesResponse {
            entries: rows.into_iter().map(entry).collect(),
            next_page_token,
        }))
    }
}

/// Names of listings, in page tokens.
const TENANTS: &str = "tenants";
const AUDIT: &str = "audit";

/// Adds the change of a limit: its new value, or `None` to remove the limit.
fn change(
    changes: &mut BTreeMap<&'static str, Option<u64>>,
    name: &'static str,
    value: Option<u64>,
) -> Result<(), ApiError> {
    match changes.insert(name, value) {
        None => Ok(()),
        Some(_) => Err(INVALID_ARGUMENT.error(format!("{name} is there twice")).field("limits", "twice")),
    }
}

/// The caller, for the audit log.
fn actor<T>(request: &Request<T>) -> Result<String, ApiError> {
    Ok(Caller::of(request)?.principal.actor())
}

/// The text after which a page begins.
fn after(listing: &str, page_token: &str) -> Result<String, ApiError> {
    let position = page::position(listing, page_token)?.unwrap_or_default();
    String::from_utf8(position).map_err(|_| wrong_position())
}

fn job_position(bytes: &[u8]) -> Result<cloakwork_scheduler::JobId, ApiError> {
    id::from_bytes(bytes).ok_or_else(wrong_position)
}

fn wrong_position() -> ApiError {
    PAGE_TOKEN_INVALID.error("page_token was not issued for this listing")
}

/// Cuts the extra row off, which tells whether another page follows. Returns the token of the next
/// page.
fn cut<R>(listing: &str, mut rows: Vec<R>, count: u32, key: impl Fn(&R) -> &[u8]) -> (Vec<R>, String) {
    let has_more = rows.len() > count as usize;
    rows.truncate(count as usize);
    let next = rows.last().filter(|_| has_more).map(|last| page::token(listing, key(last)));
    (rows, next.unwrap_or_default())
}

fn tenant_named(name: &str) -> Result<Tenant, ApiError> {
    if name.is_empty() {
        return Err(FIELD_MISSING.error("the request names no tenant"));
    }
    let malformed = || NAME_INVALID.error(format!("a tenant is tenants/{{tenant}}, not {}", quoted(name)));
    Tenant::new(name.strip_prefix("tenants/").ok_or_else(malformed)?)
}

fn optional_tenant(name: &str) -> Result<Option<Tenant>, ApiError> {
    (!name.is_empty()).then(|| tenant_named(name)).transpose()
}

fn scope(name: &str) -> Result<Scope, ApiError> {
    let names = || Scope::ALL.map(Scope::name).join(", ");
    let unknown = || INVALID_ARGUMENT.error(format!("a scope is one of {}, not {}", names(), quoted(name)));
    Scope::named(name).ok_or_else(|| unknown().field("scopes", "unknown"))
}

/// The days of a request, or `None` if it names none.
fn days(first: &str, last: &str) -> Result<Option<RangeInclusive<i64>>, ApiError> {
    let read = |field: &'static str, text: &str| {
        let malformed = || {
            let message = format!("{field} must be a day such as 2026-01-31, not {}", quoted(text));
            INVALID_ARGUMENT.error(message).field(field, "must be a day")
        };
        day(text).ok_or_else(malformed)
    };
    match (first, last) {
        ("", "") => Ok(None),
        (first, "") => Ok(Some(read("first_day", first)?..=i64::MAX)),
        ("", last) => Ok(Some(0..=read("last_day", last)?)),
        (first, last) => Ok(Some(read("first_day", first)?..=read("last_day", last)?)),
    }
}

/// Days since 1970 of a text such as `2026-01-31`.
fn day(text: &str) -> Option<i64> {
    if text.len() != 10 {
        return None;
    }
    let time: prost_types::Timestamp = format!("{text}T00:00:00Z").parse().ok()?;
    Some(unix_day(time.seconds.checked_mul(1_000_000)?)).filter(|day| day_text(*day) == text)
}

/// A day such as `2026-01-31`.
pub fn day_text(day: i64) -> String {
    let text = timestamp(day.saturating_mul(DAY_MICROS)).to_string();
    text.split('T').next().unwrap_or_default().to_owned()
}

fn pool(pool: PoolSnapshot) -> v1::PoolStatus {
    v1::PoolStatus {
        kind: pool.kind,
        workers: small(pool.workers),
        draining: small(pool.draining),
        backlog_seconds: pool.backlog_seconds,
        resident_keys: pool.resident_keys,
        resident_key_bytes: pool.resident_bytes,
    }
}

fn worker(worker: WorkerSnapshot) -> v1::WorkerStatus {
    v1::WorkerStatus {
        name: WorkerName(worker.id).to_string(),
        state: worker.state().into(),
        display_name: worker.name.to_string(),
        pool: worker.pool,
        class: worker.class,
        jobs: small(worker.jobs),
        resident_keys: worker.resident_keys as u64,
        resident_key_bytes: worker.resident_bytes,
        parameter_sets: worker.sets.into_iter().map(str::to_owned).collect(),
    }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn tenant(row: TenantRow, limits: BTreeMap<String, u64>) -> v1::Tenant {
    v1::Tenant {
        name: format!("tenants/{}", row.name),
        create_time: Some(timestamp(row.created_micros)),
        revoke_time: row.revoked_micros.map(timestamp),
        delete_time: row.deleting_micros.map(timestamp),
        shard: row.shard,
        limits: limits.into_iter().map(|(name, value)| v1::TenantLimit { name, value }).collect(),
        stored_bytes: row.stored_bytes,
        keys: row.keys,
    }
}

fn token(row: TokenRow) -> v1::Token {
    v1::Token {
        name: format!("tokens/{}", row.id),
        tenant: row.tenant,
        scopes: row.scopes.split(',').map(str::to_owned).collect(),
        note: row.note,
        create_time: Some(timestamp(row.created_micros)),
        expire_time: row.expires_micros.map(timestamp),
        revoke_time: row.revoked_micros.map(timestamp),
        last_use_time: row.last_used_micros.map(timestamp),
    }
}

fn usage(usage: DayUsage) -> v1::DayUsage {
    v1::DayUsage {
        tenant: usage.tenant,
        day: day_text(usage.day),
        jobs: usage.jobs,
        unsuccessful_jobs: usage.unsuccessful_jobs,
        bootstraps: usage.bootstraps,
        device_micros: usage.device_nanos / 1000,
        received_bytes: usage.received_bytes,
        stored_byte_seconds: usage.stored_kib_seconds as f64 * 1024.0,
        key_seconds: usage.key_seconds as f64,
    }
}

fn entry(entry: Entry) -> v1::AuditEntry {
    v1::AuditEntry {
        time: Some(timestamp(entry.at_micros)),
        actor: entry.actor,
        act: entry.act,
        subject: entry.subject,
        detail: entry.detail,
        count: entry.refusals,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_read_as_they_are_written() {
        for (text, number) in [("1970-01-01", 0), ("2026-01-31", 20_484), ("2028-02-29", 21_243)] {
            assert_eq!((day(text), day_text(number)), (Some(number), text.to_owned()));
        }
        for bad in ["", "2026-1-31", "2026-02-30", "2026-01-31T", "31-01-2026", "2026-01-3x", "ééééé"] {
            assert_eq!(day(bad), None, "{bad}");
        }
        assert_eq!(days("", "").unwrap(), None);
        assert_eq!(days("1970-01-03", "1970-01-05").unwrap(), Some(2..=4));
        assert!(days("yesterday", "").is_err());
    }

    #[test]
    fn a_page_ends_where_the_next_begins() {
        let rows = vec!["a", "b", "c"];
        let (page, next) = cut(TENANTS, rows, 2, |row| row.as_bytes());
        assert_eq!((page, after(TENANTS, &next).unwrap()), (vec!["a", "b"], "b".to_owned()));
        assert_eq!(cut(TENANTS, vec!["c"], 2, |row| row.as_bytes()), (vec!["c"], String::new()));
        assert!(after(AUDIT, &next).is_err());
    }
}
