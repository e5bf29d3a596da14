//! How many calls are handled at once, in all and for each tenant. One too many is refused at once: a call that waits
//! in line only takes memory until its caller has given up.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    auth::policy::Load,
    error::{ApiError, OVERLOADED},
    limits::Limits,
    resource::Tenant,
};

/// What a refused caller waits at least and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(10));

/// The share of the newest call in the mean duration: the last hundred count.
const NEWEST: f64 = 0.01;

/// Kinds of calls that are counted apart.
const KINDS: usize = 2;

/// Counts running calls.
#[derive(Debug)]
pub(super) struct Admission {
    limits: [Caps; KINDS],
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug)]
struct Caps {
    all: u64,
    tenant: u64,
    names: [&'static str; 2],
}

#[derive(Debug, Default)]
struct State {
    running: [u64; KINDS],
    // Only tenants that have calls running.
    tenants: HashMap<Tenant, [u64; KINDS]>,
    mean_seconds: f64,
}

impl Admission {
    pub(super) fn new(limits: &Limits) -> Self {
        let Limits { requests, tenant_requests, watchers, tenant_watchers, .. } = *limits;
        let limits = [
            Caps { all: requests, tenant: tenant_requests, names: ["requests", "tenant_requests"] },
            Caps { all: watchers, tenant: tenant_watchers, names: ["watchers", "tenant_watchers"] },
        ];
        Self { limits, state: Mutex::default() }
    }

    /// A place among all calls, or a refusal.
    pub(super) fn enter(self: &Arc<Self>, load: Load) -> Result<Place, ApiError> {
        let Some(kind) = kind(load) else {
            return Ok(Place { admission: self.clone(), kind: None, tenant: None, since: Instant::now() });
        };
        let caps = self.limits[kind];
        let mut state = self.state();
        if state.running[kind] >= caps.all {
            return Err(refusal(&state, caps.names[0], caps.all, "server"));
        }
        state.running[kind] += 1;
        Ok(Place { admission: self.clone(), kind: Some(kind), tenant: None, since: Instant::now() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running call's place; dropping it makes room.
#[derive(Debug)]
pub(super) struct Place {
    admission: Arc<Admission>,
    kind: Option<usize>,
    tenant: Option<Tenant>,
    since: Instant,
}

impl Place {
    /// Also takes a place among the tenant's calls, or is refused.
    pub(super) fn of_tenant(&mut self, tenant: &Tenant) -> Result<(), ApiError> {
        let Some(kind) = self.kind else {
            return Ok(());
        };
        let caps = self.admission.limits[kind];
        let mut state = self.admission.state();
        let running = state.tenants.get(tenant).map_or(0, |running| running[kind]);
        if running >= caps.tenant {
            return Err(refusal(&state, caps.names[1], caps.tenant, tenant.as_str()));
        }
        state.tenants.entry(tenant.clone()).or_default()[kind] += 1;
        drop(state);
        self.tenant = Some(tenant.clone());
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(kind) = self.kind else {
            return;
        };
        let mut state = self.admission.state();
        state.running[kind] -= 1;
        if let Some(tenant) = &self.tenant
            && let Some(running) = state.tenants.get_mut(tenant)
        {
            running[kind] -= 1;
            if *running == [0; KINDS] {
                state.tenants.remove(tenant);
            }
        }
        state.mean_seconds += NEWEST * (self.since.elapsed().as_secs_f64() - state.mean_seconds);
    }
}

fn kind(load: Load) -> Option<usize> {
    match load {
        Load::Request | Load::Stream => Some(0),
        Load::Wait => Some(1),
        // Calls that need no token have places of their own (`probe.rs`).
        Load::Probe | Load::ProbeStream | Load::Free | Load::Attached => None,
    }
}

/// With all places taken, one is free after about as long as calls take these days.
fn refusal(state: &State, limit: &str, value: u64, whose: &str) -> ApiError {
    let (least, most) = RETRY;
    let delay = Duration::from_secs_f64(state.mean_seconds.clamp(least.as_secs_f64(), most.as_secs_f64()));
    let subject = if whose == "server" { whose.to_owned() } else { format!("tenants/{whose}") };
    OVERLOADED
        .error(format!("{value} calls are running, as many as may ({limit})"))
        .with("limit", limit)
        .retry_after(delay)
        .quota(subject, format!("{limit} = {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission() -> Arc<Admission> {
        let limits = Limits { requests: 3, tenant_requests: 2, watchers: 1, tenant_watchers: 1, ..Limits::default() };
        Arc::new(Admission::new(&limits))
    }

    #[test]
    fn places_are_limited_in_all_and_come_back() {
        let admission = admission();
        let mut places: Vec<_> = (0..3).map(|_| admission.enter(Load::Request).unwrap()).collect();
        let error = admission.enter(Load::Request).unwrap_err();
        assert_eq!(error.reason(), OVERLOADED);
        assert!(error.retry_delay().is_some_and(|delay| delay >= RETRY.0 && delay <= RETRY.1));
        assert!(admission.enter(Load::Free).is_ok(), "what has no limit of its own here always gets in");
        let waiting = admission.enter(Load::Wait).unwrap();
        assert!(admission.enter(Load::Wait).is_err());
        places.pop();
        assert!(admission.enter(Load::Request).is_ok());
        drop((places, waiting));
        assert_eq!(admission.state().running, [0; KINDS]);
    }

    #[test]
    fn a_tenant_does_not_shut_out_another() {
        let admission = admission();
        let [a, b] = ["a", "b"].map(|name| Tenant::new(name).unwrap());
        let mut places: Vec<_> = (0..2).map(|_| admission.enter(Load::Request).unwrap()).collect();
        for place in &mut places {
            place.of_tenant(&a).unwrap();
        }
        let mut third = admission.enter(Load::Request).unwrap();
        let error = third.of_tenant(&a).unwrap_err();
        assert!(error.message().contains("tenant_requests"), "{error}");
        third.of_tenant(&b).unwrap();
        drop((places, third));
        assert!(admission.state().tenants.is_empty(), "nothing is kept of tenants without calls");
        assert_eq!(admission.state().running, [0; KINDS]);
    }
}
