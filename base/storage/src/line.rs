//! The line of the tenants, which precedes the line of the connections.
//!
//! Tenants take turns in their line. Only as many callers leave the line as connections can serve,
//! and the server does not wait in it. The waiting calls of tenants therefore never delay the
//! server.

use std::sync::Arc;

use cloakwork_share::{FairShare, Share};

use crate::asker::{Asker, Party};

/// The line of the tenants. Clones share the line.
#[derive(Clone, Debug)]
pub(crate) struct Line(Arc<FairShare<Party>>);

/// A place that a tenant holds until its work has ended. Dropping this admits the next caller.
pub(crate) type Place = Share<Party>;

impl Line {
    /// A line that admits `all_max` callers at a time, and `each_max` callers of one tenant.
    pub(crate) fn new(all_max: u32, each_max: u32) -> Self {
        Self(FairShare::new(all_max.into(), each_max.into()))
    }

    /// Waits until the caller is admitted. The server needs no place.
    pub(crate) async fn enter(&self, asker: Asker<'_>) -> Option<Place> {
        match asker.party() {
            Some(party) => Some(self.0.take(&party, 1).await),
            None => None,
        }
    }
}
