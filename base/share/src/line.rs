//! The place of a caller that waits.

use std::{hash::Hash, sync::Arc};

use crate::{FairShare, Share, state::Ticket};

/// A place in line. Dropping the place leaves the line.
#[derive(Debug)]
pub(crate) struct Place<'t, K: Clone + Eq + Hash> {
    resource: &'t Arc<FairShare<K>>,
    tenant: &'t K,
    units: u64,
    ticket: Option<Ticket>,
}

impl<'t, K: Clone + Eq + Hash> Place<'t, K> {
    pub(crate) fn new(resource: &'t Arc<FairShare<K>>, tenant: &'t K, units: u64, ticket: Ticket) -> Self {
        Self { resource, tenant, units, ticket: Some(ticket) }
    }

    /// Waits for the units.
    pub(crate) async fn granted(mut self) -> Share<K> {
        if let Some(ticket) = &mut self.ticket {
            // The sender is dropped only after it has sent: `leave` is what removes it from the
            // line, and only this place calls that.
            let _ = (&mut ticket.granted).await;
        }
        // From here on the share has the units, and dropping this place must not give them back.
        self.ticket = None;
        Share { resource: self.resource.clone(), tenant: self.tenant.clone(), units: self.units }
    }
}

impl<K: Clone + Eq + Hash> Drop for Place<'_, K> {
    fn drop(&mut self) {
        if let Some(Ticket { number, .. }) = self.ticket.take() {
            self.resource.state().leave(self.tenant, number, self.units);
        }
    }
}
