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
