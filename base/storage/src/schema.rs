//! Schemas: the tables of one component, as a list of migrations.

/// A step from one version of a schema to the next. A released migration never changes: a database
/// whose migration differs from the program's is refused.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Version of the schema after this step. The first version is 1.
    pub version: i64,
    /// Name of the step.
    pub name: &'static str,
    /// Statements for SQLite.
    pub sqlite: &'static str,
    /// Statements for PostgreSQL. The first step that has some creates all tables: PostgreSQL came
    /// after the steps before it, and no database needs them.
    pub postgres: Option<&'static str>,
    /// Earliest version of the schema whose programs still work on PostgreSQL after this step. An
    /// installation with several servers is upgraded one server at a time, so programs of two
    /// versions use one database for a while.
    pub compatible_from: i64,
}

impl Migration {
    /// A step that only SQLite has.
    pub const fn of_sqlite(version: i64, name: &'static str, sqlite: &'static str) -> Self {
        Self { version, name, sqlite, postgres: None, compatible_from: version }
    }

    /// A step that only PostgreSQL has, and that programs of earlier versions cannot work with.
    pub const fn of_postgres(version: i64, name: &'static str, postgres: &'static str) -> Self {
        Self { version, name, sqlite: "", postgres: Some(postgres), compatible_from: version }
    }
}

/// The tables of one component. Several schemas share one database, each with a ledger of its own.
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    /// Table that records which migrations a database has.
    pub ledger: &'static str,
    /// The migrations, by version.
    pub migrations: &'static [Migration],
}

impl Schema {
    /// The latest version.
    pub fn version(&self) -> i64 {
        self.migrations.last().map_or(0, |migration| migration.version)
    }

    /// The schema as it was at an earlier version.
    pub fn at(&self, version: i64) -> Self {
        let count = self.migrations.iter().take_while(|migration| migration.version <= version).count();
        Self { migrations: &self.migrations[..count], ..*self }
    }

    /// These tables, recorded in another ledger.
    pub fn in_ledger(&self, ledger: &'static str) -> Self {
        Self { ledger, ..*self }
    }
}
