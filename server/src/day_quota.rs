//! The quota of bootstraps of each tenant in a day (UTC).

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use cloakwork_clock::{Clock, DAY_MICROS, unix_day};
use quick_cache::unsync::Cache;

use crate::{
    database,
    error::{ApiError, DAY_QUOTA_EXCEEDED},
    limits::Limit,
    store::Store,
    tenant_limits::{OwnLimit, TenantLimits},
};

/// How long a sum is used before the store is asked again. Jobs accepted meanwhile are added to the
/// sum.
const SUM_LIFETIME: Duration = Duration::from_secs(1);

/// How long jobs that were accepted count although the store may not have them yet.
const TAKEN_LIFETIME: Duration = Duration::from_secs(5);

/// Maximum number of tenants whose sums are remembered.
const DAY_QUOTA_TENANTS_MAX: usize = 4096;

/// Room for bootstraps of the present day. Cheap to clone.
///
/// Jobs count from their admission. After a restart, or when a tenant was not remembered, jobs that
/// are being submitted at that moment do not count.
#[derive(Clone)]
pub struct DayQuota {
    store: Store,
    clock: Clock,
    own: TenantLimits,
    /// The limit of tenants that have none of their own.
    of_server: u64,
    /// The largest value of the limit, which stands for no limit.
    no_limit: u64,
    sums: Arc<Mutex<Cache<Arc<str>, Sum>>>,
}

#[derive(Clone, Copy, Debug)]
struct Sum {
    day: i64,
    bootstraps: u64,
    /// When the store was asked.
    asked: Instant,
    /// When room was taken last.
    taken: Instant,
}

impl fmt::Debug for DayQuota {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("DayQuota").field("of_server", &self.of_server).finish_non_exhaustive()
    }
}

impl DayQuota {
    /// A quota of `of_server` bootstraps for each tenant that has no limit of its own.
    pub fn new(store: Store, clock: Clock, own: TenantLimits, of_server: u64) -> Self {
        let no_limit = Limit::named("tenant_day_bootstraps").map_or(u64::MAX, |row| row.most);
        let sums = Arc::new(Mutex::new(Cache::new(DAY_QUOTA_TENANTS_MAX)));
        Self { store, clock, own, of_server, no_limit, sums }
    }

    /// Takes room for the bootstraps of a job, or refuses the job until there may be room.
    pub async fn take(&self, tenant: &str, bootstraps: u64) -> Result<(), ApiError> {
        let limit = self.own.of(tenant, OwnLimit::DayBootstraps, self.of_server);
        if limit >= self.no_limit {
            return Ok(());
        }
        let now_micros = self.clock.unix_micros();
        let day = unix_day(now_micros);
        {
            let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(mut sum) = sums.get_mut(tenant)
                && sum.day == day
                && sum.asked.elapsed() < SUM_LIFETIME
                && sum.bootstraps.saturating_add(bootstraps) <= limit
            {
                sum.bootstraps += bootstraps;
                sum.taken = Instant::now();
                return Ok(());
            }
        }
        let asked = Instant::now();
        let stored = self.store.bootstraps_of_day(tenant, day).await.map_err(database::failed)?;
        let of_day = stored.max(self.taken_lately(tenant, day));
        let sum = of_day.saturating_add(bootstraps);
        if sum > limit {
            let next_day = Duration::from_micros((DAY_MICROS - now_micros.rem_euclid(DAY_MICROS)).unsigned_abs());
            // Repeated and refused requests take room too, and give it back after some seconds.
            // Without this check, their callers would wait until midnight.
            let has_room_soon = stored.saturating_add(bootstraps) <= limit;
            let delay = if has_room_soon { TAKEN_LIFETIME.min(next_day) } else { next_day };
            return Err(refusal(tenant, limit, of_day, bootstraps).retry_after(delay));
        }
        let sum = Sum { day, bootstraps: sum, asked, taken: Instant::now() };
        self.sums.lock().unwrap_or_else(PoisonError::into_inner).insert(tenant.into(), sum);
        Ok(())
    }

