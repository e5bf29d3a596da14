//! How many bytes of messages calls hold, in all and for each tenant: of a request until it has been dealt with, of an
//! answer until it has been read.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;

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

    /// What a tenant may have of it.
    pub(super) fn share(self: &Arc<Self>, tenant: &Tenant) -> Share {
        Share { memory: self.clone(), tenant: tenant.clone() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A tenant's share of the memory.
#[derive(Clone, Debug)]
pub(super) struct Share {
    memory: Arc<Memory>,
    tenant: Tenant,
}

impl Share {
    /// Nothing as yet.
    pub(super) fn hold(&self) -> Held {
        Held { share: self.clone(), bytes: Mutex::new(0) }
    }

    /// The bytes, counted until the last piece of them is gone.
    pub(super) fn count(&self, bytes: Bytes) -> Result<Bytes, ApiError> {
        struct Counted(Bytes, #[expect(dead_code, reason = "it is there to be dropped")] Held);
        impl AsRef<[u8]> for Counted {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        let held = self.hold();
        held.resize(bytes.len() as u64)?;
        Ok(Bytes::from_owner(Counted(bytes, held)))
    }
}

/// Bytes that are held; dropping it gives them back.
#[derive(Debug)]
pub struct Held {
    share: Share,
    bytes: Mutex<u64>,
}

impl Held {
    /// So many bytes are held now. That is refused where it is more than before, and too much.
    pub(super) fn resize(&self, wanted: u64) -> Result<(), ApiError> {
        let mut own = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted == *own {
            return Ok(());
        }
        let Share { memory, tenant } = &self.share;
        let mut state = memory.state();
        let of_tenant = state.tenants.get(tenant).copied().unwrap_or_default();
        let [all, of_tenant] = [state.held, of_tenant].map(|held| (held - *own).saturating_add(wanted));
        if wanted > *own {
            let Memory { most, tenant_most, .. } = **memory;
            if of_tenant > tenant_most {
                let subject = format!("tenants/{}", tenant.as_str());
                return Err(refusal("tenant_held_bytes", tenant_most, of_tenant, subject));
            }
            if all > most {
                return Err(refusal("held_bytes", most, all, "server".to_owned()));
            }
        }
        state.held = all;
        match of_tenant {
            0 => _ = state.tenants.remove(tenant),
            some => _ = state.tenants.insert(tenant.clone(), some),
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
        let (first, second, other) = (memory.share(&a).hold(), memory.share(&a).hold(), memory.share(&b).hold());
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

    #[test]
    fn bytes_are_counted_until_the_last_piece_of_them_is_gone() {
        let memory = Memory::new(&Limits { held_bytes: 100, tenant_held_bytes: 60, ..Limits::default() });
        let share = memory.share(&Tenant::new("a").unwrap());
        let mut counted = share.count(Bytes::from_static(&[7; 40])).unwrap();
        assert!(share.count(Bytes::from_static(&[7; 21])).is_err());
        let piece = counted.split_to(30);
        drop(counted);
        assert_eq!((memory.state().held, &piece[..]), (40, &[7; 30][..]));
        drop(piece);
        assert_eq!(memory.state().held, 0);
    }
}
