//! Errors of a database, in terms that do not depend on which database runs.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Why a statement or a commit failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The disk of the database is full.
    #[error("the disk of the database is full")]
    Full,
    /// A row with the same unique columns exists.
    #[error("a row with these unique columns exists: {0}")]
    Exists(String),
    /// A row holds a value that this program cannot read.
    #[error("a row is damaged: {0}")]
    Damaged(String),
    /// The caller's queries wait for connections that serve other queries.
    #[error("the database is busy")]
    Busy,
    /// Another transaction holds the lock of the rows for longer than this one may wait.
    #[error("another transaction holds the rows for too long")]
    Locked,
    /// Another process owns the rows by now, so this one must not change them.
    #[error("another server owns the database")]
    Fenced,
    /// The connection is closed, by this process or because its thread ended.
    #[error("the database is closed")]
    Closed,
    /// Any other failure, with the message of the database.
    #[error("{0}")]
    Failed(String),
}

/// Kinds of errors that are counted. A row that exists already is an answer, and no error of the
/// database.
pub const ERROR_KINDS: [&str; 7] = ["full", "damaged", "busy", "locked", "fenced", "closed", "failed"];

static COUNTS: [AtomicU64; ERROR_KINDS.len()] = [const { AtomicU64::new(0) }; ERROR_KINDS.len()];

/// Number of errors in this process so far, in the order of [`ERROR_KINDS`].
pub fn error_counts() -> [u64; ERROR_KINDS.len()] {
    COUNTS.each_ref().map(|count| count.load(Relaxed))
}

impl Error {
    /// Counts the error.
    pub(crate) fn counted(self) -> Self {
        let kind = match self {
            Self::Full => Some(0),
            Self::Exists(_) => None,
            Self::Damaged(_) => Some(1),
            Self::Busy => Some(2),
            Self::Locked => Some(3),
            Self::Fenced => Some(4),
            Self::Closed => Some(5),
            Self::Failed(_) => Some(6),
        };
        kind.into_iter().for_each(|kind: usize| _ = COUNTS[kind].fetch_add(1, Relaxed));
        self
    }
}

/// Why a database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A later version of the program made the database.
    #[error(
        "its schema has version {got}, and this program knows those up to {known}: run the version that it was last \
         used with, or put back a backup from before the upgrade"
    )]
    Newer {
        /// Schema version of the database.
        got: i64,
        /// Latest schema version that this program knows.
        known: i64,
    },
    /// A program with another migration of the same number made the database.
    #[error(
        "its migration {version} differs from that of this program: a build that was never released made the database, \
         and no released version can continue with it"
    )]
    Changed {
        /// Number of the migration.
        version: i64,
    },
    /// The database files cannot be created, or other users' access cannot be removed.
    #[error("its files: {0}")]
    Files(#[from] io::Error),
    /// Any other failure of the database.
    #[error(transparent)]
    Database(#[from] Error),
}
