//! How many uploads receive at the same time, in all and of each tenant.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{Error, Limits, TenantId};

/// The seats of all who receive. Only tenants that have one are remembered.
#[derive(Debug, Default)]
pub(crate) struct Seats {
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    total: u32,
    tenants: HashMap<TenantId, u32>,
}

/// The right to receive, until dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Seats>,
    tenant: TenantId,
}

impl Seats {
    /// A seat for a tenant, or a refusal at once: whoever waited in line would hold memory meanwhile.
    pub(crate) fn take(self: &Arc<Self>, tenant: &TenantId, limits: &Limits) -> Result<Seat, Error> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.tenants.get(tenant).copied().unwrap_or(0);
        for (what, limit, got) in [
            ("uploads receiving", limits.writers_total, taken.total),
            ("uploads of the tenant receiving", limits.writers_per_tenant, own),
        ] {
            if got >= limit {
                return Err(Error::TooManyUploads { what, limit });
            }
        }
        taken.total += 1;
        taken.tenants.insert(tenant.clone(), own + 1);
        Ok(Seat { seats: self.clone(), tenant: tenant.clone() })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.total -= 1;
        if let Some(own) = taken.tenants.get_mut(&self.tenant) {
            *own -= 1;
            if *own == 0 {
                taken.tenants.remove(&self.tenant);
            }
        }
    }
}
