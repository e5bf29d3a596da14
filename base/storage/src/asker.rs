//! Parties that ask the database for a connection.

use std::{sync::Arc, time::Duration};

/// The party for which the database works. Tenants take turns, so a tenant with many waiting calls
/// delays another tenant's call by one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker<'t> {
    /// A call of this tenant.
    Tenant(&'t str),
    /// A call of a worker, for a job of this tenant. The call takes turns like a tenant. The call
    /// holds places that all tenants share, so it must not wait behind the tenant's own calls.
    Work(&'t str),
    /// Work that calls of all tenants wait for, such as decisions about jobs. The server does not
    /// wait in the line of the tenants. No tenant may therefore cause much of this work.
    Server,
    /// Work that no call waits for, such as the removal of expired data. This work takes turns like
    /// a tenant.
    Upkeep,
}

/// Longest wait of a call for an answer of a server.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// A party in the line of the tenants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Party {
    Tenant(Arc<str>),
    Work(Arc<str>),
    Upkeep,
}

impl<'t> Asker<'t> {
    /// The asker of a worker's call that names this asker.
    pub(crate) fn of_worker(self) -> Self {
        match self {
            Self::Tenant(tenant) => Self::Work(tenant),
            other => other,
        }
    }

    /// Longest wait for an answer of a server. Calls fail soon if the server does not answer. Work
    /// that no call waits for may ask for all rows of a table.
    pub(crate) fn answer_timeout(self) -> Duration {
        match self {
            Self::Tenant(_) | Self::Work(_) | Self::Server => ANSWER_TIMEOUT,
            Self::Upkeep => Duration::from_secs(60),
        }
    }

    /// The party in the line of the tenants, or `None` if the asker does not wait there.
    pub(crate) fn party(self) -> Option<Party> {
        match self {
            Self::Tenant(tenant) => Some(Party::Tenant(tenant.into())),
            Self::Work(tenant) => Some(Party::Work(tenant.into())),
            Self::Server => None,
            Self::Upkeep => Some(Party::Upkeep),
        }
    }
}