    /// The latest sum, which has jobs that the store may not have yet. Forgotten after some time,
    /// because jobs that were refused afterwards are in the sum too.
    fn taken_lately(&self, tenant: &str, day: i64) -> u64 {
        let sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        let lately = sums.peek(tenant).filter(|sum| sum.day == day && sum.taken.elapsed() < TAKEN_LIFETIME);
        lately.map_or(0, |sum| sum.bootstraps)
    }
}

fn refusal(tenant: &str, limit: u64, of_day: u64, more: u64) -> ApiError {
    let message = format!(
        "the job has {more} bootstraps, and the tenant's other jobs of this day (UTC) have {of_day}: at most {limit} in \
         a day (tenant_day_bootstraps)"
    );
    DAY_QUOTA_EXCEEDED
        .error(message.clone())
        .with("limit", "tenant_day_bootstraps")
        .quota(format!("tenants/{tenant}"), message)
}

#[cfg(test)]
mod tests {
    use cloakwork_clock::ManualClock;
    use cloakwork_proto::v1::{JobState, LatencyRecord};
    use cloakwork_scheduler::JobId;
    use cloakwork_storage::Survival;

    use super::*;
    use crate::{
        database::SCHEMAS,
        jobs::End,
        store::{Ended, Write, tests::new_job},
    };

    #[tokio::test]
    async fn a_tenant_waits_for_the_next_day_when_its_quota_is_used_up() {
        let directory = tempfile::tempdir().unwrap();
        let database = cloakwork_tests_database::open(&directory.path().join("server.db"), &SCHEMAS, 2).await;
        let store = Store::new(database);
        let time = ManualClock::at(5 * DAY_MICROS + DAY_MICROS - 90_000_000);
        let quota = || DayQuota::new(store.clone(), time.clock(), TenantLimits::default(), 41);
        let used = LatencyRecord { pbs_count: 60, ..LatencyRecord::default() };
        let end = End {
            state: JobState::Succeeded,
            ended_micros: 5 * DAY_MICROS,
            outputs_expire_micros: None,
            error: None,
            outputs: Vec::new(),
            latency: used,
            attestation: None,
        };
        // One job has ended, and another, of one bootstrap, has not.
        let ended = Write::Ended(Ended { job: JobId(1), end: Arc::new(end) });
        let writes = [Write::Submitted(new_job("a", 1)), Write::Submitted(new_job("a", 2))];
        store.apply(Survival::Crash, &writes).await.unwrap();
        store.apply(Survival::Crash, &[ended]).await.unwrap();
        let first = quota();
        first.take("a", 39).await.unwrap();
        // The store does not have the 39 bootstraps yet, and may never have them.
        let refused = first.take("a", 1).await.unwrap_err();
        assert_eq!((refused.reason(), refused.retry_delay()), (DAY_QUOTA_EXCEEDED, Some(TAKEN_LIFETIME)));
        let refused = first.take("a", 40).await.unwrap_err();
        assert_eq!(refused.retry_delay(), Some(Duration::from_secs(90)), "the store alone leaves no room");
        let refused = quota().take("a", 40).await.unwrap_err();
        assert_eq!(refused.reason(), DAY_QUOTA_EXCEEDED);
        assert_eq!(refused.retry_delay(), Some(Duration::from_secs(90)));
        assert!(refused.message().contains("have 2: at most 41"), "{refused}");
        quota().take("b", 41).await.unwrap();
        assert!(quota().take("b", 42).await.is_err());
        let own = TenantLimits::of_one("b", OwnLimit::DayBootstraps, 42);
        DayQuota::new(store.clone(), time.clock(), own, 41).take("b", 42).await.unwrap();
        time.advance(Duration::from_secs(90));
        quota().take("a", 40).await.unwrap();
    }
}
