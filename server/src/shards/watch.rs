//! The watch on all shards, which every server keeps.

use std::{collections::HashMap, sync::Arc, time::Duration};

use cloakwork_clock::Clock;
use cloakwork_storage::{Asker, Database, Error};
use tokio::time::sleep;

use super::{MOVE_NEWS, Moved, PoolLoad, Shards, clock, db_micros, loads, rows};
use crate::metrics::Telemetry;

/// Time between two looks at the shards.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Time between two looks at a database with one shard, by its owner. More shards may come.
const ALONE_INTERVAL: Duration = Duration::from_secs(1);

/// A look at all shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The owners, and the moves of tenants.
    pub shards: Shards,
    /// The loads, by shard and pool.
    pub loads: Vec<PoolLoad>,
}

/// Looks at the shards all the time.
#[derive(Debug)]
pub struct Lookout {
    /// A handle without the check of an owner.
    pub database: Database,
    /// The clock, which follows the clock of the database.
    pub clock: Clock,
    /// Metrics.
    pub telemetry: Arc<Telemetry>,
}

impl Lookout {
    /// Reports each look to `seen`, which returns whether this server has a shard. While the
    /// database is away, the last look stays valid.
    pub async fn run(self, mut seen: impl FnMut(Seen) -> bool) {
        loop {
            let interval = match self.look().await {
                Ok(look) => {
                    let is_alone = look.shards.numbers().nth(1).is_none();
                    if seen(look) && is_alone { ALONE_INTERVAL } else { LOOK_INTERVAL }
                }
                Err(error) => {
                    tracing::debug!(%error, "the database does not tell the owners of its shards");
                    LOOK_INTERVAL
                }
            };
            sleep(interval).await;
        }
    }

    async fn look(&self) -> Result<Seen, Error> {
        let mut reader = self.database.read(Asker::Server).await?;
        clock::follow(&self.clock, &mut reader).await?;
        self.telemetry.metrics.clock_difference.set(clock::difference_seconds(&self.clock), []);
        let rows = rows(&mut reader).await?;
        let without_owner = rows.iter().filter(|row| !row.is_alive).count();
        self.telemetry.metrics.shards_without_owner.set(without_owner as u64, []);
        if rows.len() < 2 {
            return Ok(Seen { shards: Shards::new(&rows, HashMap::new()), loads: Vec::new() });
        }
        let query = reader.query("SELECT * FROM tenant_shards WHERE moved_micros > cloakwork_now_micros() - $1");
        let moved = query.bind(db_micros(MOVE_NEWS)).all().await?;
        let moved = moved.iter().map(|row| {
            let moved = Moved { shard: row.small("shard")?, at_micros: row.int("moved_micros")? };
            Ok((row.text("tenant")?.to_owned(), moved))
        });
        let moved = moved.collect::<Result<_, Error>>()?;
        Ok(Seen { shards: Shards::new(&rows, moved), loads: loads::all(&mut reader).await? })
    }
}
