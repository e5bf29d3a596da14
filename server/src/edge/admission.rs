//! The number of calls that the server handles at the same time, in all and for each tenant. The
//! server refuses a call beyond these limits at once. A call in line would only take memory until
//! its caller gives up.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use cloakwork_share::{Exceeded, FairShare, Share};

use crate::{
    auth::policy::Load,
    error::{ApiError, OVERLOADED, WORKER_REFUSED},
    limits::Limits,
    tenant::Tenant,
};

/// Bounds of the delay after which a refused caller may try again.
const RETRY_DELAY_SHORTEST: Duration = Duration::from_millis(50);
const RETRY_DELAY_LONGEST: Duration = Duration::from_secs(10);

/// Weight of the newest call in the mean duration of calls: about the last hundred calls count.
const NEWEST_WEIGHT: f64 = 0.01;

/// Number of streams that may be open for each worker that may attach. A worker may open its next
/// stream before the server notices the end of the last. With one place for each worker, a server
/// whose network fails for a moment would then refuse its own workers.
const STREAMS_PER_WORKER: u64 = 2;

/// Counts running calls.
#[derive(Debug)]
pub(super) struct Admission {
    requests: Arc<FairShare<Tenant>>,
    watchers: Arc<FairShare<Tenant>>,
    /// Streams of workers.
    streams: Arc<FairShare<Tenant>>,
    mean_seconds: Mutex<f64>,
}

