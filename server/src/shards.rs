//! The shards of a database: parts that have an owner each.
//!
//! A shard consists of some tenants with everything that they have. Its owner decides about their
//! jobs. A database begins with one shard, number 0, which has all tenants without another shard. A
//! server owns at most one shard, and passes the calls of the tenants of other shards on.

mod clock;
mod count;
mod loads;
mod moves;
mod watch;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use cloakwork_clock::micros_of;
use cloakwork_storage::{Connection, Error, Row};

pub(crate) use clock::{follow as follow_clock, follow_database as follow_clock_of};
pub use count::{Listed, SHARDS_MAX, TooFew, emptiest, exists, grow, list};
pub use loads::{PoolLoad, publish};
pub use moves::{departure, hand_over, is_idle, want, wanted};
pub use watch::{Lookout, Seen};

/// Age of a beat after which another server may take over, by the clock of the database.
pub const SILENCE: Duration = Duration::from_secs(4);

/// Time for which a move of a tenant is announced to all servers. Tokens that were looked up before
/// the move name the old shard until they are looked up again.
pub const MOVE_NEWS: Duration = Duration::from_secs(30);

/// A shard, and its owner as the database knows it.
#[derive(Clone, Debug)]
pub struct ShardRow {
    /// Number of the shard.
    pub shard: i32,
    /// Number of owners so far.
    pub epoch: i64,
    /// Number of batches of all owners.
    pub seq: i64,
    /// The owner, if there is one.
    pub owner: Option<[u8; 16]>,
    /// URL of the owner.
    pub url: Option<String>,
    /// Whether the owner has beaten lately.
    pub is_alive: bool,
}

/// Which server owns which shard, and tenants that moved lately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shards {
    owners: BTreeMap<i32, Option<Arc<str>>>,
    moved: HashMap<String, Moved>,
}

/// A move of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The tenant's shard since then.
    pub shard: i32,
    /// Time of the move, by the clock of the database.
    pub at_micros: i64,
}

impl Shards {
    /// The URL of the owner of a shard, if it has one that is alive.
    pub fn owner(&self, shard: i32) -> Option<&Arc<str>> {
        self.owners.get(&shard)?.as_ref()
    }

    /// The shard of a tenant whose shard was `known` a moment ago.
    pub fn of(&self, tenant: &str, known: i32) -> i32 {
        self.moved.get(tenant).map_or(known, |moved| moved.shard)
    }

    /// Takes note of a move, unless a later one is known.
    pub fn note(&mut self, tenant: &str, moved: Moved) {
        let known = self.moved.entry(tenant.to_owned()).or_insert(moved);
        if known.at_micros < moved.at_micros {
            *known = moved;
        }
    }

    /// The numbers of all shards.
    pub fn numbers(&self) -> impl Iterator<Item = i32> {
        self.owners.keys().copied()
    }

    /// Shards with these owners.
    #[cfg(test)]
    pub(crate) fn owned<const COUNT: usize>(owners: [(i32, &str); COUNT]) -> Self {
        Self { owners: owners.map(|(shard, url)| (shard, Some(url.into()))).into(), moved: HashMap::new() }
    }

    fn new(rows: &[ShardRow], moved: HashMap<String, Moved>) -> Self {
        let owner = |row: &ShardRow| row.url.as_deref().filter(|_| row.is_alive).map(Arc::from);
        Self { owners: rows.iter().map(|row| (row.shard, owner(row))).collect(), moved }
    }
}

/// Maximum length of a server's URL. A longer one is no URL of a server, and would fill the log.
const URL_BYTES_MAX: usize = 512;

/// Whether the row of a server has a recent beat, where `$1` is [`SILENCE`]. A beat that lies as
/// far in the future is no sign of life either, because the database's clock was set back. A
/// running owner beats again soon.
macro_rules! is_alive {
    () => {
        "beat_micros BETWEEN cloakwork_now_micros() - $1 AND cloakwork_now_micros() + $1"
    };
}
pub(crate) use is_alive;

/// All shards, by their numbers.
pub async fn rows(sql: &mut Connection) -> Result<Vec<ShardRow>, Error> {
    let query = sql.query(concat!(
        "SELECT shard, epoch, seq, owner, url, CASE WHEN ",
        is_alive!(),
        " THEN 1 ELSE 0 END AS is_alive FROM shards LEFT JOIN replicas ON id = owner ORDER BY shard"
    ));
    query.bind(db_micros(SILENCE)).all().await?.iter().map(shard_row).collect()
}

fn shard_row(row: &Row) -> Result<ShardRow, Error> {
    Ok(ShardRow {
        shard: row.small("shard")?,
        epoch: row.int("epoch")?,
        seq: row.int("seq")?,
        owner: row.array_or_null("owner")?,
        url: row.text_or_null("url")?.filter(|url| url.len() <= URL_BYTES_MAX).map(str::to_owned),
        is_alive: row.flag("is_alive")?,
    })
}

/// A duration as SQL stores it.
pub fn db_micros(duration: Duration) -> i64 {
    i64::try_from(micros_of(duration)).unwrap_or(i64::MAX)
}
