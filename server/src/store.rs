//! The server's own database: programs, and jobs with their inputs and outputs.
//!
//! The database is the only authority on a job, and all state in memory can be rebuilt from it.
//! Queries keep to the common subset of SQLite and PostgreSQL. All tests of this crate run on both.

mod drained;
mod image;
mod jobs;
mod key_parts;
mod outputs;
mod programs;
mod requests;
mod tenants;
mod usage;
mod write;

use cloakwork_storage::{Asker, Database};

use crate::owner::Ownership;
use programs::KnownPrograms;
use requests::Requests;

pub use drained::set_drained;
pub use jobs::{JobPage, LiveJob};
pub use outputs::Done;
pub use usage::DayUsage;
pub use write::{Attempt, Ended, NewJob, Requeued, Write};

/// A handle to the database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    database: Database,
    programs: KnownPrograms,
    requests: Requests,
    ownership: Ownership,
}

impl Store {
    /// A store in `database`, which must already have the tables.
    pub fn new(database: Database) -> Self {
        let (programs, requests) = <(KnownPrograms, Requests)>::default();
        Self { database, programs, requests, ownership: Ownership::of_directory() }
    }

    /// A store in a database that several servers use, and that this one owns.
    pub fn owned(database: Database, ownership: Ownership) -> Self {
        Self { ownership, ..Self::new(database) }
    }

    /// The right of this server to decide about the jobs of the store.
    pub fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    /// Number of the state that queries see, or `None` during a write through this handle or a
    /// clone of it.
    pub fn version(&self) -> Option<u64> {
        self.database.version()
    }

    /// A handle whose calls use the database as `asker`, instead of as the tenant that they name.
    pub fn always_as(&self, asker: Asker<'static>) -> Self {
        Self { database: self.database.always_as(asker), ..self.clone() }
    }

    /// A handle for calls of workers, which do not wait behind the calls of the tenants.
    pub fn for_workers(&self) -> Self {
        Self { database: self.database.for_workers(), ..self.clone() }
    }
}

#[cfg(test)]
pub(crate) mod tests;