/// Names of the limits for all tenants and for each tenant.
type LimitNames = [&'static str; 2];

impl Admission {
    pub(super) fn new(limits: &Limits) -> Self {
        let Limits { requests, tenant_requests, watchers, tenant_watchers, workers, .. } = *limits;
        let streams = workers.saturating_mul(STREAMS_PER_WORKER);
        Self {
            requests: FairShare::new(requests, tenant_requests),
            watchers: FairShare::new(watchers, tenant_watchers),
            streams: FairShare::new(streams, streams),
            mean_seconds: Mutex::default(),
        }
    }

    /// Number of running requests, and of watchers.
    pub(super) fn used(&self) -> [u64; 2] {
        [self.requests.held(), self.watchers.held()]
    }

    /// Admits a call of a tenant, or refuses it.
    pub(super) fn enter(self: &Arc<Self>, load: Load, tenant: &Tenant) -> Result<Place, ApiError> {
        let (share, since) = match (load, self.limited(load)) {
            (Load::Attached, _) => (Some(self.stream(tenant)?), None),
            (_, Some((calls, names))) => {
                let taken = calls.try_take(tenant, 1);
                (Some(taken.map_err(|exceeded| self.refusal(exceeded, names, tenant))?), Some(Instant::now()))
            }
            (_, None) => (None, None),
        };
        Ok(Place { admission: self.clone(), _share: share, since })
    }

    /// A place for the stream of a worker. The stream takes the place before its first report, so
    /// that streams without a report are limited too.
    fn stream(&self, tenant: &Tenant) -> Result<Share<Tenant>, ApiError> {
        self.streams.try_take(tenant, 1).map_err(|exceeded| {
            let (Exceeded::All { limit, .. } | Exceeded::Each { limit, .. }) = exceeded;
            WORKER_REFUSED.error(format!("{limit} streams of workers are open, which is the limit (workers)"))
        })
    }

    /// The limits that apply here to a kind of calls, or `None`.
    fn limited(&self, load: Load) -> Option<(&Arc<FairShare<Tenant>>, LimitNames)> {
        match load {
            Load::Request | Load::Stream => Some((&self.requests, ["requests", "tenant_requests"])),
            Load::Wait => Some((&self.watchers, ["watchers", "tenant_watchers"])),
            // Calls that need no token have places of their own (`probe.rs`), and so have streams
            // of workers.
            Load::Probe | Load::ProbeStream | Load::Free | Load::Attached => None,
        }
    }

    /// A refusal. With all places taken, the next one comes free after about the mean duration of
    /// calls.
    fn refusal(&self, exceeded: Exceeded, [all, each]: LimitNames, tenant: &Tenant) -> ApiError {
        let (limit, value, subject) = match exceeded {
            Exceeded::Each { limit, .. } => (each, limit, format!("tenants/{}", tenant.as_str())),
            Exceeded::All { limit, .. } => (all, limit, "server".to_owned()),
        };
        let mean = Duration::from_secs_f64(self.mean_seconds().clamp(0.0, RETRY_DELAY_LONGEST.as_secs_f64()));
        OVERLOADED
            .error(format!("{value} calls are running, which is the limit ({limit})"))
            .with("limit", limit)
            .retry_after(mean.max(RETRY_DELAY_SHORTEST))
            .quota(subject, format!("{limit} = {value}"))
    }

    fn mean_seconds(&self) -> MutexGuard<'_, f64> {
        self.mean_seconds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running call. Dropping this makes room for another call.
#[derive(Debug)]
pub(super) struct Place {
    admission: Arc<Admission>,
    // Dropping the share frees the place.
    _share: Option<Share<Tenant>>,
    /// When the call began, if its duration counts.
    since: Option<Instant>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(since) = self.since {
            let mut mean_seconds = self.admission.mean_seconds();
            *mean_seconds += NEWEST_WEIGHT * (since.elapsed().as_secs_f64() - *mean_seconds);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission() -> Arc<Admission> {
        let limits = Limits { requests: 3, tenant_requests: 2, watchers: 1, tenant_watchers: 1, ..Limits::default() };
        Arc::new(Admission::new(&limits))
    }

    fn tenants() -> [Tenant; 3] {
        ["a", "b", "c"].map(|name| Tenant::new(name).unwrap())
    }

    #[test]
    fn places_are_limited_in_all_and_come_back() {
        let (admission, [a, b, c]) = (admission(), tenants());
        let mut places: Vec<_> = [&a, &b, &b].map(|tenant| admission.enter(Load::Request, tenant).unwrap()).into();
        let error = admission.enter(Load::Stream, &c).unwrap_err();
        assert_eq!(error.reason(), OVERLOADED);
        assert!(error.message().contains("(requests)"), "{error}");
        assert!(error.retry_delay().is_some_and(|delay| delay >= RETRY_DELAY_SHORTEST && delay <= RETRY_DELAY_LONGEST));
        assert!(admission.enter(Load::Free, &c).is_ok(), "calls without a limit here always get in");
        let waiting = admission.enter(Load::Wait, &c).unwrap();
        assert!(admission.enter(Load::Wait, &a).is_err());
        places.pop();
        assert!(admission.enter(Load::Request, &c).is_ok());
        drop((places, waiting));
        assert_eq!((admission.requests.held(), admission.watchers.held()), (0, 0));
    }

    /// Streams of workers last for days. Their durations would make the retry delay of all other
    /// calls the longest one.
    #[test]
    fn streams_of_workers_have_places_of_their_own_and_no_duration() {
        let admission = Arc::new(Admission::new(&Limits { workers: 1, requests: 1, ..Limits::default() }));
        let [a, b, c] = tenants();
        let streams = [&a, &b].map(|tenant| admission.enter(Load::Attached, tenant).unwrap());
        assert!(streams.iter().all(|stream| stream.since.is_none()));
        let refused = admission.enter(Load::Attached, &c).unwrap_err();
        assert_eq!(refused.reason(), WORKER_REFUSED);
        assert!(admission.enter(Load::Request, &c).is_ok());
        drop(streams);
        assert!(admission.enter(Load::Attached, &c).is_ok());
    }

    #[test]
    fn a_tenant_does_not_shut_out_another() {
        let (admission, [a, b, _]) = (admission(), tenants());
        let places = [&a, &a].map(|tenant| admission.enter(Load::Request, tenant).unwrap());
        let error = admission.enter(Load::Request, &a).unwrap_err();
        assert!(error.message().contains("(tenant_requests)"), "{error}");
        let third = admission.enter(Load::Request, &b).unwrap();
        drop((places, third));
        assert_eq!(admission.requests.tenants(), 0, "nothing is kept of tenants without calls");
    }
}
