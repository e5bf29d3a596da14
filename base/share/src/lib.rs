//! Limits on what tenants use at the same time.
//!
//! A [`FairShare`] bounds one resource twice: what all tenants hold together, and what each tenant
//! holds. A tenant that uses up its own share leaves the rest to the others. Callers either take a
//! [`Share`] at once or learn which limit they exceed, or they wait in line. Lines are one for each
//! tenant, and tenants take turns, so a tenant with many waiting callers delays another tenant's
//! caller by one turn.

#![forbid(unsafe_code)]

mod line;
mod state;

use std::{
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use line::Place;
use state::State;

/// A resource with a limit for all tenants together and a limit for each tenant.
///
/// Memory use is proportional to the tenants that hold or await something. Idle tenants cost
/// nothing.
#[derive(Debug)]
pub struct FairShare<K> {
    state: Mutex<State<K>>,
}

/// Units that a tenant holds. Dropping the share gives the units back.
#[derive(Debug)]
pub struct Share<K: Clone + Eq + Hash> {
    resource: Arc<FairShare<K>>,
    tenant: K,
    units: u64,
}

/// The limit that a request exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    /// The tenant would hold more than its own share.
    #[error("the tenant would hold {wanted}, and may hold {limit}")]
    Each {
        /// The limit for each tenant.
        limit: u64,
        /// Units that the tenant would hold.
        wanted: u64,
    },
    /// All tenants together would hold more than there is.
    #[error("all tenants would hold {wanted}, and may hold {limit}")]
    All {
        /// The limit for all tenants together.
        limit: u64,
        /// Units that all tenants would hold.
        wanted: u64,
    },
}

impl<K: Clone + Eq + Hash> FairShare<K> {
    /// A resource of `all_max` units. Each tenant may hold `each_max` of these units.
    pub fn new(all_max: u64, each_max: u64) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State::new(all_max, each_max)) })
    }

    /// Takes units at once, or names the limit that they exceed.
    ///
    /// A resource has either callers of this function or callers that wait. Calls of this function
    /// would overtake the line.
    pub fn try_take(self: &Arc<Self>, tenant: &K, units: u64) -> Result<Share<K>, Exceeded> {
        let mut share = self.share(tenant);
        share.resize(units)?;
        Ok(share)
    }

    /// A share of no units, for a tenant that takes some later.
    pub fn share(self: &Arc<Self>, tenant: &K) -> Share<K> {
        Share { resource: self.clone(), tenant: tenant.clone(), units: 0 }
    }

    /// Waits until the units are free. A request for more than a tenant may hold takes all of that.
    ///
    /// Dropping the future leaves the line and gives back units that were granted meanwhile.
    pub async fn take(self: &Arc<Self>, tenant: &K, units: u64) -> Share<K> {
        let (units, ticket) = {
            let mut state = self.state();
            let units = units.min(state.request_max());
            (units, state.enter(tenant.clone(), units))
        };
        Place::new(self, tenant, units, ticket).granted().await
    }

    /// Units that all tenants hold together.
    pub fn held(&self) -> u64 {
        self.state().held()
    }

    /// Number of tenants that hold or await units.
    pub fn tenants(&self) -> usize {
        self.state().tenants()
    }

    /// No code that runs under the lock leaves the counts half changed, so a poisoned lock is safe
    /// to use.
    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> Share<K> {
    /// The tenant that holds the units.
    pub fn tenant(&self) -> &K {
        &self.tenant
    }

    /// Units held.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// Changes the number of units. Holding fewer is never refused. A refused change changes
    /// nothing.
    pub fn resize(&mut self, units: u64) -> Result<(), Exceeded> {
        let mut state = self.resource.state();
        if units > self.units {
            state.grow(&self.tenant, units - self.units)?;
        } else {
            state.give_back(&self.tenant, self.units - units);
        }
        self.units = units;
        Ok(())
    }
}

impl<K: Clone + Eq + Hash> Drop for Share<K> {
    fn drop(&mut self) {
        // Holding fewer is never refused.
        let _ = self.resize(0);
    }
}
