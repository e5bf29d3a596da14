//! The time of day, for servers that share a database.
//!
//! A server that takes a shard over reads times that another server wrote, such as the deadlines of
//! jobs. If the clocks of both machines differed, jobs would expire early or never. So servers go
//! by the clock of the database.

use std::time::Duration;

use cloakwork_clock::{Clock, micros_of};
use cloakwork_storage::{Asker, Connection, Database, Error};

/// Difference from the clock of the database at which a server moves its own clock. The answer of a
/// busy database takes a part of this time.
const TOLERANCE: Duration = Duration::from_secs(1);

/// Moves the clock to the time of the database if they differ. A file has the time of this machine.
pub(crate) async fn follow_database(clock: &Clock, database: &Database) -> Result<(), Error> {
    if database.is_on_server() {
        follow(clock, &mut *database.read(Asker::Server).await?).await?;
    }
    Ok(())
}

/// Moves the clock to the time of the database if they differ.
pub(crate) async fn follow(clock: &Clock, sql: &mut Connection) -> Result<(), Error> {
    let sent = clock.unmoved_unix_micros();
    let there = sql.query("SELECT cloakwork_now_micros() AS now").one().await?.int("now")?;
    let received = clock.unmoved_unix_micros();
    let moved = clock.moved_micros();
    let earliest = sent.saturating_add(moved).saturating_sub(tolerance());
    let latest = received.saturating_add(moved).saturating_add(tolerance());
    if there < earliest || there > latest {
        let difference = there.saturating_sub(received);
        clock.move_by(difference);
        tracing::warn!(
            difference_seconds = difference / 1_000_000,
            "the clock of this machine differs from that of the database, which this server goes by: set the clock"
        );
    }
    Ok(())
}

fn tolerance() -> i64 {
    i64::try_from(micros_of(TOLERANCE)).unwrap_or(i64::MAX)
}

/// Seconds by which the clock of the machine differs from the time that the server goes by.
pub(super) fn difference_seconds(clock: &Clock) -> u64 {
    clock.moved_micros().unsigned_abs() / 1_000_000
}
