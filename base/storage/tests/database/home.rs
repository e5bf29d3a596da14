//! Databases to test: a file, or a database on a server.

use cloakwork_storage::{Asker, Database, Migration, Schema, Server};

pub(crate) const A: Asker<'static> = Asker::Tenant("a");
pub(crate) const B: Asker<'static> = Asker::Tenant("b");

pub(crate) const SCHEMA: Schema = Schema {
    ledger: "_migrations",
    migrations: &[Migration {
        version: 1,
        name: "pairs",
        sqlite: "CREATE TABLE pairs (name TEXT NOT NULL PRIMARY KEY, value BIGINT)",
        postgres: Some("CREATE TABLE pairs (name TEXT COLLATE \"C\" NOT NULL PRIMARY KEY, value BIGINT)"),
        compatible_from: 1,
    }],
};

/// A place for one database.
pub(crate) enum Home {
    Sqlite(tempfile::TempDir),
    Postgres(String),
}

impl Home {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().expect("a directory"))
    }

    /// An empty database, or `None` if PostgreSQL is not installed.
    pub(crate) fn postgres() -> Option<Self> {
        Some(Self::Postgres(cloakwork_tests_postgres::shared()?.database()))
    }

    /// Opens the database, which two tenants can read at the same time.
    pub(crate) async fn open(&self) -> Database {
        let opened = match self {
            Self::Sqlite(directory) => Database::open(&directory.path().join("test.db"), &[SCHEMA], 2).await,
            Self::Postgres(url) => Database::connect(server(url), &[SCHEMA], 2).await,
        };
        opened.expect("a database")
    }

    /// A query for values of several types.
    pub(crate) fn values(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => {
                "SELECT 'text' AS text, 70000 AS large, -1 AS negative, X'0102' AS bytes, NULL AS no_text, \
                 NULL AS no_bytes, NULL AS no_int"
            }
            Self::Postgres(_) => {
                "SELECT 'text' AS text, 70000 AS large, -1 AS negative, decode('0102', 'hex') AS bytes, \
                 NULL::text AS no_text, NULL::bytea AS no_bytes, NULL::bigint AS no_int"
            }
        }
    }
}

pub(crate) fn server(url: &str) -> Server {
    Server::new(url, None, None).expect("a URL")
}
