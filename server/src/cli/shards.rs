//! The command `shards`: divides a database, and lists its shards.

use std::{fmt::Write as _, process::ExitCode};

use clap::Args;
use cloakwork_storage::Database;

use super::place::{Missing, Place};
use crate::shards::{self, SHARDS_MAX};

/// List the shards of a database on a server, or divide the database into more of them.
///
/// Each shard has some of the tenants, and one server decides about their jobs. Start at least as
/// many servers as there are shards, and one more to replace any of them.
#[derive(Debug, Args)]
pub(super) struct Shards {
    /// Divide the database into this many shards. New shards are empty: new tenants go to the
    /// shard with the fewest tenants, and `tenant move` moves others. The number cannot fall.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(1..=i64::from(SHARDS_MAX)))]
    count: Option<i32>,
    #[command(flatten)]
    place: Place,
}

impl Shards {
    pub(super) fn run(self) -> Result<(), ExitCode> {
        let Self { count, place } = self;
        place.with_database(Missing::Refused, async move |database| {
            if !database.is_on_server() {
                return Err("a database file has no shards: database.url names a database on a server".to_owned());
            }
            if let Some(count) = count {
                let grown = shards::grow(&database, count).await.map_err(|error| error.to_string())?;
                grown.map_err(|refusal| refusal.to_string())?;
            }
            table(&database).await.map_err(|error| error.to_string())
        })
    }
}

async fn table(database: &Database) -> Result<String, cloakwork_storage::Error> {
    let mut table = format!("{:<6} {:<8} {:<8} OWNER\n", "SHARD", "TENANTS", "WORKERS");
    for shard in shards::list(database).await? {
        // Writing to a string cannot fail.
        let _ = writeln!(table, "{shard}");
    }
    Ok(table)
}
