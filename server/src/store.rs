//! The server's own database: programs, jobs and what they read and wrote.
//!
//! SQL is the only truth about a job; everything in memory can be made from it again. Queries keep to what SQLite and
//! PostgreSQL have in common.

mod jobs;
mod key_parts;
mod outputs;
mod programs;
mod requests;
mod usage;
mod write;

use crate::database::Database;
use programs::KnownPrograms;
use requests::Requests;

pub use jobs::{JobPage, LiveJob};
pub use outputs::Done;
pub use write::{Attempt, Ended, NewJob, Requeued, Write};

/// A cheap handle on the database.
#[derive(Clone, Debug)]
pub struct Store {
    database: Database,
    programs: KnownPrograms,
    requests: Requests,
}

impl Store {
    /// A store in `database`, whose tables are there.
    pub fn new(database: Database) -> Self {
        Self { database, programs: KnownPrograms::default(), requests: Requests::default() }
    }
}

#[cfg(test)]
pub(crate) mod tests;
