//! How many bytes of messages calls hold, in all and for each tenant: of a request until it has been dealt with, of an
//! answer until it has been read.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    error::{ApiError, OVERLOADED},
    limits::Limits,
    resource::Tenant,
};

/// Counts the bytes.
#[derive(Debug)]
pub(super) struct Memory {
    most: u64,
    tenant_most: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    held: u64,
    // Only tenants that hold something.
    tenants: HashMap<Tenant, u64>,
}

impl Memory {
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        let Limits { held_bytes, tenant_held_bytes, .. } = *limits;
        Arc::new(Self { most: held_bytes, tenant_most: tenant_held_bytes, state: Mutex::default() })
    }

    /// Nothing as yet, of this tenant.
    pub(super) fn hold(self: &Arc<Self>, tenant: &Tenant) -> Held {
        Held { memory: self.clone(), tenant: tenant.clone(), bytes: Mutex::new(0) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that one message takes; dropping it gives them back.
#[derive(Debug)]
pub struct Held {
    memory: Arc<Memory>,
    tenant: Tenant,
    bytes: Mutex<u64>,
}

impl Held {
    /// The message takes so many bytes now. It is refused if that is more than before, and too much.
    pub(super) fn resize(&self, wanted: u64) -> Result<(), ApiError> {
        let mut own = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted == *own {
            return Ok(());
        }
        let mut state = self.memory.state();
        let tenant = state.tenants.get(&self.tenant).copied().unwrap_or_default();
        let [all, of_tenant] = [state.held, tenant].map(|held| (held - *own).saturating_add(wanted));
        if wanted > *own {
            let Memory { most, tenant_most, .. } = *self.memory;
            if of_tenant > tenant_most {
                let subject = format!("tenants/{}", self.tenant.as_str());
                return Err(refusal("tenant_held_bytes", tenant_most, of_tenant, subject));
            }
            if all > most {
                return Err(refusal("held_bytes", most, all, "server".to_owned()));
            }
        }
        state.held = all;
        match of_tenant {
            0 => _ = state.tenants.remove(&self.tenant),
            some => _ = state.tenants.insert(self.tenant.clone(), some),
        }
        *own = wanted;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Less is never refused.
        let _ = self.resize(0);
    }
}

fn refusal(limit: &'static str, most: u64, got: u64, subject: String) -> ApiError {
    /// Messages come and go in less, unless somebody holds them back.
    const RETRY: std::time::Duration = std::time::Duration::from_millis(500);
    OVERLOADED
        .error(format!("unfinished requests and unread answers take {got} bytes: at most {most} ({limit})"))
        .with("limit", limit)
        .retry_after(RETRY)
        .quota(subject, format!("{limit} = {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_limited_for_each_tenant_and_in_all_and_come_back() {
        let memory = Memory::new(&Limits { held_bytes: 100, tenant_held_bytes: 60, ..Limits::default() });
        let [a, b] = ["a", "b"].map(|name| Tenant::new(name).unwrap());
        let (first, second, other) = (memory.hold(&a), memory.hold(&a), memory.hold(&b));
        first.resize(40).unwrap();
        assert!(second.resize(21).unwrap_err().message().contains("tenant_held_bytes"));
        second.resize(20).unwrap();
        let error = other.resize(41).unwrap_err();
        assert!(error.message().contains("(held_bytes)"), "{error}");
        assert_eq!(error.reason(), OVERLOADED);
        assert!(error.retry_delay().is_some());
        other.resize(40).unwrap();
        first.resize(10).unwrap();
        assert!(other.resize(u64::MAX).is_err());
        other.resize(60).unwrap();
        // What was refused has changed nothing.
        assert_eq!(memory.state().held, 90);
        drop((first, second, other));
        let state = memory.state();
        assert!(state.held == 0 && state.tenants.is_empty());
    }
}
