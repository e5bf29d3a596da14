//! Calls that this server handles, by tenant.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::tenant::Tenant;

/// Counts the calls of each tenant that are handled here. Streams of answers count until they
/// begin.
#[derive(Debug, Default)]
pub struct Handled(Mutex<HashMap<Tenant, usize>>);

/// A call that is handled.
#[derive(Debug)]
pub(super) struct Handling<'h> {
    of: &'h Handled,
    tenant: Tenant,
}

impl Handled {
    /// Number of the tenant's calls.
    pub fn count(&self, tenant: &Tenant) -> usize {
        self.calls().get(tenant).copied().unwrap_or(0)
    }

    pub(super) fn begin(&self, tenant: Tenant) -> Handling<'_> {
        *self.calls().entry(tenant.clone()).or_default() += 1;
        Handling { of: self, tenant }
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<Tenant, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Handling<'_> {
    fn drop(&mut self) {
        let mut calls = self.of.calls();
        if let Some(count) = calls.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                calls.remove(&self.tenant);
            }
        }
    }
}
