//! The memory of the inputs of jobs that are being submitted.
//!
//! The edge counts the bytes of messages. The inputs of a job take more: each becomes several
//! values in memory, and a short name may stand for an output of another job, which is read into
//! memory. A job may wait for its program to be compiled, or for the dispatcher, while it holds
//! these.

use std::{sync::Arc, time::Duration};

use cloakwork_keystore::TenantId;
use cloakwork_share::{Exceeded, FairShare, Share};

use crate::{
    error::{ApiError, OVERLOADED},
    limits::Limits,
};

/// The memory that all jobs being submitted share. Clones share the state.
#[derive(Clone, Debug)]
pub struct InputMemory(Arc<FairShare<TenantId>>);

/// The memory of one job's inputs, until dropped.
#[derive(Debug)]
pub struct InputBytes(Share<TenantId>);

impl InputMemory {
    /// Memory as large as that for messages.
    pub fn new(limits: &Limits) -> Self {
        Self(FairShare::new(limits.held_bytes, limits.tenant_held_bytes))
    }

    /// A count of bytes that begins at zero.
    pub fn of(&self, tenant: &TenantId) -> InputBytes {
        InputBytes(self.0.share(tenant))
    }
}

impl InputBytes {
    /// Counts more bytes, or refuses the job.
    pub fn add(&mut self, bytes: u64) -> Result<(), ApiError> {
        let bytes = self.0.units().saturating_add(bytes);
        self.0.resize(bytes).map_err(|exceeded| refusal(self.0.tenant(), exceeded))
    }

    /// Counts fewer bytes.
    pub fn remove(&mut self, bytes: u64) {
        // Holding fewer is never refused.
        let _ = self.0.resize(self.0.units().saturating_sub(bytes));
    }
}

fn refusal(tenant: &TenantId, exceeded: Exceeded) -> ApiError {
    /// Most jobs are submitted in less time than this.
    const RETRY: Duration = Duration::from_millis(500);
    let (name, limit, wanted, subject) = match exceeded {
        Exceeded::Each { limit, wanted } => ("tenant_held_bytes", limit, wanted, format!("tenants/{tenant}")),
        Exceeded::All { limit, wanted } => ("held_bytes", limit, wanted, "server".to_owned()),
    };
    OVERLOADED
        .error(format!("inputs of jobs that are being submitted take {wanted} bytes: at most {limit} ({name})"))
        .with("limit", name)
        .retry_after(RETRY)
        .quota(subject, format!("{name} = {limit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_limited_for_each_tenant_and_in_all_until_their_job_is_submitted() {
        let memory = InputMemory::new(&Limits { held_bytes: 100, tenant_held_bytes: 60, ..Limits::default() });
        let [a, b] = ["a", "b"].map(|name| TenantId::new(name).expect("a name"));
        let (mut first, mut second, mut other) = (memory.of(&a), memory.of(&a), memory.of(&b));
        first.add(20).expect("there is room");
        first.add(20).expect("there is room");
        let refusal = second.add(21).expect_err("the tenant's part is used up");
        assert_eq!(refusal.reason(), OVERLOADED);
        assert!(refusal.message().contains("(tenant_held_bytes)") && refusal.retry_delay().is_some(), "{refusal}");
        second.add(20).expect("a refused change changes nothing");
        assert!(other.add(41).expect_err("all is used up").message().contains("(held_bytes)"));
        assert!(other.add(u64::MAX).is_err());
        other.add(40).expect("there is room");
        first.remove(30);
        second.add(20).expect("there is room again");
        drop((first, second, other));
        assert_eq!((memory.0.held(), memory.0.tenants()), (0, 0));
    }
}
