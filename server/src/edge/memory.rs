//! The memory that messages of calls take: requests until they are handled, and answers until they
//! are read. All tenants share one limit, and each tenant has a limit of its own.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use cloakwork_share::{Exceeded, FairShare, Share};

use crate::{
    error::{ApiError, OVERLOADED},
    limits::Limits,
    tenant::Tenant,
};

/// Counts the bytes of messages.
#[derive(Debug)]
pub(super) struct Memory(Arc<FairShare<Tenant>>);

impl Memory {
    pub(super) fn new(limits: &Limits) -> Self {
        Self(FairShare::new(limits.held_bytes, limits.tenant_held_bytes))
    }

    /// Memory for the answers to workers, without limits for each tenant.
    pub(super) fn of_workers(limits: &Limits) -> Self {
        Self(FairShare::new(limits.held_bytes, u64::MAX))
    }

    /// Bytes of all messages.
    pub(super) fn used(&self) -> u64 {
        self.0.held()
    }

    /// The memory for messages of one tenant.
    pub(super) fn of(&self, tenant: &Tenant) -> TenantMemory {
        TenantMemory { memory: self.0.clone(), tenant: tenant.clone() }
    }
}

/// The memory for messages of one tenant.
#[derive(Clone, Debug)]
pub(super) struct TenantMemory {
    memory: Arc<FairShare<Tenant>>,
    tenant: Tenant,
}

impl TenantMemory {
    /// A count of bytes that begins at zero.
    pub(super) fn hold(&self) -> Held {
        Held(Mutex::new(self.memory.share(&self.tenant)))
    }

    /// Counts the bytes until their last part is dropped.
    pub(super) fn count(&self, bytes: Bytes) -> Result<Bytes, ApiError> {
        Arc::new(self.hold()).count(bytes)
    }
}

/// A number of bytes that a call holds. Dropping this gives the bytes back.
#[derive(Debug)]
pub struct Held(Mutex<Share<Tenant>>);

impl Held {
    /// Counts these bytes, instead of those before, until their last part is dropped.
    pub(crate) fn count(self: Arc<Self>, bytes: Bytes) -> Result<Bytes, ApiError> {
        struct Counted(Bytes, #[expect(dead_code, reason = "dropping it gives the bytes back")] Arc<Held>);
        impl AsRef<[u8]> for Counted {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        self.resize(bytes.len() as u64)?;
        Ok(Bytes::from_owner(Counted(bytes, self)))
    }

    /// Changes the number of bytes. Holding fewer is never refused.
    pub(crate) fn resize(&self, bytes: u64) -> Result<(), ApiError> {
        let mut share = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        share.resize(bytes).map_err(|exceeded| match exceeded {
            Exceeded::Each { limit, wanted } => {
                refusal("tenant_held_bytes", limit, wanted, format!("tenants/{}", share.tenant().as_str()))
            }
            Exceeded::All { limit, wanted } => refusal("held_bytes", limit, wanted, "server".to_owned()),
        })
    }
}

fn refusal(limit: &'static str, most: u64, got: u64, subject: String) -> ApiError {
    /// Most calls hold their messages for less than this.
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
        let (first, second, other) = (memory.of(&a).hold(), memory.of(&a).hold(), memory.of(&b).hold());
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
        // A refused change changes nothing.
        assert_eq!(memory.0.held(), 90);
        drop((first, second, other));
        assert_eq!((memory.0.held(), memory.0.tenants()), (0, 0));
    }

    #[test]
    fn bytes_are_counted_until_the_last_piece_of_them_is_gone() {
        let memory = Memory::new(&Limits { held_bytes: 100, tenant_held_bytes: 60, ..Limits::default() });
        let share = memory.of(&Tenant::new("a").unwrap());
        let mut counted = share.count(Bytes::from_static(&[7; 40])).unwrap();
        assert!(share.count(Bytes::from_static(&[7; 21])).is_err());
        let piece = counted.split_to(30);
        drop(counted);
        assert_eq!((memory.0.held(), &piece[..]), (40, &[7; 30][..]));
        drop(piece);
        assert_eq!(memory.0.held(), 0);
    }
}
