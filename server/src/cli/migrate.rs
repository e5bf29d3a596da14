//! The command `migrate`.

use std::{convert::Infallible, process::ExitCode};

use clap::Args;

use super::place::Place;
use crate::{database, owner};

/// Bring the tables of the database up to date, and print their versions.
///
/// `serve` does this as well. A server whose role in PostgreSQL must not change tables needs this
/// command before its first start and before each upgrade, under another role.
#[derive(Debug, Args)]
pub(super) struct Migrate {
    #[command(flatten)]
    place: Place,
}

impl Migrate {
    pub(super) fn run(self) -> Result<(), ExitCode> {
        self.place.with_migrated_database(async |database| {
            let mut parts = vec![("server", database::SCHEMA), ("catalogue", cloakwork_keystore::SCHEMA)];
            if database.is_on_server() {
                parts.push(("owner", owner::SCHEMA));
            }
            let lines = parts.iter().map(|(name, schema)| format!("{name:<9} version {}\n", schema.version()));
            Ok::<_, Infallible>(lines.collect())
        })
    }
}
