//! The tables of the catalogue, and the move of catalogues that had a file of their own.

use std::path::Path;

use cloakwork_storage::{Database, Migration, OpenError, Schema};

/// The tables of the catalogue.
pub const SCHEMA: Schema = Schema {
    ledger: "_sqlx_migrations_catalogue",
    migrations: &[
        Migration::of_sqlite(1, "start", include_str!("../../migrations/sqlite/0001_start.sql")),
        Migration::of_sqlite(2, "tenants age", include_str!("../../migrations/sqlite/0002_tenants_age.sql")),
        Migration::of_sqlite(3, "bounded", include_str!("../../migrations/sqlite/0003_bounded.sql")),
        Migration::of_sqlite(4, "dimensions", include_str!("../../migrations/sqlite/0004_dimensions.sql")),
        Migration::of_sqlite(5, "results", include_str!("../../migrations/sqlite/0005_results.sql")),
        Migration {
            version: 6,
            name: "microseconds",
            sqlite: include_str!("../../migrations/sqlite/0006_microseconds.sql"),
            postgres: Some(include_str!("../../migrations/postgres/0006_microseconds.sql")),
            compatible_from: 6,
        },
        Migration {
            version: 7,
            name: "store marker",
            sqlite: include_str!("../../migrations/sqlite/0007_store_marker.sql"),
            postgres: Some(include_str!("../../migrations/postgres/0007_store_marker.sql")),
            compatible_from: 6,
        },
        Migration {
            version: 8,
            name: "tenant shards",
            sqlite: include_str!("../../migrations/sqlite/0008_tenant_shards.sql"),
            postgres: Some(include_str!("../../migrations/postgres/0008_tenant_shards.sql")),
            compatible_from: 6,
        },
        Migration {
            version: 9,
            name: "generations",
            sqlite: include_str!("../../migrations/sqlite/0009_generations.sql"),
            postgres: Some(include_str!("../../migrations/postgres/0009_generations.sql")),
            // Earlier versions would look for the objects under other names.
            compatible_from: 9,
        },
        Migration {
            version: 10,
            name: "received",
            sqlite: include_str!("../../migrations/sqlite/0010_received.sql"),
            postgres: Some(include_str!("../../migrations/postgres/0010_received.sql")),
            compatible_from: 9,
        },
    ],
};

/// Ledger of a catalogue in a file of its own.
const FILE_LEDGER: &str = "_sqlx_migrations";

/// Tables whose rows move. Triggers fill `request_counts` from the rows of `requests`.
const TABLES: [&str; 7] = ["blobs", "uploads", "requests", "pins", "keys", "key_parts", "usage"];

/// Moves a catalogue from a file of its own into `database`, and removes the file. Earlier versions
/// of the server kept the catalogue apart. Returns false if there is no such file. No other process
/// may use the file.
pub async fn absorb(database: &Database, file: &Path) -> Result<bool, OpenError> {
    database.absorb(file, &SCHEMA.in_ledger(FILE_LEDGER), &TABLES).await
}
